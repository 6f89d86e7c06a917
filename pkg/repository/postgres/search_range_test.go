package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// somePages is the maximum number of pages that a test reads of one search.
const somePages = 10

// TestWordsPageByPage: the first pages of a search for words together contain the first matches in the right order,
// however the messages are distributed over time.
func TestWordsPageByPage(t *testing.T) {
	db := freshDB(t)
	seedTimes(t, db)
	store := New(db)
	store.SetIndexVersion(1)
	topic := func(f entity.Filter, name string) entity.Filter { f.Topic = name; return f }
	words := func(list ...string) entity.Filter { return entity.Filter{Words: list} }
	term := entity.Filter{Headers: []entity.HeaderMatch{{Name: "h"}}}
	after, before := time.Now().Add(-5*time.Hour), time.Now().Add(-30*time.Minute)
	between := func(f entity.Filter) entity.Filter { f.CreatedAfter, f.CreatedBefore = after, before; return f }
	inTime := fmt.Sprintf("created_at >= '%s' AND created_at < '%s'", after.Format(time.RFC3339Nano), before.Format(time.RFC3339Nano))
	for name, c := range map[string]struct {
		f     entity.Filter
		where string
	}{
		"Old":             {words("old"), `n > 6000`},
		"Rare":            {words("rare"), `n % 700 = 0`},
		"OldAndOdd":       {words("old", "odd"), `n > 6000 AND n % 2 = 1`},
		"OddInTime":       {between(words("odd")), `n % 2 = 1 AND ` + inTime},
		"OldOfATopic":     {topic(words("old"), "t3"), `n > 6000 AND original_topic = 't3'`},
		"OddOfAnEvenOne":  {topic(words("odd"), "t4"), `false`},
		"Term":            {term, `n > 6000`},
		"TwoLetters":      {words("zq"), `n > 11000`},
		"OldOnesInstant":  {topic(words("instant"), "t5"), `n BETWEEN 7000 AND 9999 AND original_topic = 't5'`},
		"NeverTogether":   {words("odd", "even"), `false`},
		"NobodyHasIt":     {words("absent"), `false`},
		"TheWholeInstant": {words("instant"), `n BETWEEN 7000 AND 9999`},
	} {
		for _, how := range []repository.SearchQuery{
			{Limit: 2},
			{Limit: 2, Sort: repository.Sort{Ascending: true}},
			{Limit: 61},
			{Limit: 61, Sort: repository.Sort{Ascending: true}},
			{Limit: 1000},
			{Limit: 500, Archived: true},
			{Limit: 350, Archived: true, Sort: repository.Sort{Ascending: true}},
		} {
			postgrestest.Parallel(t, fmt.Sprintf("%s/%v%v%d", name, how.Archived, how.Sort.Ascending, how.Limit), func(t *testing.T) {
				how.Filter = c.f
				table := codec.SourceOf(how.Archived).Table
				want := postgrestest.All[uuid.UUID](t, db, `SELECT id FROM (SELECT *, split_part(error_message, ' ', 2)::int AS n FROM `+table+`) m
					WHERE `+c.where+` ORDER BY `+orderOf(how.Sort, "created_at", "id"))
				got := pageByPage(t, store, how, somePages)
				check.True(t, slices.Equal(got, want[:min(len(want), somePages*how.Limit)]),
					"got %d messages, want %d; the first that differs is the %dth", len(got), len(want), check.FirstDifference(got, want))
			})
		}
	}
}

// pageByPage returns the ids of the messages on the first pages of a search, until it has read the given number of full
// pages. After a page that is not full, it continues at the page's Next.
func pageByPage(t *testing.T, store *Store, q repository.SearchQuery, pages int) (ids []uuid.UUID) {
	t.Helper()
	q.NoValues = true
	for want := pages * q.Limit; len(ids) < want; {
		found := check.Must(store.Search(t.Context(), q))(t)
		for _, m := range found.Messages {
			ids = append(ids, m.ID)
		}
		before := q.After
		if q.After = found.Next; len(found.Messages) == q.Limit {
			last := found.Messages[q.Limit-1]
			q.After = repository.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
		} else if found.Next == (repository.Cursor{}) {
			break
		}
		check.Require(t, q.After != before, "the page after %v continues at the same place", before)
	}
	return ids[:min(len(ids), pages*q.Limit)]
}

