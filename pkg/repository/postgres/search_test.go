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

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestTooBroad: what takes too long is refused, and what the caller gave up is not.
// A lock that nobody gives back makes everything take too long.
func TestTooBroad(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	seedTen(t, db, "DEAD", "2001-01-01")
	lock, err := db.Beginx()
	wantNil(t, err)
	defer func() { _ = lock.Rollback() }()
	_, err = lock.Exec(`LOCK TABLE dlq.dlq_messages IN ACCESS EXCLUSIVE MODE`)
	wantNil(t, err)
	store := New(db)
	store.searchPatience, store.countPatience = 50*time.Millisecond, 50*time.Millisecond
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
		"Count": func(ctx context.Context) error { // its estimate needs the lock too
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
	store.searchPatience, store.countPatience = time.Minute, time.Minute
	for name, call := range calls {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		var broad *repository.TooBroadError
		if err := call(ctx); err == nil || errors.As(err, &broad) {
			t.Errorf("%s: got %v, want the caller's own end", name, err)
		}
		cancel()
	}
	wantNil(t, lock.Rollback())
	for name, call := range calls {
		wantNilOf(t, name, call(t.Context()))
	}
}

func wantNilOf(t *testing.T, name string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
}

// TestDocuments: they go with their message and stay with one that is moved.
func TestDocuments(t *testing.T) {
	t.Parallel()
	seed := func(t *testing.T, n int) *sqlx.DB {
		t.Helper()
		db := postgrestest.Open(t)
		seedFinal(t, db, n, "DEAD")
		storeDocuments(t, db, `'boom'`, `'{1}'`, `dlq.dlq_messages m`)
		exec(t, db, `UPDATE dlq.search_index SET version = 1`)
		return db
	}

	t.Run("StayWhenTheArchiverMovesThem", func(t *testing.T) {
		t.Parallel()
		db := seed(t, 25)
		_, err := New(db).ArchiveOld(t.Context(), 30, 10)
		wantNil(t, err)
		wantMoved(t, db, 0, 25)
		if n := count(t, db, "message_documents"); n != 25 {
			t.Errorf("%d documents, want 25", n)
		}
	})
	t.Run("GoWithThePurge", func(t *testing.T) {
		t.Parallel()
		db := seed(t, 25)
		store := New(db)
		_, err := store.ArchiveOld(t.Context(), 30, 10)
		wantNil(t, err)
		exec(t, db, `UPDATE dlq.dlq_messages_archive SET archived_at = now() - interval '400 days' WHERE created_at < (
			SELECT created_at FROM dlq.dlq_messages_archive ORDER BY created_at OFFSET 15 LIMIT 1)`)
		n, err := store.PurgeArchive(t.Context(), 365, 4)
		if err != nil || n != 15 {
			t.Fatalf("purged %d, %v, want 15", n, err)
		}
		if n := count(t, db, "message_documents d WHERE NOT EXISTS (SELECT FROM dlq.dlq_messages_archive a WHERE a.id = d.message_id)"); n != 0 {
			t.Errorf("%d documents of nothing, want none", n)
		}
		if n := count(t, db, "message_documents"); n != 10 {
			t.Errorf("%d documents, want 10", n)
		}
	})
	t.Run("GoWithWhatSQLDeletes", func(t *testing.T) {
		t.Parallel()
		db := seed(t, 25)
		exec(t, db, `DELETE FROM dlq.dlq_messages WHERE id IN (SELECT id FROM dlq.dlq_messages LIMIT 10)`)
		if n := count(t, db, "message_documents"); n != 15 {
			t.Errorf("%d documents, want 15", n)
		}
		exec(t, db, `TRUNCATE dlq.dlq_messages`)
		if n := count(t, db, "message_documents"); n != 0 {
			t.Errorf("%d documents, want none", n)
		}
	})
	t.Run("OfMessagesThatAreGoneAreNotKept", func(t *testing.T) {
		t.Parallel()
		db := seed(t, 1)
		store := New(db)
		id, gone, other := allIDs(t, db, "dlq_messages")[0], uuid.New(), uuid.New()
		// As if their messages had been deleted after somebody saw them.
		at := time.Now().Truncate(time.Microsecond)
		exec(t, db, `SELECT dlq.create_document_partitions(ARRAY[$1::timestamptz])`, at)
		exec(t, db, `INSERT INTO dlq.message_documents VALUES ($1, $3, 1, 'boom', '{1}'), ($2, $3, 1, 'boom', '{1}')`, gone, other, at)
		wantNil(t, store.StoreDocuments(t.Context(), 1, []entity.Document{
			{MessageID: gone, CreatedAt: at, Text: "boom"}, {MessageID: id, Text: "boom"}, {MessageID: uuid.New(), Text: "boom"},
		}))
		if n := count(t, db, "message_documents"); n != 2 {
			t.Errorf("%d documents, want that of the message and the one that nobody spoke of", n)
		}
		_, err := store.PurgeBookkeeping(t.Context(), 365, 730, 10)
		wantNil(t, err)
		if n := count(t, db, "message_documents"); n != 1 {
			t.Errorf("%d documents after the purge, want that of the message", n)
		}
	})
}

// TestRestoreKeepsEveryColumn: a column that a later step adds must be thought of.
func TestRestoreKeepsEveryColumn(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	columns := columnsOf(t, db, "dlq_messages")
	exec(t, db, fullRow(columns, "DEAD"))
	id := allIDs(t, db, "dlq_messages")[0]
	begins := map[string]bool{ // anew
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
	if len(kept)+len(begins) != len(columns) {
		t.Errorf("%d columns kept and %d anew of %d", len(kept), len(begins), len(columns))
	}
	before := rowsAsText(t, db, "dlq_messages", "("+strings.Join(kept, ", ")+")")
	archive(t, db, id)
	_, err := New(db).Restore(t.Context(), id, entity.By("alice"))
	wantNil(t, err)
	wantLines(t, "restored", rowsAsText(t, db, "dlq_messages", "("+strings.Join(kept, ", ")+")"), before)
	var anew string
	wantNil(t, db.Get(&anew, `SELECT concat_ws(' ', status, retry_count, rescues, unsettled, claim_id, claim_expires_at, claim_topic,
		claim_topic_id, claim_partition, claim_end_offset, claim_redrive_id, outcome) FROM dlq.dlq_messages WHERE id = $1`, id))
	if anew != "PENDING 0 0 f" {
		t.Errorf("restored as %q, want PENDING without attempts or claim", anew)
	}
	wantExactCounters(t, db)
}

// TestTrigrams as TestPgcrypto.
func TestTrigrams(t *testing.T) {
	t.Parallel()
	has := func(t *testing.T, between, before string) (there bool) {
		t.Helper()
		db := empty(t)
		exec(t, db, before)
		wantNil(t, migrate.Up(t.Context(), db.DB))
		exec(t, db, between)
		wantNil(t, migrate.Down(t.Context(), db.DB, migrate.All))
		wantNil(t, db.Get(&there, `SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'pg_trgm')`))
		return there
	}
	if has(t, "", "") {
		t.Error("it stayed, want it gone with the step that brought it")
	}
	if !has(t, "", "CREATE SCHEMA tools; CREATE EXTENSION pg_trgm SCHEMA tools") {
		t.Error("it is gone, want it left where it was before")
	}
	if !has(t, "CREATE VIEW public.alike AS SELECT similarity('a', 'b') AS s", "") {
		t.Error("it is gone, want it left where something uses it")
	}
}

// TestExportOfLargeKeys: memory has a bound whatever part of a message is large.
// Nothing else runs beside it that could be counted for it.
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
		if len(m.Record.Key) != size || len(m.ErrorMessage) != size {
			t.Errorf("key of %d and error message of %d bytes, want %d", len(m.Record.Key), len(m.ErrorMessage), size)
		}
		if n++; n%10 == 1 {
			var now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&now)
			most.HeapAlloc = max(most.HeapAlloc, now.HeapAlloc)
		}
		return nil
	})
	wantNil(t, err)
	if n != messages {
		t.Errorf("%d messages, want %d", n, messages)
	}
	if grown := int64(most.HeapAlloc) - int64(before.HeapAlloc); grown > 64<<20 {
		t.Errorf("the heap grew by %d MB, want less than 64", grown>>20)
	}
}
