package redrive_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// rows contains a Service on a real database, in which another session can lock the rows of messages.
type rows struct {
	*testing.T
	*redrive.Service
	db    *sqlx.DB
	store *postgres.Store
}

// lockedRows stores n messages, and opens a database session that locks their rows until unlock is called.
func lockedRows(t *testing.T, n int) (r *rows, ids []uuid.UUID, unlock func()) {
	t.Helper()
	db := postgrestest.Open(t)
	r = &rows{T: t, db: db, store: postgres.New(db)}
	r.Service = redrive.New(redrive.DefaultConfig(), stores.Fill[redrive.Stores](r.store), accepting{}, prometheus.NewRegistry(), zap.NewNop())
	for range n {
		ids = append(ids, addByHand(t, db))
	}
	tx := db.MustBegin()
	check.Must(tx.Exec(`UPDATE dlq.dlq_messages SET error_class = 'changed by another session'`))(t)
	unlock = sync.OnceFunc(func() { check.Equal(t, tx.Commit(), nil, "unlock") })
	t.Cleanup(unlock)
	return r, ids, unlock
}

func (r *rows) begin() uuid.UUID {
	r.Helper()
	made := check.Must(r.Begin(r.Context(), repository.NewRedrive{
		Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: "orders"}}, Cause: entity.By("tester"),
	}))(r)
	return made.ID
}

// carry runs redrives until the returned function is called.
func (r *rows) carry() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var over sync.WaitGroup
	over.Go(func() { r.RunRedrives(ctx) })
	return func() { cancel(); over.Wait() }
}

// waits waits until the redrive has begun to wait for the locked rows, and returns it.
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

// TestRowsThatAnotherSessionLocks: on a real database, the redrive of messages whose rows another session locks waits
// for that session and then takes all of them. A retry of one such message is unavailable until then.
func TestRowsThatAnotherSessionLocks(t *testing.T) {
	t.Parallel()

	t.Run("AreAllRetriedOnceItIsOver", func(t *testing.T) {
		t.Parallel()
		r, _, unlock := lockedRows(t, 20)
		defer r.carry()()
		id := r.begin()
		c := r.waits(id).Counts
		check.True(t, c.Waiting == 20, "counts = %+v, want 20 waiting", c)
		unlock()
		got, err := r.Wait(t.Context(), id)
		check.True(t, err == nil && got.Counts.Succeeded == 20 && got.Counts.Skipped == 0,
			"redrive = %+v, %v, want 20 succeeded, none skipped", got.Counts, err)
	})

	t.Run("RetryOfOneIsUnavailable", func(t *testing.T) {
		t.Parallel()
		r, ids, unlock := lockedRows(t, 1)
		order := entity.RetryOrder{ID: ids[0], Cause: entity.By("alice")}
		check.Is(t, check.Err(r.Retry(t.Context(), order)), entity.ErrUnavailable, "Retry of a locked message")
		unlock()
		result, err := r.Retry(t.Context(), order)
		check.True(t, err == nil && result.Status == entity.Resolved, "Retry after the lock = %+v, %v, want RESOLVED", result, err)
		wantRow(t, r.db, ids[0], "RESOLVED", "retry_count = 1")
	})
}
