package postgres

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestTooBroad: a search that takes too long ends with a TooBroadError; a search that its caller cancels ends with
// another error. In this test every search takes too long, because it waits for a lock. After the lock was released,
// all searches succeed.
func TestTooBroad(t *testing.T) {
	db := freshDB(t)
	seedTen(t, db, "DEAD", "2001-01-01")
	lock := begin(t, db)
	check.NoError(t, check.Err(lock.Exec(`LOCK TABLE dlq.dlq_messages IN ACCESS EXCLUSIVE MODE`)))
	store := New(db)
	store.Searcher.SearchTimeout, store.Searcher.CountTimeout = 50*time.Millisecond, 50*time.Millisecond
	filter := entity.Filter{ErrorClass: "x"}
	calls := map[string]func(ctx context.Context) error{
		"Search": func(ctx context.Context) error {
			_, err := store.Search(ctx, repository.SearchQuery{Filter: filter, Limit: 10})
			return err
		},
		"SearchForWords": func(ctx context.Context) error {
			_, err := store.Search(ctx, repository.SearchQuery{Filter: entity.Filter{Words: []string{"boom"}}, Limit: 10})
			return err
		},
		"Count": func(ctx context.Context) error { // an estimate waits for the lock like an exact count
			_, err := store.CountMatching(ctx, repository.CountQuery{Filter: filter, How: repository.CountExact})
			return err
		},
		"Export": func(ctx context.Context) error {
			return store.Export(ctx, repository.ExportQuery{Filter: filter, Limit: 10}, func(*entity.Message) error { return nil })
		},
	}
	for name, call := range calls {
		var broad *repository.TooBroadError
		if err := call(t.Context()); !errors.As(err, &broad) || !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: got %v, want it too broad", name, err)
		}
	}
	store.Searcher.SearchTimeout, store.Searcher.CountTimeout = time.Minute, time.Minute
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		var broad *repository.TooBroadError
		if err := call(ctx); err == nil || errors.As(err, &broad) {
			t.Errorf("%s: got %v, want the caller's own end", name, err)
		}
		cancel()
	}
	check.NoError(t, lock.Rollback())
	for name, call := range calls {
		wantNilOf(t, name, call(t.Context()))
	}
}

func wantNilOf(t *testing.T, name string, err error) {
	t.Helper()
	check.True(t, err == nil, "%s: %v", name, err)
}

// TestDocuments: a search document is deleted together with its message, and kept when the message is archived.
func TestDocuments(t *testing.T) {
	t.Parallel()
	seed := func(t *testing.T, n int) *sqlx.DB {
		t.Helper()
		db := postgrestest.Open(t)
		seedFinal(t, db, n, "DEAD")
		postgrestest.StoreDocuments(t, db, `'boom'`, `'{1}'`, `dlq.dlq_messages m`)
		exec(t, db, `UPDATE dlq.search_index SET version = 1`)
		return db
	}

	postgrestest.Parallel(t, "StayWhenTheArchiverMovesThem", func(t *testing.T) {
		db := seed(t, 25)
		check.NoError(t, check.Err(New(db).ArchiveOld(t.Context(), 30, 10)))
		wantMoved(t, db, 0, 25)
		check.Same(t, count(t, db, "message_documents"), 25, "documents")
	})
	postgrestest.Parallel(t, "GoWithThePurge", func(t *testing.T) {
		db := seed(t, 25)
		store := New(db)
		check.NoError(t, check.Err(store.ArchiveOld(t.Context(), 30, 10)))
		exec(t, db, `UPDATE dlq.dlq_messages_archive SET archived_at = now() - interval '400 days' WHERE created_at < (
			SELECT created_at FROM dlq.dlq_messages_archive ORDER BY created_at OFFSET 15 LIMIT 1)`)
		n, err := store.PurgeArchive(t.Context(), 365, 4)
		check.Require(t, err == nil && n == 15, "purged %d, %v, want 15", n, err)
		if n := count(t, db, "message_documents d WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages_archive a WHERE a.id = d.message_id)"); n != 0 {
			t.Errorf("%d documents of nothing, want none", n)
		}
		check.Same(t, count(t, db, "message_documents"), 10, "documents")
	})
	postgrestest.Parallel(t, "GoWithWhatSQLDeletes", func(t *testing.T) {
		db := seed(t, 25)
		exec(t, db, `DELETE FROM dlq.dlq_messages WHERE id IN (SELECT id FROM dlq.dlq_messages LIMIT 10)`)
		check.Same(t, count(t, db, "message_documents"), 15, "documents")
		exec(t, db, `TRUNCATE dlq.dlq_messages`)
		check.Same(t, count(t, db, "message_documents"), 0, "documents")
	})
	postgrestest.Parallel(t, "OfMessagesThatAreGoneAreNotKept", func(t *testing.T) {
		db := seed(t, 1)
		store := New(db)
		id, gone, other := allIDs(t, db, "dlq_messages")[0], uuid.New(), uuid.New()
		// These documents belong to no messages, as if their messages were deleted after the indexer had read them.
		at := time.Now().Truncate(time.Microsecond)
		exec(t, db, `SELECT dlq.create_document_partitions(ARRAY[$1::timestamptz])`, at)
		exec(t, db, `INSERT INTO dlq.message_documents VALUES ($1, $3, 1, 'boom', '{1}'), ($2, $3, 1, 'boom', '{1}')`, gone, other, at)
		check.NoError(t, store.StoreDocuments(t.Context(), 1, []entity.Document{
			{MessageID: gone, CreatedAt: at, Text: "boom"}, {MessageID: id, Text: "boom"}, {MessageID: uuid.New(), Text: "boom"},
		}))
		check.Same(t, count(t, db, "message_documents"), 2, "documents, want that of the message and the unrelated one")
		check.NoError(t, check.Err(store.PurgeBookkeeping(t.Context(), 365, 730, 10)))
		check.Same(t, count(t, db, "message_documents"), 1, "documents after the purge, want that of the message")
	})
}

