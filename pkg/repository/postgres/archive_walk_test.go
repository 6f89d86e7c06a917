package postgres

import (
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestArchiveWalk: what is not due costs the archiver nothing, however much there
// is of it, and what is due is found however it was aged.
func TestArchiveWalk(t *testing.T) {
	t.Parallel()
	for name, statistics := range map[string]string{
		"WithStatistics":    `ANALYZE dlq.dlq_messages`,
		"WithoutStatistics": `SELECT 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := postgrestest.Open(t)
			db.SetMaxOpenConns(1) // a session shows its own numbers when it is asked to
			seedAged(t, db, 20_000)
			exec(t, db, statistics)
			for _, run := range []struct{ moved, most int64 }{{11, 100}, {0, 20}} {
				before := visits(t, db)
				moved, err := New(db).ArchiveOld(t.Context(), 30, 3)
				if err != nil || moved != run.moved {
					t.Errorf("got %d, %v, want the %d that are due", moved, err, run.moved)
				}
				if got := visits(t, db) - before; got > run.most {
					t.Errorf("to move %d messages it visits %d rows and entries, want at most %d", run.moved, got, run.most)
				}
			}
			wantMoved(t, db, 20_000, 11)
			wantExactCounters(t, db)
		})
	}
}

// seedAged puts in n final messages that are not due, half of them backdated, and
// eleven that are: in the order of things, aged by hand, and with times that never
// were or never will be.
func seedAged(t *testing.T, db *sqlx.DB, n int) {
	t.Helper()
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, created_at, updated_at)
		SELECT 'orders', 'boom', 'RESOLVED', now() + CASE WHEN n % 2 = 0 THEN 1 ELSE -1 END * n * interval '1 second', now() - interval '1 second'
		FROM generate_series(1, $1::int) n`, n)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, created_at, updated_at)
		SELECT 'orders', 'boom', status, created_at::timestamptz, updated_at::timestamptz
		FROM (VALUES ('RESOLVED'), ('DEAD')) s (status), (VALUES
			(now() - interval '40 days', now() - interval '31 days'),
			(now(), now() - interval '31 days'),
			(now() + interval '9 years', now() - interval '31 days'),
			('infinity', now() - interval '31 days'),
			('-infinity', '-infinity')) t (created_at, updated_at)
		UNION ALL SELECT 'orders', 'boom', 'RESOLVED', now(), '-infinity'`)
}

// visits is how many rows of the messages' table, and entries of its indexes, were
// read so far.
func visits(t *testing.T, db *sqlx.DB) (n int64) {
	t.Helper()
	exec(t, db, `SELECT pg_stat_force_next_flush()`)
	wantNil(t, db.Get(&n, `SELECT coalesce(s.seq_tup_read + s.idx_tup_fetch, 0)
			+ (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes i WHERE i.relid = s.relid)
		FROM pg_stat_user_tables s WHERE relid = 'dlq.dlq_messages'::regclass`))
	return n
}
