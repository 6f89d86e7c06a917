package postgres

import (
	"slices"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// TestArchiveBatches: the archiver makes batches of slow rows small, so that it locks each row only for a short time.
// It makes batches of fast rows large, so that it moves messages fast. A slow commit, which smaller batches would not
// make faster, leaves batches at up to 100 rows. A busy machine makes batches smaller, so the test requires only that
// the largest batch of fast rows has more than 10.
func TestArchiveBatches(t *testing.T) {
	t.Parallel()

	withDB(t, "AreShortWhileRowsAreSlowAndLongAgainBehindThem", func(t *testing.T, db *sqlx.DB) {
		seedFinal(t, db, 60, "RESOLVED")
		exec(t, db, `UPDATE dlq.dlq_messages SET original_topic = 'slow', created_at = '1999-01-01', updated_at = '1999-01-01'`)
		seedFinal(t, db, 1000, "RESOLVED")
		exec(t, db, `CREATE FUNCTION public.wait() RETURNS TRIGGER LANGUAGE plpgsql AS $$
			BEGIN PERFORM pg_sleep(0.005); RETURN OLD; END $$`)
		exec(t, db, `CREATE TRIGGER wait BEFORE DELETE ON dlq.dlq_messages
			FOR EACH ROW WHEN (OLD.original_topic = 'slow') EXECUTE FUNCTION public.wait()`)
		archiveAll(t, db, 1060)
		slow, quick := archivedAtOnce(t, db, "slow"), archivedAtOnce(t, db, "orders")
		check.True(t, slow[0] <= 10 && slices.Max(slow[1:]) <= 8,
			"got transactions of %v rows of 5 ms, want at most 10 before it is known, and 8 then", slow)
		check.True(t, slices.Max(quick) > 10, "got transactions of %v rows that are quick, want more than 10 in one", quick)
	})

	withDB(t, "AreNotTakenApartForACommitThatIsSlow", func(t *testing.T, db *sqlx.DB) {
		seedFinal(t, db, 600, "DEAD")
		for _, statement := range []string{
			`CREATE TABLE public.batches ()`,
			`CREATE FUNCTION public.note() RETURNS TRIGGER LANGUAGE plpgsql AS $$
			BEGIN INSERT INTO public.batches DEFAULT VALUES; RETURN NULL; END $$`,
			`CREATE TRIGGER note AFTER INSERT ON dlq.dlq_messages_archive FOR EACH STATEMENT EXECUTE FUNCTION public.note()`,
			`CREATE FUNCTION public.wait() RETURNS TRIGGER LANGUAGE plpgsql AS $$
			BEGIN PERFORM pg_sleep(0.026); RETURN NULL; END $$`,
			`CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON public.batches DEFERRABLE INITIALLY DEFERRED
			FOR EACH ROW EXECUTE FUNCTION public.wait()`,
		} {
			exec(t, db, statement)
		}
		archiveAll(t, db, 600)
		got := slices.Max(archivedAtOnce(t, db, "orders"))
		check.True(t, got > 10 && got <= 100,
			"got at most %d rows in a transaction, want more than 10, and no more than 100 when none ends in time", got)
	})
}

// archiveAll runs an archiver with the default settings and checks that it moves the wanted number of messages.
func archiveAll(t *testing.T, db *sqlx.DB, want int64) {
	t.Helper()
	moved, err := New(db).ArchiveOld(t.Context(), 30, 1000)
	check.Require(t, err == nil && moved == want, "got %d, %v, want %d that are archived", moved, err, want)
}

// archivedAtOnce returns the number of messages of a topic that each transaction moved, the earliest transaction first.
func archivedAtOnce(t *testing.T, db *sqlx.DB, topic string) (sizes []int) {
	t.Helper()
	check.NoError(t, db.Select(&sizes, `SELECT count(*) FROM dlq.dlq_messages_archive WHERE original_topic = $1
		GROUP BY xmin::text ORDER BY min(archived_at)`, topic))
	check.Require(t, len(sizes) >= 2, "got transactions of %v rows of %s, want several", sizes, topic)
	return sizes
}

// TestArchiveWalk: the archiver reads few rows when many messages are not due, and finds the due messages however their
// updated_at was set.
func TestArchiveWalk(t *testing.T) {
	t.Parallel()
	for name, statistics := range map[string]string{
		"WithStatistics":    `ANALYZE dlq.dlq_messages`,
		"WithoutStatistics": `SELECT 1`,
	} {
		withDB(t, name, func(t *testing.T, db *sqlx.DB) {
			db.SetMaxOpenConns(1) // one session, because PostgreSQL shows the reads of other sessions only later
			seedAged(t, db, 20_000)
			exec(t, db, statistics)
			for _, run := range []struct{ moved, most int64 }{{11, 100}, {0, 20}} {
				before := visits(t, db)
				moved, err := New(db).ArchiveOld(t.Context(), 30, 3)
				check.True(t, err == nil && moved == run.moved, "got %d, %v, want the %d that are due", moved, err, run.moved)
				got := visits(t, db) - before
				check.True(t, got <= run.most,
					"to move %d messages it visits %d rows and entries, want at most %d", run.moved, got, run.most)
			}
			wantMoved(t, db, 20_000, 11)
			wantExactCounters(t, db)
		})
	}
}

// seedAged inserts n final messages that are not due to be archived, half of them with a created_at in the future, and
// eleven messages that are due. Some of the eleven have ordinary times, some a created_at after the updated_at, and
// some infinite times.
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

// visits returns how many rows of dlq_messages, and how many entries of its indexes, have been read so far.
func visits(t *testing.T, db *sqlx.DB) (n int64) {
	t.Helper()
	exec(t, db, `SELECT pg_stat_force_next_flush()`)
	check.NoError(t, db.Get(&n, `SELECT coalesce(s.seq_tup_read + s.idx_tup_fetch, 0)
			+ (SELECT coalesce(sum(idx_tup_read), 0) FROM pg_stat_user_indexes i WHERE i.relid = s.relid)
		FROM pg_stat_user_tables s WHERE relid = 'dlq.dlq_messages'::regclass`))
	return n
}

// TestArchiveRuns: old runs of the archiver are deleted, but never the run that shows when the archiver last succeeded.
func TestArchiveRuns(t *testing.T) {
	t.Parallel()

	withDB(t, "AreForgottenButTheLastSuccess", func(t *testing.T, db *sqlx.DB) {
		store := New(db)
		for n, result := range []string{"complete", "complete", "incomplete", "stopped", "running"} {
			exec(t, db, `INSERT INTO dlq.archive_runs (id, started_at, finished_at, result)
				SELECT gen_random_uuid(), at, CASE WHEN $2 <> 'running' THEN at END, $2
				FROM (SELECT now() - interval '91 days' + $1 * interval '1 minute' AS at) m`, n, result)
		}
		exec(t, db, `INSERT INTO dlq.archive_runs (id, started_at, finished_at, result) VALUES (gen_random_uuid(), now() - interval '89 days', now(), 'incomplete')`)
		n, err := store.PurgeBookkeeping(t.Context(), 365, 730, 2)
		check.True(t, err == nil && n == 4, "got %d, %v, want 4 of 6 gone", n, err)
		last, complete, err := store.LatestArchiveRuns(t.Context())
		if err != nil || last == nil || last.Result != repository.ArchiveIncomplete || complete == nil || complete.Result != repository.ArchiveComplete {
			t.Errorf("got %+v, %+v, %v, want the incomplete one of late and the last complete one", last, complete, err)
		}
	})
}