// TestRestoreKeepsEveryColumn: Restore keeps or resets each column of dlq_messages. The test fails when a column is
// added and Restore neither keeps nor resets it.
func TestRestoreKeepsEveryColumn(t *testing.T) {
	db := freshDB(t)
	columns := columnsOf(t, db, "dlq_messages")
	exec(t, db, fullRow(columns, "DEAD"))
	id := allIDs(t, db, "dlq_messages")[0]
	begins := map[string]bool{ // columns that Restore resets
		"status": true, "retry_count": true, "updated_at": true, "next_attempt_at": true, "rescues": true, "unsettled": true,
		"claim_id": true, "claim_expires_at": true, "claim_topic": true, "claim_topic_id": true, "claim_partition": true,
		"claim_end_offset": true, "claim_redrive_id": true, "outcome": true,
	}
	var kept []string
	for _, c := range columns {
		if !begins[c.Name] {
			kept = append(kept, "m."+c.Name)
		}
	}
	check.True(t, len(kept)+len(begins) == len(columns), "%d columns kept and %d reset of %d", len(kept), len(begins), len(columns))
	before := rowsAsText(t, db, "dlq_messages", "("+strings.Join(kept, ", ")+")")
	archive(t, db, id)
	check.NoError(t, check.Err(New(db).Restore(t.Context(), id, entity.By("alice"))))
	wantLines(t, "restored", rowsAsText(t, db, "dlq_messages", "("+strings.Join(kept, ", ")+")"), before)
	anew := postgrestest.Get[string](t, db, `SELECT concat_ws(' ', status, retry_count, rescues, unsettled, claim_id, claim_expires_at, claim_topic,
		claim_topic_id, claim_partition, claim_end_offset, claim_redrive_id, outcome) FROM dlq.dlq_messages WHERE id = $1`, id)
	check.Same(t, anew, "PENDING 0 0 f", "restored as, want PENDING without attempts or claim")
	wantExactCounters(t, db)
}

// TestTrigrams: migrations treat the extension pg_trgm like pgcrypto, as TestPgcrypto tests it: the way down drops it,
// unless it existed before or something uses it.
func TestTrigrams(t *testing.T) {
	t.Parallel()
	has := func(t *testing.T, between, before string) (there bool) {
		t.Helper()
		db := empty(t)
		exec(t, db, before)
		check.NoError(t, migrate.Up(t.Context(), db.DB))
		exec(t, db, between)
		check.NoError(t, migrate.Down(t.Context(), db.DB, migrate.All))
		check.NoError(t, db.Get(&there, `SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_trgm')`))
		return there
	}
	check.True(t, !has(t, "", ""), "it stayed, want it gone with the step that brought it")
	check.True(t, has(t, "", "CREATE SCHEMA tools; CREATE EXTENSION pg_trgm SCHEMA tools"),
		"it is gone, want it left where it was before")
	check.True(t, has(t, "CREATE VIEW public.alike AS SELECT similarity('a', 'b') AS s", ""),
		"it is gone, want it left where something uses it")
}