// seedTimes inserts 12,000 messages into the live table and 12,000 into the archive: most of them one second apart,
// 3,000 with the same created_at, some very old, one in the future, and some that were stored late.
func seedTimes(t *testing.T, db *sqlx.DB) {
	t.Helper()
	const rows = ` (id, original_topic, error_message, status, created_at, updated_at, value, headers)
		SELECT gen_random_uuid(), 't' || n % 10, 'boom ' || n, 'DEAD', CASE
			WHEN n BETWEEN 7000 AND 9999 THEN now() - interval '2 hours'
			WHEN n = 11999 THEN '1850-01-01' WHEN n = 11998 THEN '0044-03-15 BC' WHEN n = 3 THEN '2345-06-07'
			WHEN n % 100 = 0 THEN now() - n * interval '1 hour'
			ELSE now() - n * interval '1 second' END, now(), '{"order": 1}', '\x00'
		FROM generate_series(1, 12000) n`
	exec(t, db, `ALTER TABLE dlq.dlq_messages DISABLE TRIGGER trg_dlq_messages_note_late`)
	exec(t, db, `INSERT INTO dlq.dlq_messages`+rows)
	exec(t, db, `INSERT INTO dlq.dlq_messages_archive`+rows)
	for _, table := range []string{"dlq_messages", "dlq_messages_archive"} {
		postgrestest.StoreDocuments(t, db, `concat_ws(' ', CASE WHEN n % 2 = 1 THEN 'odd' ELSE 'even' END, CASE WHEN n > 6000 THEN 'old' END,
			CASE WHEN n % 700 = 0 THEN 'rare' END, CASE WHEN n BETWEEN 7000 AND 9999 THEN 'instant' END,
			CASE WHEN n > 11000 THEN 'zq' END)`, `CASE WHEN n > 6000 THEN ARRAY[$1::bigint] ELSE '{}' END`,
			`(SELECT id, created_at, split_part(error_message, ' ', 2)::int AS n FROM dlq.`+table+`) m ORDER BY n DESC`, entity.HeaderTerm("h", nil))
	}
	exec(t, db, `UPDATE dlq.search_index SET version = 1, mark = now(), walked_at = now(), found_until = now()`)
	exec(t, db, `ANALYZE dlq.dlq_messages`)
	exec(t, db, `ANALYZE dlq.dlq_messages_archive`)
}

// The maximum numbers of buffers that PostgreSQL may read for one page of a search for words, from the tables of
// messages and of documents. The search tests the newest messages one by one, and then reads the messages that the
// search index returns. Reading all messages would take thirty times as many buffers.
const (
	fewBuffersOfMessages  = 8_000
	fewBuffersOfDocuments = 15_000
)

// TestWordsReadLittle: a page of a search reads few buffers, both when all of the newest messages contain the word and
// when only few messages contain it.
func TestWordsReadLittle(t *testing.T) {
	db := freshDB(t)
	db.SetMaxOpenConns(1)
	seedHalves(t, db)
	store := New(db)
	store.SetIndexVersion(1)
	words := func(list ...string) entity.Filter { return entity.Filter{Words: list} }
	ascending := repository.Sort{Ascending: true}
	middle := postgrestest.Get[time.Time](t, db, `SELECT created_at FROM dlq.dlq_messages ORDER BY created_at OFFSET 20000 LIMIT 1`)
	deep := repository.Cursor{CreatedAt: middle, ID: uuid.Max}
	none := words("oldword")
	none.Topic = "few"
	for name, c := range map[string]struct {
		q    repository.SearchQuery
		want int
	}{
		"InAllNew":            {repository.SearchQuery{Filter: words("newword")}, 50},
		"InAllOldDeep":        {repository.SearchQuery{Filter: words("oldword"), After: deep}, 50},
		"InAllNewOldestFirst": {repository.SearchQuery{Filter: words("oldword"), Sort: ascending}, 50},
		"Rare":                {repository.SearchQuery{Filter: words("rarething")}, 50},
		"Absent":              {repository.SearchQuery{Filter: words("absentee")}, 0},
		"CommonInOtherTopics": {repository.SearchQuery{Filter: none}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.q.Limit = 50
			messages, documents := buffersOf(t, db, "dlq_messages"), buffersOf(t, db, "message_documents")
			found := check.Must(store.Search(t.Context(), c.q))(t)
			check.True(t, len(found.Messages) == c.want && found.Next == (repository.Cursor{}),
				"got %d messages and the next place %v, want %d and none", len(found.Messages), found.Next, c.want)
			messages, documents = buffersOf(t, db, "dlq_messages")-messages, buffersOf(t, db, "message_documents")-documents
			if messages > fewBuffersOfMessages || documents > fewBuffersOfDocuments || messages+documents == 0 {
				t.Errorf("it reads %d buffers of messages and %d of documents, want at most %d and %d",
					messages, documents, fewBuffersOfMessages, fewBuffersOfDocuments)
			}
		})
	}
}

