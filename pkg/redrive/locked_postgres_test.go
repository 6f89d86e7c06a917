package redrive_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// rows are messages in a real database, which another session can lock.
type rows struct {
	*testing.T
	*redrive.Service
	db    *sqlx.DB
	store *postgres.Store
}

// lockedRows makes n messages and a session that locks them until unlock is called.
func lockedRows(t *testing.T, n int) (r *rows, ids []uuid.UUID, unlock func()) {
	t.Helper()
	db := postgrestest.Open(t)
	r = &rows{T: t, db: db, store: postgres.New(db)}
	r.Service = redrive.New(redrive.DefaultConfig(), r.store, accepting{}, prometheus.NewRegistry(), zap.NewNop())
	for range n {
		ids = append(ids, addByHand(t, db))
	}
	tx := db.MustBegin()
	if _, err := tx.Exec(`UPDATE dlq.dlq_messages SET error_class = 'changed by another session'`); err != nil {
		t.Fatal(err)
	}
	unlock = sync.OnceFunc(func() {
		if err := tx.Commit(); err != nil {
			t.Errorf("unlock: %v", err)
		}
	})
	t.Cleanup(unlock)
	return r, ids, unlock
}

func (r *rows) begin() uuid.UUID {
	r.Helper()
	made, err := r.Begin(r.Context(), repository.NewRedrive{
		Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: "orders"}}, Cause: entity.By("tester"),
	})
	if err != nil {
		r.Fatalf("Begin: %v", err)
	}
	return made.ID
}

// carry carries redrives on until the function that it returns is called.
func (r *rows) carry() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() { r.RunRedrives(ctx) })
	return func() { cancel(); over.Wait() }
}

// waits returns the redrive once it waits for the lock.
func (r *rows) waits(id uuid.UUID) entity.Redrive {
	r.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-ticker.C {
		if found, err := r.store.Redrive(r.Context(), id); err == nil && !found.WaitingSince.IsZero() {
			return found
		}
	}
	r.Fatal("redrive of locked messages does not wait")
	return entity.Redrive{}
}

// TestRowsThatAnotherSessionLocks: on a real database, the redrive of messages whose
// rows another session locks waits for that session and takes them all.
func TestRowsThatAnotherSessionLocks(t *testing.T) {
	t.Parallel()

	t.Run("AreAllRetriedOnceItIsOver", func(t *testing.T) {
		t.Parallel()
		r, _, unlock := lockedRows(t, 20)
		defer r.carry()()
		id := r.begin()
		if c := r.waits(id).Counts; c.Waiting != 20 {
			t.Errorf("counts = %+v, want 20 waiting", c)
		}
		unlock()
		got, err := r.Wait(t.Context(), id)
		if err != nil || got.Counts.Succeeded != 20 || got.Counts.Skipped != 0 {
			t.Errorf("redrive = %+v, %v, want 20 succeeded, none skipped", got.Counts, err)
		}
	})

	t.Run("CanBeLeftByCancelling", func(t *testing.T) {
		t.Parallel()
		r, ids, _ := lockedRows(t, 20)
		defer r.carry()()
		id := r.begin()
		r.waits(id)
		if _, err := r.Cancel(t.Context(), id, entity.By("alice")); err != nil {
			t.Fatalf("Cancel: %v", err)
		}
		got, err := r.Wait(t.Context(), id)
		if err != nil || got.State != entity.RedriveCancelled || got.Counts.Waiting != 20 {
			t.Errorf("redrive = %s, %+v, %v, want cancelled with 20 waiting", got.State, got.Counts, err)
		}
		wantRow(t, r.db, ids[0], "PENDING", "retry_count = 0")
	})

	t.Run("AreTakenOverFromAProcessThatEnds", func(t *testing.T) {
		t.Parallel()
		r, _, unlock := lockedRows(t, 20)
		other := *r
		other.Service = redrive.New(redrive.DefaultConfig(), r.store, accepting{}, prometheus.NewRegistry(), zap.NewNop())
		stop := r.carry()
		id := r.begin()
		r.waits(id)
		stop()
		defer other.carry()()
		unlock()
		got, err := other.Wait(t.Context(), id)
		if err != nil || got.Counts.Succeeded != 20 {
			t.Errorf("redrive = %+v, %v, want 20 succeeded", got.Counts, err)
		}
	})

	t.Run("RetryOfOneIsUnavailable", func(t *testing.T) {
		t.Parallel()
		r, ids, unlock := lockedRows(t, 1)
		order := entity.RetryOrder{ID: ids[0], Cause: entity.By("alice")}
		if _, err := r.Retry(t.Context(), order); !errors.Is(err, entity.ErrUnavailable) {
			t.Errorf("Retry of a locked message = %v, want unavailable", err)
		}
		unlock()
		if result, err := r.Retry(t.Context(), order); err != nil || result.Status != entity.Resolved {
			t.Errorf("Retry after the lock = %+v, %v, want RESOLVED", result, err)
		}
		wantRow(t, r.db, ids[0], "RESOLVED", "retry_count = 1")
	})
}