// TestExportOfLargeKeys: the memory of an export is limited although keys and error messages are large. The test is not
// parallel, because it measures the heap of the process.
func TestExportOfLargeKeys(t *testing.T) { //nolint:paralleltest // it measures the heap
	const messages, size = 150, 960_000
	db := postgrestest.Open(t)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, key)
		SELECT 'orders', repeat('e', $2), convert_to(repeat(md5(n::text), $2 / 32), 'UTF8') FROM generate_series(1, $1::int) n`, messages, size)
	var before, most runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	n := 0
	err := New(db).Export(t.Context(), repository.ExportQuery{Limit: messages, MaxValue: 1 << 20}, func(m *entity.Message) error {
		check.True(t, len(m.Record.Key) == size && len(m.ErrorMessage) == size,
			"key of %d and error message of %d bytes, want %d", len(m.Record.Key), len(m.ErrorMessage), size)
		if n++; n%10 == 1 {
			var now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&now)
			most.HeapAlloc = max(most.HeapAlloc, now.HeapAlloc)
		}
		return nil
	})
	check.NoError(t, err)
	check.Same(t, n, messages, "messages")
	grown := int64(most.HeapAlloc) - int64(before.HeapAlloc)
	check.True(t, grown <= 64<<20, "the heap grew by %d MB, want less than 64", grown>>20)
}

func visibleTopics(t *testing.T, list ...string) *entity.TopicPatterns {
	t.Helper()
	p := check.Must(entity.ParseTopicPatterns("topics", list...))(t)
	return &p
}

// A caller who may see only some topics gets exact numbers up to CountLimit, and never an estimate.
func TestCountOfVisibleTopics(t *testing.T) {
	db := freshDB(t)
	exec(t, db, `INSERT INTO dlq.dlq_messages (id, original_topic, error_message, error_class, status)
		SELECT gen_random_uuid(), topic, 'boom', CASE WHEN n <= 3 THEN 'rare' ELSE 'class' END, 'PENDING'
		FROM generate_series(1, 10001) n CROSS JOIN (VALUES ('alpha.v1'), ('beta.v1')) AS topics (topic)`)
	exec(t, db, `ANALYZE dlq.dlq_messages`)
	store := New(db)
	for name, c := range map[string]struct {
		filter entity.Filter
		want   repository.MatchCount
	}{
		"Few":         {entity.Filter{ErrorClass: "rare"}, repository.MatchCount{Messages: 3, Exact: true}},
		"OfATopic":    {entity.Filter{ErrorClass: "rare", Topic: "alpha.v1"}, repository.MatchCount{Messages: 3, Exact: true}},
		"OfAnother":   {entity.Filter{ErrorClass: "rare", Topic: "beta.v1"}, repository.MatchCount{Exact: true}},
		"None":        {entity.Filter{ErrorClass: "nothing"}, repository.MatchCount{Exact: true}},
		"UpToLimit":   {entity.Filter{ErrorClass: "class"}, repository.MatchCount{Messages: 9998, Exact: true}},
		"OverLimit":   {entity.Filter{CreatedAfter: time.Unix(0, 0)}, repository.MatchCount{Messages: repository.CountLimit, AtLeast: true}},
		"OfTheFuture": {entity.Filter{CreatedAfter: time.Now().Add(time.Hour)}, repository.MatchCount{Exact: true}},
	} {
		for _, how := range []repository.Counting{repository.CountEstimate, repository.CountExact} {
			c.filter.Visible = visibleTopics(t, "alpha*")
			got, err := store.CountMatching(t.Context(), repository.CountQuery{Filter: c.filter, How: how})
			check.True(t, err == nil && got == c.want, "%s: counted %+v, %v, want %+v", name, got, err, c.want)
		}
	}

	lock := begin(t, db)
	check.NoError(t, check.Err(lock.Exec(`LOCK TABLE dlq.dlq_messages IN ACCESS EXCLUSIVE MODE`)))
	store.Searcher.CountTimeout = 50 * time.Millisecond
	slow := entity.Filter{ErrorClass: "rare", Visible: visibleTopics(t, "alpha*")}
	if got, err := store.CountMatching(t.Context(), repository.CountQuery{Filter: slow}); err != nil || got != (repository.MatchCount{AtLeast: true}) {
		t.Errorf("too slow: counted %+v, %v, want 0 at least", got, err)
	}
}