// buffersOf returns the number of buffers of a table, its partitions and their indexes that have been read so far.
func buffersOf(t *testing.T, db *sqlx.DB, table string) (n int64) {
	t.Helper()
	exec(t, db, `SELECT pg_stat_force_next_flush()`)
	check.NoError(t, db.Get(&n, `SELECT coalesce(sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read), 0)::bigint FROM pg_statio_user_tables
		WHERE schemaname = 'dlq' AND (relname = $1 OR relname LIKE $1 || '_2%')`, table))
	return n
}

// seedHalves inserts 60,000 messages, two a second. The older half contains one word, the newer half another word; the
// messages of the topic few contain neither. When PostgreSQL analyzed the documents, only the oldest thousand existed.
func seedHalves(t *testing.T, db *sqlx.DB) {
	t.Helper()
	exec(t, db, `ALTER TABLE dlq.dlq_messages SET (autovacuum_enabled = off)`)
	exec(t, db, `ALTER TABLE dlq.dlq_messages DISABLE TRIGGER USER`)
	for _, part := range []string{"59001, 60000", "1, 59000"} {
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, error_class, status, created_at, value, headers)
			SELECT CASE WHEN n % 120 = 0 THEN 'few' ELSE 'topic' END, 'boom ' || n, 'class' || n % 10, 'DEAD', now() - n * interval '0.5 second', '{"order": 1}', '\x00'
			FROM generate_series(`+part+`) n ORDER BY n DESC`)
		postgrestest.StoreDocuments(t, db, `concat_ws(' ', 'boom', n, CASE WHEN original_topic = 'few' THEN 'fewword' WHEN n > 30000 THEN 'oldword' ELSE 'newword' END,
			CASE WHEN n % 500 = 0 THEN 'rarething' END)`, `'{}'`,
			`(SELECT *, split_part(error_message, ' ', 2)::int AS n FROM dlq.dlq_messages) m WHERE n BETWEEN `+strings.ReplaceAll(part, ",", " AND ")+` ORDER BY n DESC`)
		exec(t, db, `ANALYZE dlq.dlq_messages`)
		if part == "59001, 60000" {
			exec(t, db, `ANALYZE dlq.message_documents`)
		}
	}
	exec(t, db, `VACUUM dlq.message_documents`) // moves new entries of the GIN indexes from their pending lists into the indexes
	exec(t, db, `UPDATE dlq.search_index SET version = 1, mark = now(), walked_at = now(), found_until = now()`)
	exec(t, db, `ANALYZE dlq.search_index`)
}

// TestDocumentsHaveTheTimeOfTheirMessage: a document has the created_at of its message, even after SQL statements have
// changed the message's created_at. A live message with an infinite created_at has no document.
func TestDocumentsHaveTheTimeOfTheirMessage(t *testing.T) {
	t.Parallel()
	wantDated := func(t *testing.T, db *sqlx.DB, documents int) {
		t.Helper()
		dated := postgrestest.Get[int](t, db, `SELECT count(*) FROM dlq.message_documents d
			JOIN (SELECT id, created_at FROM dlq.dlq_messages UNION ALL SELECT id, created_at FROM dlq.dlq_messages_archive) m
			ON m.id = d.message_id AND m.created_at = d.created_at`)
		check.True(t, dated == documents && count(t, db, "message_documents") == documents,
			"%d documents have the time of their message, want %d", dated, documents)
	}
	seed := func(t *testing.T, db *sqlx.DB) {
		t.Helper()
		seedFinal(t, db, 250, "DEAD")
		check.NoError(t, check.Err(New(db).ArchiveOld(t.Context(), 30, 120)))
		seedFinal(t, db, 250, "DEAD")
		exec(t, db, `UPDATE dlq.search_index SET version = 1`)
		var documents []entity.Document
		for _, id := range slices.Concat(allIDs(t, db, "dlq_messages"), allIDs(t, db, "dlq_messages_archive")) {
			documents = append(documents, entity.Document{MessageID: id, Text: "boom"})
		}
		check.NoError(t, New(db).StoreDocuments(t.Context(), 1, documents))
	}
	withDB(t, "WhenItIsStored", func(t *testing.T, db *sqlx.DB) {
		seed(t, db)
		wantDated(t, db, 500)
	})
	withDB(t, "WhenItIsGivenAnother", func(t *testing.T, db *sqlx.DB) {
		seed(t, db)
		exec(t, db, `UPDATE dlq.dlq_messages SET created_at = created_at - interval '1 year'`)
		exec(t, db, `UPDATE dlq.dlq_messages_archive SET created_at = created_at + interval '400 years'`)
		wantDated(t, db, 500)
	})
	withDB(t, "WhenItIsGivenNone", func(t *testing.T, db *sqlx.DB) {
		seed(t, db)
		exec(t, db, `UPDATE dlq.dlq_messages SET created_at = 'infinity'`)
		wantDated(t, db, 250)
	})
	postgrestest.Parallel(t, "NoneHasNoFiniteOne", func(t *testing.T) {
		f := newFinder(t)
		exec(t, f.db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) VALUES ('o', 'e', 'infinity'), ('o', 'e', '-infinity')`)
		check.Len(t, f.look(), 0, "messages to index")
	})
}

