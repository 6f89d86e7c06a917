package postgres

import (
	"strings"
	"testing"

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
