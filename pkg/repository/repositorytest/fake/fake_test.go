package fake_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
)

func TestRepository(t *testing.T) {
	t.Parallel()
	repositorytest.Run(t, func(_ *testing.T, clock *repositorytest.Clock) repositorytest.Fixture {
		store := fake.New(clock.Now)
		return repositorytest.Fixture{
			Repository: store,
			Insert:     func(_ *testing.T, m entity.Message) { store.Insert(m) },
			Archive:    func(_ *testing.T, id uuid.UUID) { store.Archive(id) },
		}
	})
}

func TestInsert(t *testing.T) {
	t.Parallel()

	t.Run("IsFoundUnderADeadLetterTopicThatWasNeverOpened", func(t *testing.T) {
		t.Parallel()
		store := fake.New(time.Now)
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
		store := fake.New(time.Now)
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
