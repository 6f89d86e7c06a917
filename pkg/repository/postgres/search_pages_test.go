package postgres

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// stretches is the database of TestSearchPagesAreThoseOfSQL. Its messages form several time ranges with different
// distributions of messages, which are called stretches.
type stretches struct {
	*testing.T
	db     *sqlx.DB
	store  *Store
	random *rand.Rand
	began  time.Time
}

// seedStretches inserts these stretches: some minutes with one message a second; some messages around one time; ten
// messages with one created_at, long before all others; many messages with the same created_at; some messages that were
// stored out of order; and again some minutes. Apart from the ten old messages, the first stretch begins before
// midnight, and the last one ends after it. A third of the messages is archived.
func seedStretches(t *testing.T, seed uint64) *stretches {
	t.Helper()
	s := &stretches{T: t, db: postgrestest.Open(t), random: rand.New(rand.NewPCG(seed, 22))}
	s.store = New(s.db)
	s.store.SetIndexVersion(1)
	s.began = time.Now().UTC().Truncate(24 * time.Hour).Add(-5200 * time.Second)
	exec(t, s.db, `ALTER TABLE dlq.dlq_messages DISABLE TRIGGER trg_dlq_messages_note_late`)
	exec(t, s.db, `UPDATE dlq.search_index SET version = 1, mark = now(), walked_at = now() + interval '1 day', found_until = now() + interval '1 day'`)

	s.inRow(0, 1200, "early")
	for i := 1; i <= 50; i++ {
		s.keep(s.messages([]int{2000, 2000 - i, 2000 + i}, "around"))
	}
	s.keep(s.messages(repeated(-40*24*3600, 10), "gapped"))
	s.batches(repeated(5200, 300), 40, "instantly")
	s.batches(s.random.Perm(1000), 20, "", 6000)
	for at := 7500; at < 7800; at++ {
		s.keep(s.messages([]int{at}, "loosely"))
	}
	s.inRow(8000, 9000, "lately")
	for _, table := range []string{"dlq_messages", "dlq_messages_archive", "message_documents"} {
		exec(t, s.db, `ANALYZE dlq.`+table)
	}
	return s
}

// inRow stores one message for each second from the parameter from up to, but not including, upTo.
func (s *stretches) inRow(from, upTo int, word string) {
	for from < upTo {
		n := min(1+s.random.IntN(80), upTo-from)
		seconds := make([]int, n)
		for i := range seconds {
			seconds[i] = from + i
		}
		s.batches(seconds, n, word)
		from += n
	}
}

// batches stores a message for each of the given seconds, in batches of n messages.
func (s *stretches) batches(seconds []int, n int, word string, offset ...int) {
	for batch := range slices.Chunk(slices.Clone(seconds), n) {
		for i := range batch {
			for _, o := range offset {
				batch[i] += o
			}
		}
		s.keep(s.messages(batch, word))
	}
}

func (s *stretches) keep(documents []entity.Document) {
	check.NoError(s.T, s.store.StoreDocuments(s.Context(), 1, documents))
}

func repeated(second, n int) []int { return slices.Repeat([]int{second}, n) }

// at returns the time that is the given number of seconds after the beginning of the first stretch.
func (s *stretches) at(second int) time.Time { return s.began.Add(time.Duration(second) * time.Second) }

// messages inserts a message for each of the given seconds and returns the documents of these messages. Half of the
// documents contain the given word, which names their stretch.
func (s *stretches) messages(seconds []int, word string) []entity.Document {
	documents := make([]entity.Document, len(seconds))
	var ids, topics [2][]string
	var times [2][]time.Time
	for i, second := range seconds {
		documents[i] = entity.Document{MessageID: uuid.New(), Text: s.text(word), CreatedAt: s.at(second)}
		table := s.random.IntN(3) / 2
		ids[table], times[table] = append(ids[table], documents[i].MessageID.String()), append(times[table], s.at(second))
		topics[table] = append(topics[table], []string{"orders", "payments"}[s.random.IntN(2)])
	}
	for i, table := range []string{"dlq_messages", "dlq_messages_archive"} {
		if len(ids[i]) > 0 {
			exec(s.T, s.db, `INSERT INTO dlq.`+table+` (id, original_topic, error_message, status, created_at, updated_at, value, headers)
				SELECT id, topic, 'boom', 'DEAD', at, now(), '{}', '\x00' FROM unnest($1::uuid[], $2::timestamptz[], $3::text[]) AS x (id, at, topic)`,
				pq.Array(ids[i]), pq.Array(times[i]), pq.Array(topics[i]))
		}
	}
	return documents
}

