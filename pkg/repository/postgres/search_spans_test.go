package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestStrides: spans follow one another without a gap, whatever their lengths, and the
// windows of each cover it.
func TestStrides(t *testing.T) {
	t.Parallel()
	for _, ascending := range []bool{false, true} {
		for _, at := range []int64{0, -1, 1 << 17, 1<<17 - 1, 850_000_000_000_000, -850_000_000_000_001, 1 << 50} {
			upTo := at - 1<<52
			if ascending {
				upTo = at + 1<<52
			}
			s := stride{at: at, ascending: ascending}.withLength(1 << 20)
			for n := 0; !s.beyond(upTo); n++ {
				if n == 500 {
					t.Fatalf("%d is not reached from %d in %d spans", upTo, at, n)
				}
				in := s.next(upTo)
				near, far := in.last, in.first
				if ascending {
					near, far = far, near
				}
				if near != s.at || in.first > in.last {
					t.Fatalf("span %d of %d: got %v, want one from %d on", n, at, in, s.at)
				}
				if keys := in.windows(); !covered(keys, in) || len(keys) > 3*windowsAtOnce {
					t.Fatalf("span %d of %d: windows %v do not cover %v, or are too many", n, at, keys, in)
				}
				if s = s.over(in); !s.beyond(far) {
					t.Fatalf("span %d of %d: it goes on at %d, want behind %d", n, at, s.at, far)
				}
				if max(s.at-far, far-s.at) != 1 {
					t.Fatalf("span %d of %d: it goes on at %d, want next to %d", n, at, s.at, far)
				}
				s = s.withLength(int64(1) << (n % 60))
			}
		}
	}
}

// TestStridesHaveTheirEdges: the moment that a stride is at is left to do, also as the
// last one, and stands behind its place.
func TestStridesHaveTheirEdges(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 891011000, time.UTC)
	for ascending, behind := range map[bool]repository.Place{
		false: {CreatedAt: at.Add(time.Microsecond)},
		true:  {CreatedAt: at.Add(-time.Microsecond), ID: uuid.Max},
	} {
		s := stride{at: micros(at), ascending: ascending}
		if s.beyond(micros(at)) || !s.over(span{s.at, s.at}).beyond(s.at) {
			t.Errorf("ascending %t: the last moment is passed when it is reached, or never", ascending)
		}
		if got := s.place(); got != behind {
			t.Errorf("ascending %t: got the place %v, want %v", ascending, got, behind)
		}
	}
}

// covered reports whether windows of one level follow one another from a span's first
// moment to its last.
func covered(keys []int64, in span) bool {
	for i, k := range keys {
		if i > 0 && k != keys[i-1]+16 {
			return false
		}
	}
	level := int(keys[0] % 16)
	if level < 0 {
		level += 16
	}
	first, last := (keys[0]-int64(level))/16, (keys[len(keys)-1]-int64(level))/16
	return first<<widthOf(level) <= in.first && (last+1)<<widthOf(level) > in.last
}

// TestSpansGrow: the next span is as long as it may be, if it is like the one before it.
func TestSpansGrow(t *testing.T) {
	t.Parallel()
	for found, want := range map[int]int{0: 8000, 25: 8000, 26: 4000, 50: 4000, 100: 2000, 101: 1000, 200: 1000} {
		if got := longer(1000, found, 200); got != want {
			t.Errorf("behind %d documents: got %d messages, want %d", found, got, want)
		}
	}
	if got := longer(everything, 0, 200); got < everything {
		t.Errorf("got %d, want no less than everything", got)
	}
}

// TestSpans: the program and the index have the same windows.
func TestSpans(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	for _, at := range []string{
		"2000-01-01 00:00:00+00", "1999-12-31 23:59:59.999999+00", "2026-03-04 05:06:07.891011+00", "1969-12-31 23:59:59.000001+00",
		"0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00",
	} {
		var keys pq.Int64Array
		var moment time.Time
		wantNil(t, db.QueryRow(`SELECT dlq.spans($1::timestamptz), $1::timestamptz`, at).Scan(&keys, &moment))
		if len(keys) != windowLevels {
			t.Fatalf("%s: %d levels, want %d", at, len(keys), windowLevels)
		}
		for level, key := range keys {
			if want := windowKey(level, micros(moment)>>widthOf(level)); key != want {
				t.Errorf("%s: level %d is %d, want %d", at, level, key, want)
			}
		}
	}
}

