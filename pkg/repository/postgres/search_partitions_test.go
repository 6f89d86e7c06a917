package postgres

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// partitionsOf are the days that the search index has partitions of.
func partitionsOf(t *testing.T, db *sqlx.DB) (days []string) {
	t.Helper()
	wantNil(t, db.Select(&days, `SELECT right(c.relname, 8) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'dlq.message_documents'::regclass ORDER BY 1`))
	return days
}

func dayOf(at time.Time) string { return at.UTC().Format("20060102") }

// insertAt puts in a message that was created at a time.
func insertAt(t *testing.T, db *sqlx.DB, at string) (id uuid.UUID) {
	t.Helper()
	wantNil(t, db.Get(&id, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, group_id, created_at)
		VALUES ('orders', 'boom', 'DEAD', gen_random_uuid(), $1) RETURNING id`, at))
	return id
}

// TestDocumentsOfAnyTime: a message may be older than every partition, or newer.
func TestDocumentsOfAnyTime(t *testing.T) {
	t.Parallel()
	f := newFinder(t)
	f.store.AnswerFrom(1)
	if got, want := partitionsOf(t, f.db), []string{dayOf(f.now), dayOf(f.now.AddDate(0, 0, 1))}; !slices.Equal(got, want) {
		t.Fatalf("the indexer created partitions of %v, want %v", got, want)
	}
	var want []uuid.UUID
	for _, at := range []string{"2345-06-07 08:00Z", "2100-01-01 00:00Z", "2026-02-03 23:59:59.999999Z", "2026-02-03 00:00Z", "2026-02-02 23:59:59Z", "1999-12-31 23:59Z", "0044-03-15 BC"} {
		id := insertAt(t, f.db, at)
		f.keep([]uuid.UUID{id})
		want = append(want, id)
	}
	f.keep(want) // again
	for _, day := range []string{"19991231", "20260202", "20260203", "21000101"} {
		if !slices.Contains(partitionsOf(t, f.db), day) {
			t.Errorf("there is no partition of %s among %v", day, partitionsOf(t, f.db))
		}
	}
	exec(t, f.db, `UPDATE dlq.search_index SET walked_at = '2400-01-01', found_until = '2400-01-01'`)
	for _, searchTime := range []time.Duration{time.Minute, 0} {
		f.store.searchTime = searchTime
		for _, ascending := range []bool{false, true} {
			q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"boom"}}, Sort: repository.Sort{Ascending: ascending}, Limit: 3}
			if got := pageByPage(t, f.store, q, 3); !slices.Equal(got, want) {
				t.Errorf("ascending %t: got %v, want %v", ascending, got, want)
			}
			slices.Reverse(want)
		}
	}
}

// TestEmptyPartitionsAreDropped: a partition goes when none of its messages is live or
// archived any more, and comes back with a message that needs it.
func TestEmptyPartitionsAreDropped(t *testing.T) {
	t.Parallel()
	f := newFinder(t)
	live, archived, gone := insertAt(t, f.db, "2026-01-01 12:00Z"), insertAt(t, f.db, "2026-01-02 12:00Z"), insertAt(t, f.db, "2026-01-03 12:00Z")
	f.keep([]uuid.UUID{live, archived, gone})
	archive(t, f.db, archived)
	exec(t, f.db, `DELETE FROM dlq.dlq_messages WHERE id = $1`, gone)
	ahead := partitionsOf(t, f.db)[3:]
	purge := func() {
		t.Helper()
		_, err := f.store.PurgeBookkeeping(t.Context(), 365, 730, 10)
		wantNil(t, err)
	}
	want := func(what string, days ...string) {
		t.Helper()
		if got := partitionsOf(t, f.db); !slices.Equal(got, append(days, ahead...)) {
			t.Errorf("%s: got partitions of %v, want %v and %v", what, got, days, ahead)
		}
	}
	tx, err := f.db.Beginx() // a search that is under way
	wantNil(t, err)
	_, err = tx.Exec(`SELECT FROM dlq.message_documents`)
	wantNil(t, err)
	purge()
	want("beside a search", "20260101", "20260102", "20260103")
	wantNil(t, tx.Rollback())
	purge()
	want("empty", "20260101", "20260102")
	_, err = f.store.Restore(t.Context(), archived, entity.By("alice"))
	wantNil(t, err)
	purge()
	want("restored", "20260101", "20260102")
	exec(t, f.db, `DELETE FROM dlq.dlq_messages`)
	purge()
	want("of nothing")
	f.keep([]uuid.UUID{insertAt(t, f.db, "2026-01-02 13:00Z")})
	want("late", "20260102")
}

// TestStatementOfASearchEnds: one that takes too long leaves the transaction as it was.
func TestStatementOfASearchEnds(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	exec(t, db, `UPDATE dlq.search_index SET version = 1`)
	id := insertAt(t, db, "2026-01-02 12:00Z")
	storeDocuments(t, db, `'boom'`, `'{}'`, `dlq.dlq_messages m`)
	lock, err := db.Beginx()
	wantNil(t, err)
	defer func() { _ = lock.Rollback() }()
	_, err = lock.Exec(`LOCK TABLE dlq.message_documents_20260102 IN ACCESS EXCLUSIVE MODE`)
	wantNil(t, err)
	store := New(db)
	q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"boom"}}, Limit: 5}
	err = store.bounded(t.Context(), time.Minute, func(tx *sqlx.Tx) error {
		r := &rangeReader{tx: tx, from: sourceOf(false), short: 20 * time.Millisecond, long: time.Minute}
		days, err := r.begin(t.Context(), &textSearch{q: q})
		wantNil(t, err)
		if len(days) != 1 || days[0].length() != dayLength {
			t.Fatalf("got the days %v, want one", days)
		}
		hits, ended, err := r.find(t.Context(), q, days[0])
		if err != nil || ended || len(hits) != 0 {
			t.Errorf("beside a lock: got %v, %t, %v, want that it does not end", hits, ended, err)
		}
		wantNil(t, lock.Rollback())
		r.short = time.Minute
		hits, ended, err = r.find(t.Context(), q, days[0])
		if err != nil || !ended || !slices.Equal(hits, []uuid.UUID{id}) {
			t.Errorf("without it: got %v, %t, %v, want the message", hits, ended, err)
		}
		return nil
	})
	wantNil(t, err)
}