// randomLetters returns n letters.
func randomLetters(random *rand.Rand, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('a' + random.IntN(26))
	}
	return string(text)
}

func (s *stretches) text(word string) string {
	text := []string{randomLetters(s.random, 5+s.random.IntN(60)), fmt.Sprint("no", s.random.IntN(100))}
	for _, some := range []struct {
		text string
		of   int // one of this many messages contains the text
	}{{word, 2}, {"common thing", 3}, {"needle", 150}, {"größe", 9}, {"tag", 10}} {
		if s.random.IntN(some.of) == 0 {
			text = append(text, some.text)
		}
	}
	s.random.Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
	return strings.Join(text, " ")
}

// askedWords returns the words of the searches: words that occur in all stretches, in one stretch, and in none.
func askedWords() [][]string {
	return [][]string{
		{"early"},
		{"around"},
		{"gapped"},
		{"instantly"},
		{"loosely"},
		{"lately"},
		{"common thing"},
		{"needle"},
		{"größe"},
		{"common", "lately"},
		{"needle", "mon th"},
		{"absentword"},
		{"early", "lately"},
		{"tag"},
		{"no7", "early"},
		{"öße n"},
		{"early", "xy"},
	}
}

// expected returns the ids that plain SQL finds for the search, without the product's search.
func (s *stretches) expected(q repository.SearchQuery) (ids []uuid.UUID) {
	s.Helper()
	where, sign := "true", "<"
	if q.Sort.Ascending {
		sign = ">"
	}
	var args []any
	arg := func(value any) string {
		args = append(args, value)
		return fmt.Sprint("$", len(args))
	}
	for _, word := range q.Filter.Words {
		where += " AND strpos(d.text, " + arg(word) + ") > 0"
	}
	if q.Filter.Topic != "" {
		where += " AND m.original_topic = " + arg(q.Filter.Topic)
	}
	if at := q.Filter.CreatedAfter; !at.IsZero() {
		where += " AND m.created_at >= " + arg(at)
	}
	if at := q.Filter.CreatedBefore; !at.IsZero() {
		where += " AND m.created_at < " + arg(at)
	}
	if q.After != (repository.Cursor{}) {
		where += " AND (m.created_at, m.id) " + sign + " (" + arg(q.After.CreatedAt) + "::timestamptz, " + arg(q.After.ID) + "::uuid)"
	}
	check.NoError(s.T, s.db.Select(&ids, `SELECT m.id FROM `+codec.SourceOf(q.Archived).Table+` m JOIN dlq.message_documents d ON d.message_id = m.id
		WHERE `+where+` ORDER BY `+orderOf(q.Sort, "m.created_at", "m.id"), args...))
	return ids
}

// wantPages compares the first pages of a search with the result of plain SQL. The parameter pages is the number of
// full pages.
func (s *stretches) wantPages(q repository.SearchQuery, pages int) {
	s.Helper()
	want, got := s.expected(q), pageByPage(s.T, s.store, q, pages)
	if want = want[:min(len(want), pages*q.Limit)]; !slices.Equal(got, want) {
		s.Errorf("%q, limit %d, archived %t, ascending %t, from %s to %s after %s %s: got %d messages, want %d; the first difference is at %d",
			q.Filter.Words, q.Limit, q.Archived, q.Sort.Ascending, q.Filter.CreatedAfter, q.Filter.CreatedBefore, q.After.CreatedAt, q.After.ID,
			len(got), len(want), check.FirstDifference(got, want))
	}
}