// somePages are enough of a list to be in the middle of an instant's messages.
const somePages = 10

// TestWordsPageByPage: pages of a search for words are the list of all that have them,
// in its order, however their messages lie in time.
func TestWordsPageByPage(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	seedTimes(t, db)
	store := New(db)
	store.AnswerFrom(1)
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
			t.Run(fmt.Sprintf("%s/%v%v%d", name, how.Archived, how.Sort.Ascending, how.Limit), func(t *testing.T) {
				t.Parallel()
				how.Filter = c.f
				table := sourceOf(how.Archived).table
				var want []uuid.UUID
				wantNil(t, db.Select(&want, `SELECT id FROM (SELECT *, split_part(error_message, ' ', 2)::int AS n FROM `+table+`) m
					WHERE `+c.where+` ORDER BY `+order(how.Sort, "created_at", "id")))
				got := pageByPage(t, store, how, somePages)
				if !slices.Equal(got, want[:min(len(want), somePages*how.Limit)]) {
					t.Errorf("got %d messages, want %d; the first that differs is the %dth", len(got), len(want), firstDifference(got, want))
				}
			})
		}
	}
}

func firstDifference(a, b []uuid.UUID) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func pageByPage(t *testing.T, store *Store, q repository.SearchQuery, pages int) (ids []uuid.UUID) {
	t.Helper()
	q.NoValues = true
	for range pages {
		found, err := store.Search(t.Context(), q)
		wantNil(t, err)
		for _, m := range found {
			ids = append(ids, m.ID)
		}
		if len(found) < q.Limit {
			break
		}
		last := found[len(found)-1]
		q.After = repository.Place{CreatedAt: last.CreatedAt, ID: last.ID}
	}
	return ids
}

// seedTimes puts 12,000 messages into the live table and as many into the archive: one
// a second; 3,000 of one instant; some of long ago, of the future, and stored late.
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
	const documents = `INSERT INTO dlq.message_documents (message_id, version, text, terms)
		SELECT id, 1, concat_ws(' ', CASE WHEN n % 2 = 1 THEN 'odd' ELSE 'even' END, CASE WHEN n > 6000 THEN 'old' END,
			CASE WHEN n % 700 = 0 THEN 'rare' END, CASE WHEN n BETWEEN 7000 AND 9999 THEN 'instant' END,
			CASE WHEN n > 11000 THEN 'zq' END), CASE WHEN n > 6000 THEN ARRAY[$1::bigint] ELSE '{}' END
		FROM (SELECT id, split_part(error_message, ' ', 2)::int AS n FROM `
	for _, table := range []string{"dlq_messages", "dlq_messages_archive"} {
		exec(t, db, documents+`dlq.`+table+`) m ORDER BY n DESC`, entity.HeaderTerm("h", nil))
	}
	exec(t, db, `UPDATE dlq.catalogue SET version = 1, mark = now(), walked_at = now(), found_until = now()`)
	exec(t, db, `ANALYZE dlq.dlq_messages`)
	exec(t, db, `ANALYZE dlq.dlq_messages_archive`)
}

// What a search for words may read: to look at the newest messages and their documents
// one by one, and a few windows. All that have a word are thirty times as much.
const (
	fewBuffersOfMessages  = 8_000
	fewBuffersOfDocuments = 15_000
)

