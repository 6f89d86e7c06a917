package postgres

import (
	"slices"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestArchiveBatches: nobody waits long for a row that is being archived, and an
// archiver is not slow for that. A wait that is made here lasts at least as long as it
// says, on any machine; that something is quick is asked of one batch of many.
func TestArchiveBatches(t *testing.T) {
	t.Parallel()

	t.Run("AreShortWhileRowsAreSlowAndLongAgainBehindThem", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		seedFinal(t, db, 60, "RESOLVED")
		exec(t, db, `UPDATE dlq.dlq_messages SET original_topic = 'slow', created_at = '1999-01-01', updated_at = '1999-01-01'`)
		seedFinal(t, db, 1000, "RESOLVED")
		exec(t, db, `CREATE FUNCTION public.wait() RETURNS TRIGGER LANGUAGE plpgsql AS $$
			BEGIN PERFORM pg_sleep(0.005); RETURN OLD; END $$`)
		exec(t, db, `CREATE TRIGGER wait BEFORE DELETE ON dlq.dlq_messages
			FOR EACH ROW WHEN (OLD.original_topic = 'slow') EXECUTE FUNCTION public.wait()`)
		archiveAll(t, db, 1060)
		slow, quick := archivedAtOnce(t, db, "slow"), archivedAtOnce(t, db, "orders")
		if slow[0] > 10 || slices.Max(slow[1:]) > 8 {
			t.Errorf("got transactions of %v rows of 5 ms, want at most 10 before it is known, and 8 then", slow)
		}
		if got := slices.Max(quick); got <= 10 {
			t.Errorf("got transactions of %v rows that are quick, want more than 10 in one", quick)
		}
	})

	t.Run("AreNotTakenApartForACommitThatIsSlow", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
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
		if got := slices.Max(archivedAtOnce(t, db, "orders")); got <= 10 || got > 100 {
			t.Errorf("got at most %d rows in a transaction, want more than 10, and no more than 100 when none ends in time", got)
		}
	})
}

// archiveAll wants an archiver with the usual settings to move so many.
func archiveAll(t *testing.T, db *sqlx.DB, want int64) {
	t.Helper()
	moved, err := New(db).ArchiveOld(t.Context(), 30, 1000)
	if err != nil || moved != want {
		t.Fatalf("got %d, %v, want %d that are archived", moved, err, want)
	}
}

// archivedAtOnce is how many messages of a topic each transaction moved, in the order
// of time.
func archivedAtOnce(t *testing.T, db *sqlx.DB, topic string) (sizes []int) {
	t.Helper()
	wantNil(t, db.Select(&sizes, `SELECT count(*) FROM dlq.dlq_messages_archive WHERE original_topic = $1
		GROUP BY xmin::text ORDER BY min(archived_at)`, topic))
	if len(sizes) < 2 {
		t.Fatalf("got transactions of %v rows of %s, want several", sizes, topic)
	}
	return sizes
}
