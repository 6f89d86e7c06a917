package memory_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest"
)

func TestCore(t *testing.T) {
	t.Parallel()
	repositorytest.RunCore(t, func(_ *testing.T, clock *repositorytest.Clock) repositorytest.CoreFixture {
		store := memory.New(clock.Now)
		return repositorytest.CoreFixture{Core: store, Insert: func(_ *testing.T, m entity.Message) { store.Insert(m) }}
	})
}

func TestInsert(t *testing.T) {
	t.Parallel()

	t.Run("IsFoundUnderADeadLetterTopicThatWasNeverOpened", func(t *testing.T) {
		t.Parallel()
		store := memory.New(time.Now)
		m := entity.NewMessage("orders", "boom", time.Now())
		m.Source = entity.Source{Topic: "orders.dlq", Partition: 1, Offset: 7}
		store.Insert(m)
		list, err := store.List(t.Context(), "orders.dlq", repository.Page{Number: 1, Size: 10})
		if err != nil || len(list.Messages) != 1 || list.Messages[0].ID != m.ID {
			t.Errorf("List(orders.dlq) = %v, %v, want %v", list.Messages, err, m.ID)
		}
	})

	t.Run("SharesNoBytes", func(t *testing.T) {
		t.Parallel()
		store := memory.New(time.Now)
		m := entity.NewMessage("orders", "boom", time.Now())
		m.Record.Value = []byte("value")
		store.Insert(m)
		m.Record.Value[0] = 'X'
		got, err := store.Get(t.Context(), m.ID, -1)
		if err != nil || string(got.Record.Value) != "value" {
			t.Errorf("Get = %q, %v, want %q", got.Record.Value, err, "value")
		}
	})
}

func TestOperationsKeepTheNewest(t *testing.T) {
	t.Parallel()
	const kept = 100_000
	store := memory.New(time.Now)
	first, later := uuid.New(), uuid.New()
	record := func(operation uuid.UUID) {
		t.Helper()
		entry := entity.AuditEntry{
			Action: entity.ActionUnmask, Kind: entity.KindMessage, ObjectID: uuid.New(), Cause: entity.AuditInfo{Actor: "alice", Operation: operation},
		}
		check.NoError(t, store.Record(t.Context(), entry))
	}
	record(first)
	for range kept {
		record(later)
	}
	for operation, want := range map[uuid.UUID]bool{first: false, later: true} {
		if got, err := store.Performed(t.Context(), operation); err != nil || got != want {
			t.Errorf("Performed = %v, %v, want %v: the oldest is forgotten, no other", got, err, want)
		}
	}
}

func TestOtherRedrivesNeedADatabase(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*repository.NewRedrive){
		"another action": func(n *repository.NewRedrive) { n.Action = entity.RedriveDelete },
		"an option":      func(n *repository.NewRedrive) { n.Options.Canary = 1 },
		"ids":            func(n *repository.NewRedrive) { n.Selection.IDs = []uuid.UUID{uuid.New()} },
		"a filter":       func(n *repository.NewRedrive) { n.Selection.Statuses = []entity.Status{entity.Dead} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := repository.NewRedrive{
				ID: uuid.New(), Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: "orders"}},
				Cause: entity.By("alice"), BatchSize: 10,
			}
			change(&n)
			_, err := memory.New(time.Now).CreateRedrive(t.Context(), n)
			if !errors.Is(err, repository.ErrNeedsDatabase) || !errors.Is(err, entity.ErrUnavailable) {
				t.Errorf("CreateRedrive = %v, want that it needs a database, and unavailable", err)
			}
		})
	}
}

func TestReturnFromAnotherDeadLetterTopic(t *testing.T) {
	t.Parallel()
	for name, declared := range map[string]bool{"IsUnconfirmed": false, "IsConfirmedWhereItIsDeclared": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := memory.New(time.Now)
			parent := entity.NewMessage("orders", "boom", time.Now())
			parent.Source = entity.Source{Topic: "orders.dlq"}
			store.Insert(parent)
			claim := repository.Claim{MessageID: parent.ID, ID: uuid.New(), Topic: "orders"}
			if _, err := store.Claim(t.Context(), []repository.Claim{claim}, repository.Claiming{Expiry: time.Minute}); err != nil {
				t.Fatal(err)
			}
			got, child := comeBack(t, store, parent, claim.ID, declared)
			if child.Parent != parent.ID || child.UnconfirmedReturn == declared || (got.Outcome == entity.Returned) != declared {
				t.Errorf("child of %s, unconfirmed: %v, outcome %q, want a child of %s, confirmed: %v",
					child.Parent, child.UnconfirmedReturn, got.Outcome, parent.ID, declared)
			}
		})
	}
}

// comeBack stores a return of an attempt in a dead-letter topic that has no other messages, and returns the parent and
// the child as they are stored afterwards.
func comeBack(t *testing.T, store *memory.Store, parent entity.Message, attempt uuid.UUID, declared bool) (after, child entity.Message) {
	t.Helper()
	refs, err := store.OpenTopics(t.Context(), []repository.Topic{{Name: "other.dlq", Incarnation: "life-1"}})
	check.NoError(t, err)
	partition := repository.Partition{Incarnation: refs[0].Incarnation}
	if _, err := store.OpenPosition(t.Context(), []repository.Position{{Partition: partition}}); err != nil {
		t.Fatal(err)
	}
	child = entity.NewMessage("orders", "boom", time.Now())
	child.Source = entity.Source{Topic: "other.dlq", TopicID: refs[0].TopicID, Incarnation: refs[0].Incarnation}
	child.Return = &entity.Return{Parent: parent.ID, Attempt: attempt}
	_, err = store.Store(t.Context(), repository.Batch{
		Ranges: []repository.Range{{Partition: partition, To: 1}}, Messages: []entity.Message{child},
		Declared: func(*entity.Message) bool { return declared },
	})
	check.NoError(t, err)
	if after, err = store.Get(t.Context(), parent.ID, 0); err != nil {
		t.Fatal(err)
	}
	if child, err = store.Get(t.Context(), child.ID, 0); err != nil {
		t.Fatal(err)
	}
	return after, child
}