// TestWordsReadLittle: a page of messages that have a word ends soon, wherever in time
// they are, and however many do.
func TestWordsReadLittle(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	seedHalves(t, db)
	store := New(db)
	store.AnswerFrom(1)
	words := func(list ...string) entity.Filter { return entity.Filter{Words: list} }
	ascending := repository.Sort{Ascending: true}
	var middle time.Time
	wantNil(t, db.Get(&middle, `SELECT created_at FROM dlq.dlq_messages ORDER BY created_at OFFSET 20000 LIMIT 1`))
	deep := repository.Place{CreatedAt: middle, ID: uuid.Max}
	oldClass := words("oldword")
	oldClass.ErrorClass = "class3"
	none := words("oldword")
	none.Topic = "few"
	for name, c := range map[string]struct {
		q    repository.SearchQuery
		want int
	}{
		"InAllOld":            {repository.SearchQuery{Filter: words("oldword")}, 50},
		"InAllOldDeep":        {repository.SearchQuery{Filter: words("oldword"), After: deep}, 50},
		"InAllOldAndOfAClass": {repository.SearchQuery{Filter: oldClass}, 50},
		"InAllNewOldestFirst": {repository.SearchQuery{Filter: words("newword"), Sort: ascending}, 50},
		"Rare":                {repository.SearchQuery{Filter: words("rarething")}, 50},
		"OldAndEven":          {repository.SearchQuery{Filter: words("oldword", "evenword")}, 50},
		"NeverTogether":       {repository.SearchQuery{Filter: words("oldword", "newword")}, 0},
		"Absent":              {repository.SearchQuery{Filter: words("absentee")}, 0},
		"CommonInOtherTopics": {repository.SearchQuery{Filter: none}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c.q.Limit = 50
			messages, documents := buffersOf(t, db, "dlq_messages"), buffersOf(t, db, "message_documents")
			found, err := store.Search(t.Context(), c.q)
			wantNil(t, err)
			if len(found) != c.want {
				t.Errorf("got %d messages, want %d", len(found), c.want)
			}
			messages, documents = buffersOf(t, db, "dlq_messages")-messages, buffersOf(t, db, "message_documents")-documents
			if messages > fewBuffersOfMessages || documents > fewBuffersOfDocuments || messages+documents == 0 {
				t.Errorf("it reads %d buffers of messages and %d of documents, want at most %d and %d",
					messages, documents, fewBuffersOfMessages, fewBuffersOfDocuments)
			}
		})
	}
}

// What a search may read of documents while a thousand of them are new to the index:
// those are a list of 1,300 buffers, which is read for each span.
const fewBuffersOfNewDocuments = 40_000

// TestWordsReadLittleOfNewDocuments: what floods in has documents that the index has not
// merged yet. A search reads these a few times, not for each of a hundred windows.
func TestWordsReadLittleOfNewDocuments(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	seedHalves(t, db)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, value, headers)
		SELECT 'flood', 'flood ' || n, now() + n * interval '1 millisecond', '{"order": 1}', '\x00' FROM generate_series(1, 2000) n`)
	exec(t, db, `INSERT INTO dlq.message_documents (message_id, version, text, terms, created_at)
		SELECT id, 1, (SELECT string_agg(md5(id::text || i), ' ') FROM generate_series(1, 20) i), '{}', created_at
		FROM dlq.dlq_messages WHERE original_topic = 'flood' ORDER BY created_at LIMIT 1000`)
	exec(t, db, `UPDATE dlq.catalogue SET walked_at = now(), found_until = now()`)
	store := New(db)
	store.AnswerFrom(1)
	for _, word := range []string{"oldword", "rarething", "absentee"} {
		t.Run(word, func(t *testing.T) {
			before := buffersOf(t, db, "message_documents")
			_, err := store.Search(t.Context(), repository.SearchQuery{Filter: entity.Filter{Words: []string{word}}, Limit: 50})
			wantNil(t, err)
			if read := buffersOf(t, db, "message_documents") - before; read > fewBuffersOfNewDocuments || read == 0 {
				t.Errorf("it reads %d buffers of documents, want at most %d", read, fewBuffersOfNewDocuments)
			}
		})
	}
}

// buffersOf are those that were read so far of a table and its indexes.
func buffersOf(t *testing.T, db *sqlx.DB, table string) (n int64) {
	t.Helper()
	exec(t, db, `SELECT pg_stat_force_next_flush()`)
	wantNil(t, db.Get(&n, `SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read FROM pg_statio_user_tables
		WHERE schemaname = 'dlq' AND relname = $1`, table))
	return n
}

// seedHalves puts in 60,000 messages of two a second; the older half has one word, the
// newer half another. PostgreSQL knows of the first thousand.
func seedHalves(t *testing.T, db *sqlx.DB) {
	t.Helper()
	for _, table := range []string{"dlq_messages", "message_documents"} {
		exec(t, db, `ALTER TABLE dlq.`+table+` SET (autovacuum_enabled = off)`)
	}
	exec(t, db, `ALTER TABLE dlq.dlq_messages DISABLE TRIGGER USER`)
	for _, part := range []string{"59001, 60000", "1, 59000"} {
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, error_class, status, created_at, value, headers)
			SELECT CASE WHEN n % 120 = 0 THEN 'few' ELSE 'topic' END, 'boom ' || n, 'class' || n % 10, 'DEAD', now() - n * interval '0.5 second', '{"order": 1}', '\x00'
			FROM generate_series(`+part+`) n ORDER BY n DESC`)
		exec(t, db, `INSERT INTO dlq.message_documents (message_id, version, text, terms, created_at)
			SELECT id, 1, concat_ws(' ', 'boom', n, CASE WHEN original_topic = 'few' THEN 'fewword' WHEN n > 30000 THEN 'oldword' ELSE 'newword' END,
				CASE WHEN n % 2 = 0 THEN 'evenword' END, CASE WHEN n % 500 = 0 THEN 'rarething' END), '{}', created_at
			FROM (SELECT *, split_part(error_message, ' ', 2)::int AS n FROM dlq.dlq_messages) m WHERE n BETWEEN `+strings.ReplaceAll(part, ",", " AND ")+` ORDER BY n DESC`)
		exec(t, db, `ANALYZE dlq.dlq_messages`)
		if part == "59001, 60000" {
			exec(t, db, `ANALYZE dlq.message_documents`)
		}
	}
	exec(t, db, `SELECT dlq.merge_documents()`)
	exec(t, db, `UPDATE dlq.catalogue SET version = 1, mark = now(), walked_at = now(), found_until = now()`)
	exec(t, db, `ANALYZE dlq.catalogue`)
}