// partitionsOf returns the days for which the search index has a partition.
func partitionsOf(t *testing.T, db *sqlx.DB) (days []string) {
	t.Helper()
	check.NoError(t, db.Select(&days, `SELECT right(c.relname, 8) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'dlq.message_documents'::regclass ORDER BY 1`))
	return days
}

func dayOf(at time.Time) string { return at.UTC().Format("20060102") }

// insertAt inserts a message whose created_at is the parameter at.
func insertAt(t *testing.T, db *sqlx.DB, at string) (id uuid.UUID) {
	t.Helper()
	check.NoError(t, db.Get(&id, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, group_id, created_at)
		VALUES ('orders', 'boom', 'DEAD', gen_random_uuid(), $1) RETURNING id`, at))
	return id
}

// TestDocumentsOfAnyTime: a document can be stored for a message that is older or newer than every partition of the
// search index.
func TestDocumentsOfAnyTime(t *testing.T) {
	t.Parallel()
	f := newFinder(t)
	f.store.SetIndexVersion(1)
	if got, want := partitionsOf(t, f.db), []string{dayOf(f.now), dayOf(f.now.AddDate(0, 0, 1))}; !slices.Equal(got, want) {
		t.Fatalf("the indexer created partitions of %v, want %v", got, want)
	}
	var want []uuid.UUID
	for _, at := range []string{"2345-06-07 08:00Z", "2100-01-01 00:00Z", "2026-02-03 23:59:59.999999Z", "2026-02-03 00:00Z", "2026-02-02 23:59:59Z", "1999-12-31 23:59Z", "0044-03-15 BC"} {
		id := insertAt(t, f.db, at)
		f.keep([]uuid.UUID{id})
		want = append(want, id)
	}
	f.keep(want) // storing the same documents a second time succeeds
	for _, day := range []string{"19991231", "20260202", "20260203", "21000101"} {
		check.True(t, slices.Contains(partitionsOf(t, f.db), day),
			"there is no partition of %s among %v", day, partitionsOf(t, f.db))
	}
	exec(t, f.db, `UPDATE dlq.search_index SET walked_at = '2400-01-01', found_until = '2400-01-01'`)
	for _, searchTime := range []time.Duration{time.Minute, 0} {
		f.store.Searcher.SearchTime = searchTime
		for _, ascending := range []bool{false, true} {
			q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"boom"}}, Sort: repository.Sort{Ascending: ascending}, Limit: 3}
			check.Same(t, pageByPage(t, f.store, q, 3), want, "ascending %t", ascending)
			slices.Reverse(want)
		}
	}
}

// TestEmptyPartitionsAreDropped: a partition of the search index is dropped when no live or archived message is from
// its day, and is created again when a message needs it.
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
		check.NoError(t, check.Err(f.store.PurgeBookkeeping(t.Context(), 365, 730, 10)))
	}
	want := func(what string, days ...string) {
		t.Helper()
		got := partitionsOf(t, f.db)
		check.True(t, slices.Equal(got, append(days, ahead...)),
			"%s: got partitions of %v, want %v and %v", what, got, days, ahead)
	}
	tx, err := f.db.Beginx() // this transaction takes the same lock as a running search
	check.NoError(t, err)
	check.NoError(t, check.Err(tx.Exec(`SELECT FROM dlq.message_documents`)))
	purge()
	want("during a search", "20260101", "20260102", "20260103")
	check.NoError(t, tx.Rollback())
	purge()
	want("empty", "20260101", "20260102")
	check.NoError(t, check.Err(f.store.Restore(t.Context(), archived, entity.By("alice"))))
	purge()
	want("restored", "20260101", "20260102")
	exec(t, f.db, `DELETE FROM dlq.dlq_messages`)
	purge()
	want("of nothing")
	f.keep([]uuid.UUID{insertAt(t, f.db, "2026-01-02 13:00Z")})
	want("late", "20260102")
}
