package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/insight"
)

const deadEntry = `INSERT INTO dlq.audit (at, action, kind, object_id, to_state, actor)
	VALUES (clock_timestamp(), 'attempt', 'message', $1, 'DEAD', 'alice')`

// findEvents finds events, keeps them, and returns their objects.
func findEvents(t *testing.T, s *Store) (objects []uuid.UUID) {
	t.Helper()
	found := check.Must(s.Events(t.Context(), repository.EventQuery{Limit: 10, Patience: time.Hour}))(t)
	kept := check.Must(s.KeepNotices(t.Context(), repository.KeptNotices{Seen: found}))(t)
	check.Require(t, kept, "another process kept the events")
	for _, e := range found.List {
		objects = append(objects, e.Object)
	}
	return objects
}

// eventuallyFind polls until exactly these have been found, each once.
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
		check.NoError(t, check.Err(tx.Exec(deadEntry, early))) // its id is the lower one
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

	withDB(t, "AreFoundByIndexes", func(t *testing.T, db *sqlx.DB) {
		exec(t, db, `INSERT INTO dlq.audit (at, action, kind, object_id, to_state, actor)
			SELECT clock_timestamp(), 'attempt', 'message', gen_random_uuid(), CASE WHEN n % 1000 = 0 THEN 'DEAD' ELSE 'RESOLVED' END, 'a'
			FROM generate_series(1, 20000) n`)
		exec(t, db, `INSERT INTO dlq.error_groups (id, first_seen, new_notified) SELECT md5(n::text)::uuid, now(), n % 1000 > 0 FROM generate_series(1, 20000) n`)
		exec(t, db, `ANALYZE dlq.audit, dlq.error_groups`)
		wantPlan(t, db, insight.TrailEventsQuery, "idx_audit_notified", "'3', 0, 100")
		wantPlan(t, db, insight.GroupEventsQuery, "idx_error_groups_unnotified", "100")
	})
}

func wantPlan(t *testing.T, db *sqlx.DB, query, index, args string) {
	t.Helper()
	tx := db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	tx.MustExec(`SET LOCAL plan_cache_mode = force_generic_plan`)
	tx.MustExec("PREPARE asked AS " + query)
	defer func() { _, _ = tx.Exec(`DEALLOCATE asked`) }()
	lines := getAll[string](t, tx, "EXPLAIN EXECUTE asked ("+args+")")
	plan := strings.Join(lines, "\n")
	check.True(t, strings.Contains(plan, index), "the plan does not use %s:\n%s", index, plan)
}