// TestDocumentsHaveTheTimeOfTheirMessage: whoever made them, and whatever becomes of it.
func TestDocumentsHaveTheTimeOfTheirMessage(t *testing.T) {
	t.Parallel()
	wantDated := func(t *testing.T, db *sqlx.DB, documents int) {
		t.Helper()
		var dated int
		wantNil(t, db.Get(&dated, `SELECT count(*) FROM dlq.message_documents d
			JOIN (SELECT id, created_at FROM dlq.dlq_messages UNION ALL SELECT id, created_at FROM dlq.dlq_messages_archive) m
			ON m.id = d.message_id AND m.created_at = d.created_at`))
		if dated != documents || count(t, db, "message_documents") != documents {
			t.Errorf("%d documents have the time of their message, want %d", dated, documents)
		}
	}
	// As a program does that does not know of it.
	const store = `INSERT INTO dlq.message_documents (message_id, version, text, terms) SELECT id, 1, 'boom', '{}' FROM dlq.`
	seed := func(t *testing.T, db *sqlx.DB) {
		t.Helper()
		seedFinal(t, db, 2500, "DEAD")
		_, err := New(db).ArchiveOld(t.Context(), 30, 1200)
		wantNil(t, err)
		seedFinal(t, db, 2500, "DEAD")
		exec(t, db, store+`dlq_messages`)
		exec(t, db, store+`dlq_messages_archive`)
	}
	t.Run("AfterAnUpgrade", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		wantNil(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-19)))
		seed(t, db)
		// A program of before made documents of these too; there is no list that they are in.
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) VALUES ('never', 'e', 'infinity'), ('never', 'e', '-infinity')`)
		exec(t, db, store+`dlq_messages WHERE original_topic = 'never'`)
		wantNil(t, migrate.Up(t.Context(), db.DB))
		exec(t, db, `DELETE FROM dlq.dlq_messages WHERE original_topic = 'never'`)
		wantDated(t, db, 5000)
	})
	t.Run("BesideAnOldProgram", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		seed(t, db)
		wantDated(t, db, 5000)
	})
	t.Run("WhenItIsGivenAnother", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		seed(t, db)
		exec(t, db, `UPDATE dlq.dlq_messages SET created_at = created_at - interval '1 year'`)
		wantDated(t, db, 5000)
	})
	t.Run("NoneHasNoFiniteOne", func(t *testing.T) {
		t.Parallel()
		f := newFinder(t)
		exec(t, f.db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) VALUES ('o', 'e', 'infinity'), ('o', 'e', '-infinity')`)
		if got := f.look(); len(got) != 0 {
			t.Errorf("got %d messages to catalogue, want none", len(got))
		}
	})
}