// place returns a random cursor at which a page may start: the cursor of a known message, a cursor near that message,
// or a cursor at any time of the stretches.
func (s *stretches) place(known []repository.Cursor) repository.Cursor {
	ids := []uuid.UUID{{}, uuid.Max, uuid.New()}
	switch p := known[s.random.IntN(len(known))]; s.random.IntN(4) {
	case 0:
		return p
	case 1: // a cursor among messages with the same created_at
		return repository.Cursor{CreatedAt: p.CreatedAt, ID: ids[s.random.IntN(len(ids))]}
	case 2:
		return repository.Cursor{CreatedAt: p.CreatedAt.Add(time.Duration(s.random.IntN(2_000_001)-1_000_000) * time.Microsecond), ID: ids[s.random.IntN(len(ids))]}
	}
	return repository.Cursor{CreatedAt: s.at(s.random.IntN(10_000) - 500), ID: uuid.New()}
}

func (s *stretches) query(words []string, known []repository.Cursor) repository.SearchQuery {
	q := repository.SearchQuery{
		Filter: entity.Filter{Words: words}, Archived: s.random.IntN(2) == 0,
		Sort: repository.Sort{Ascending: s.random.IntN(2) == 0}, Limit: []int{1, 7, 60}[s.random.IntN(3)],
	}
	if s.random.IntN(4) > 0 {
		q.After = s.place(known)
	}
	if s.random.IntN(3) == 0 {
		q.Filter.CreatedAfter = s.place(known).CreatedAt
	}
	if s.random.IntN(3) == 0 {
		q.Filter.CreatedBefore = s.place(known).CreatedAt
	}
	if s.random.IntN(4) == 0 {
		q.Filter.Topic = "orders"
	}
	return q
}

func (s *stretches) places() (known []repository.Cursor) {
	s.Helper()
	var found []struct {
		ID uuid.UUID `db:"message_id"`
		At time.Time `db:"created_at"`
	}
	check.NoError(s.T, s.db.Select(&found, `SELECT message_id, created_at FROM dlq.message_documents ORDER BY 2, 1`))
	for _, f := range found {
		known = append(known, repository.Cursor{CreatedAt: f.At, ID: f.ID})
	}
	return known
}

// TestSearchPagesAreThoseOfSQL: the pages of a search for words contain the messages that plain SQL finds, whatever
// cursor the search begins at. This also holds when the time limit of each page ends as soon as its cursor has
// advanced.
func TestSearchPagesAreThoseOfSQL(t *testing.T) {
	t.Parallel()
	s := seedStretches(t, 1)
	t.Run("InTime", func(t *testing.T) {
		s := *s
		s.T = t
		s.wantAllPages()
	})
	t.Run("TimeIsOver", func(t *testing.T) {
		s := *s
		s.T, s.store = t, New(s.db)
		s.store.SetIndexVersion(1)
		s.store.Searcher.SearchTime = 0
		s.wantAllPages()
	})
}

func (s *stretches) wantAllPages() {
	s.T.Run("All", func(t *testing.T) {
		s := *s
		s.T = t
		found := 0
		for _, words := range askedWords() {
			if len(s.expected(repository.SearchQuery{Filter: entity.Filter{Words: words}})) > 0 {
				found++
			}
			for _, how := range []repository.SearchQuery{
				{Limit: 101},
				{Limit: 101, Sort: repository.Sort{Ascending: true}},
				{Limit: 53, Archived: true},
				{Limit: 53, Archived: true, Sort: repository.Sort{Ascending: true}},
			} {
				how.Filter.Words = words
				s.wantPages(how, 60)
			}
		}
		check.Same(t, found, len(askedWords())-2, "some message has the words in cases, want in all but 2")
	})
	s.T.Run("FromAnyPlace", func(t *testing.T) {
		s := *s
		s.T = t
		known := s.places()
		for _, words := range askedWords() {
			for range 16 {
				s.wantPages(s.query(words, known), 3)
			}
		}
	})
}

// orderOf returns the SQL after ORDER BY for a list in the order s.
func orderOf(s repository.Sort, at, id string) string {
	if s.Ascending {
		return at + ", " + id
	}
	return at + " DESC, " + id + " DESC"
}
