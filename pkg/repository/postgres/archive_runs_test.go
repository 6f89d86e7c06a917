package postgres

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestArchiveRuns: old runs go, but never the one that tells when the last success was.
func TestArchiveRuns(t *testing.T) {
	t.Parallel()

	t.Run("AreForgottenButTheLastSuccess", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		store := New(db)
		for n, result := range []string{"complete", "complete", "incomplete", "stopped", "running"} {
			exec(t, db, `INSERT INTO dlq.archive_runs (id, started_at, finished_at, result)
				SELECT gen_random_uuid(), at, CASE WHEN $2 <> 'running' THEN at END, $2
				FROM (SELECT now() - interval '91 days' + $1 * interval '1 minute' AS at) m`, n, result)
		}
		exec(t, db, `INSERT INTO dlq.archive_runs (id, started_at, finished_at, result) VALUES (gen_random_uuid(), now() - interval '89 days', now(), 'incomplete')`)
		n, err := store.PurgeBookkeeping(t.Context(), 365, 730, 2)
		if err != nil || n != 4 {
			t.Errorf("got %d, %v, want 4 of 6 gone", n, err)
		}
		last, complete, err := store.LatestArchiveRuns(t.Context())
		if err != nil || last == nil || last.Result != repository.ArchiveIncomplete || complete == nil || complete.Result != repository.ArchiveComplete {
			t.Errorf("got %+v, %+v, %v, want the incomplete one of late and the last complete one", last, complete, err)
		}
	})

	t.Run("AreReadByTheirIndexes", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		exec(t, db, `INSERT INTO dlq.archive_runs (id, started_at, finished_at, result)
			SELECT gen_random_uuid(), now() - n * interval '1 minute', now() - n * interval '1 minute', CASE WHEN n % 3 = 0 THEN 'complete' ELSE 'incomplete' END
			FROM generate_series(1, 20000) n`)
		exec(t, db, `ANALYZE dlq.archive_runs`)
		wantWalks(t, planned(t, db, latestArchiveRunsQuery, nil), "archive_runs", []string{"idx_archive_runs_started_at", "idx_archive_runs_complete"})
	})

	t.Run("MayHaveNoTableYet", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		exec(t, db, `DROP TABLE dlq.archive_runs`)
		store := New(db)
		if n, err := store.PurgeBookkeeping(t.Context(), 365, 730, 10); err != nil || n != 0 {
			t.Errorf("got %d, %v, want nothing and no error", n, err)
		}
		if err := store.KeepArchiveRun(t.Context(), repository.ArchiveRun{ID: uuid.New(), Result: repository.ArchiveRunning}); err == nil {
			t.Error("got no error, want that there is no table")
		}
	})
}

// TestRecentGroupsIndexIsBuiltBesideWriters: whoever takes records in changes groups, and
// goes on while an upgrade waits for one that does so for long.
func TestRecentGroupsIndexIsBuiltBesideWriters(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	wantNil(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-20)))
	const group = `INSERT INTO dlq.error_groups (id, first_seen, last_seen) VALUES (gen_random_uuid(), now(), now())`
	long := db.MustBegin()
	long.MustExec(group)
	ended := make(chan error, 1)
	go func() { ended <- migrate.Up(t.Context(), db.DB) }()
	eventually(t, db, "the upgrade waits", waitingQuery, "%CREATE INDEX%error_groups%")
	other := db.MustBegin()
	other.MustExec(`SET LOCAL lock_timeout = '1s'`)
	if _, err := other.Exec(group); err != nil {
		t.Errorf("got %v, want another group beside the upgrade", err)
	}
	_ = other.Rollback()
	wantNil(t, long.Rollback())
	wantNil(t, <-ended)
	var valid bool
	wantNil(t, db.Get(&valid, `SELECT indisvalid FROM pg_index WHERE indexrelid = 'dlq.idx_error_groups_regressed_at'::regclass`))
	if !valid {
		t.Error("the index is not valid")
	}
}

// TestRecentGroupsAreReadByTheirIndexes: metrics must not cost more with every group
// that ever was.
func TestRecentGroupsAreReadByTheirIndexes(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	// In no order, as groups that come back are.
	exec(t, db, `INSERT INTO dlq.error_groups (id, first_seen, last_seen, regressed_at)
		SELECT gen_random_uuid(), now() - n * interval '1 minute', now(), CASE WHEN n % 2 = 0 THEN now() - n * interval '1 minute' END
		FROM generate_series(1, 20000) n ORDER BY random()`)
	exec(t, db, `ANALYZE dlq.error_groups`)
	exec(t, db, `PREPARE recent AS `+recentGroupsQuery)
	for range 10 { // by then the server has decided whether it plans it each time
		exec(t, db, `EXECUTE recent (NULL, 3600000000, '{}')`)
	}
	var lines []string
	wantNil(t, db.Select(&lines, `EXPLAIN EXECUTE recent (NULL, 3600000000, '{}')`))
	plan := strings.Join(lines, "\n")
	for _, index := range []string{"idx_error_groups_first_seen", "idx_error_groups_regressed_at"} {
		if !strings.Contains(plan, index) || strings.Contains(plan, "Seq Scan") {
			t.Errorf("the plan does not use %s alone:\n%s", index, plan)
		}
	}
}
