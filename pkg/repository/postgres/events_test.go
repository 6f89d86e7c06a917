package postgres

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const deadEntry = `INSERT INTO dlq.audit (at, action, kind, object_id, to_state, actor)
	VALUES (clock_timestamp(), 'attempt', 'message', $1, 'DEAD', 'alice')`

// findEvents reads new events, marks them as read with KeepNotifications, and returns the ids of the messages or other
// objects to which they belong.
func findEvents(t *testing.T, s *Store) (objects []uuid.UUID) {
	t.Helper()
	found := check.Must(s.Events(t.Context(), repository.EventQuery{Limit: 10, Patience: time.Hour}))(t)
	kept := check.Must(s.KeepNotifications(t.Context(), repository.KeptNotifications{Seen: found}))(t)
	check.Require(t, kept, "another process kept the events")
	for _, e := range found.List {
		objects = append(objects, e.Object)
	}
	return objects
}

// eventuallyFind calls findEvents until it has returned each wanted id. It fails the test when findEvents returns
// another id, or the same id twice.
func eventuallyFind(t *testing.T, s *Store, want ...uuid.UUID) {
	t.Helper()
	missing := map[uuid.UUID]bool{}
	for _, id := range want {
		missing[id] = true
	}
	for range 3000 {
		for _, id := range findEvents(t, s) {
			check.True(t, missing[id], "found %s, want each of %v once", id, want)
			delete(missing, id)
		}
		if len(missing) == 0 {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatalf("never found %v", missing)
}

func TestEvents(t *testing.T) {
	t.Parallel()

	withDB(t, "OfATransactionThatEndsLateAreNotLost", func(t *testing.T, db *sqlx.DB) {
		s := New(db)
		findEvents(t, s)
		early, late := uuid.New(), uuid.New()
		tx := db.MustBegin()
		defer func() { _ = tx.Rollback() }()
		check.NoError(t, check.Err(tx.Exec(deadEntry, early))) // this audit entry gets a lower id than the next one
		exec(t, db, deadEntry, late)
		for range 3 {
			found := findEvents(t, s)
			check.True(t, len(found) <= 0, "found %v while an older transaction is open, want none yet", found)
		}
		check.NoError(t, tx.Commit())
		eventuallyFind(t, s, early, late)
	})

	withDB(t, "BeginAnewOnAServerThatCountsAnew", func(t *testing.T, db *sqlx.DB) {
		s := New(db)
		findEvents(t, s)
		exec(t, db, `UPDATE dlq.notification_state SET mark_xid = '9000000000000'`)
		findEvents(t, s)
		id := uuid.New()
		exec(t, db, deadEntry, id)
		eventuallyFind(t, s, id)
	})
}
