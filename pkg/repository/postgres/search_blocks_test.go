package postgres

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// stretches are messages that lie in time, and documents that lie in blocks, in every
// way that there is.
type stretches struct {
	*testing.T
	db     *sqlx.DB
	store  *Store
	random *rand.Rand
	began  time.Time
}

// seedStretches has an hour of one message a second, in blocks one behind the other; 150
// blocks around one moment; more blocks in a row than are gone through at once, with one
// message among them; many messages of one instant; blocks that were stored out of order;
// documents without a block; and another row of blocks. A third is archived.
func seedStretches(t *testing.T, seed uint64) *stretches {
	t.Helper()
	s := &stretches{T: t, db: postgrestest.Open(t), random: rand.New(rand.NewPCG(seed, 22))}
	s.store = New(s.db)
	s.store.AnswerFrom(1)
	s.began = time.Now().Add(-24 * time.Hour).Truncate(time.Second)
	exec(t, s.db, `ALTER TABLE dlq.dlq_messages DISABLE TRIGGER trg_dlq_messages_note_late`)
	exec(t, s.db, `UPDATE dlq.catalogue SET version = 1, mark = now(), walked_at = now(), found_until = now()`)

	s.inRow(0, 1200, "early")
	for i := 1; i <= 150; i++ {
		s.nextBlock(true)
		documents := s.messages([]int{crowded, crowded - i, crowded + i}, "around")
		if i%25 == 1 {
			documents[0].Text += " " + crowdedWord(i)
		}
		s.keep(documents)
	}
	s.emptyBlocks(3000, skippedBlocks+500)
	s.nextBlock(true)
	s.keep(s.messages(repeated(3800, 10), "gapped"))
	s.nextBlock(true)
	s.batches(repeated(5100, 300), 40, "instantly")
	s.batches(s.random.Perm(1000), 20, "", 6000)
	for at := 7500; at < 7800; at++ {
		documents := s.messages([]int{at}, "loosely")
		if at%3 > 0 {
			s.keep(documents)
		} else {
			s.keepInNone(documents)
		}
	}
	s.keepInNone(s.messages(repeated(7900, 20), "loosely"))
	s.inRow(8000, 9000, "lately")
	for _, table := range []string{"dlq_messages", "dlq_messages_archive", "message_documents", "document_blocks"} {
		exec(t, s.db, `ANALYZE dlq.`+table)
	}
	return s
}

// crowded is the second that has many blocks around it. Some of those have a word that no
// other has, in a message of that second.
const crowded = 2000

func crowdedWord(block int) string { return strings.Repeat(string(rune('a'+block/25)), 3) + "word" }

// nextBlock ends the block, or does so two of three times.
func (s *stretches) nextBlock(always bool) {
	if always || s.random.IntN(3) > 0 {
		s.store.block.id = uuid.Nil
	}
}

// inRow stores messages of each second in order.
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

// batches stores messages of some seconds, so many at a time.
func (s *stretches) batches(seconds []int, n int, word string, offset ...int) {
	for batch := range slices.Chunk(slices.Clone(seconds), n) {
		for i := range batch {
			for _, o := range offset {
				batch[i] += o
			}
		}
		s.nextBlock(false)
		s.keep(s.messages(batch, word))
	}
}

func (s *stretches) keep(documents []entity.Document) {
	wantNil(s.T, s.store.StoreDocuments(s.Context(), 1, documents))
}

// keepInNone stores documents as a program does that knows of no blocks.
func (s *stretches) keepInNone(documents []entity.Document) {
	for _, d := range documents {
		exec(s.T, s.db, `INSERT INTO dlq.message_documents (message_id, version, text, terms) VALUES ($1, 1, $2, '{}')`, d.MessageID, d.Text)
	}
}

func repeated(second, n int) []int { return slices.Repeat([]int{second}, n) }

// at is a moment in seconds of the stretches.
func (s *stretches) at(second int) time.Time { return s.began.Add(time.Duration(second) * time.Second) }

// messages puts in a message for each second and returns their documents, of which half
// have the word of their stretch.
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

func (s *stretches) text(word string) string {
	text := []string{randomLetters(s.random, 5+s.random.IntN(60)), fmt.Sprint("no", s.random.IntN(100))}
	for _, some := range []struct {
		text string
		of   int // how many one has it
	}{{word, 2}, {"common thing", 3}, {"needle", 150}, {"größe", 9}, {"tag", 10}} {
		if s.random.IntN(some.of) == 0 {
			text = append(text, some.text)
		}
	}
	s.random.Shuffle(len(text), func(i, j int) { text[i], text[j] = text[j], text[i] })
	return strings.Join(text, " ")
}

// emptyBlocks puts in blocks of a second each that have no letters.
func (s *stretches) emptyBlocks(from, n int) {
	exec(s.T, s.db, `INSERT INTO dlq.document_blocks (id, oldest, newest, letters)
		SELECT gen_random_uuid(), $1::timestamptz + n * interval '1 second', $1::timestamptz + (n + 0.9) * interval '1 second', decode(repeat('00', 128), 'hex')
		FROM generate_series(1, $2::int) n`, s.at(from), n)
}

// asked are words in all places, in one, and in none.
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

// expected are the ids that plain SQL finds.
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
	if q.After != (repository.Place{}) {
		where += " AND (m.created_at, m.id) " + sign + " (" + arg(q.After.CreatedAt) + "::timestamptz, " + arg(q.After.ID) + "::uuid)"
	}
	wantNil(s.T, s.db.Select(&ids, `SELECT m.id FROM `+sourceOf(q.Archived).table+` m JOIN dlq.message_documents d ON d.message_id = m.id
		WHERE `+where+` ORDER BY `+order(q.Sort, "m.created_at", "m.id"), args...))
	return ids
}

// wantPages wants the first pages of a list to be what plain SQL finds, or all of them.
func (s *stretches) wantPages(q repository.SearchQuery, pages int) {
	s.Helper()
	want, got := s.expected(q), pageByPage(s.T, s.store, q, pages)
	if want = want[:min(len(want), pages*q.Limit)]; !slices.Equal(got, want) {
		s.Errorf("%q, limit %d, archived %t, ascending %t, from %s to %s behind %s %s: got %d messages, want %d; the first that differs is the %dth",
			q.Filter.Words, q.Limit, q.Archived, q.Sort.Ascending, q.Filter.CreatedAfter, q.Filter.CreatedBefore, q.After.CreatedAt, q.After.ID,
			len(got), len(want), firstDifference(got, want))
	}
}

// place is one that a page may begin behind: a message of either table, or none.
func (s *stretches) place(known []repository.Place) repository.Place {
	ids := []uuid.UUID{{}, uuid.Max, uuid.New()}
	switch p := known[s.random.IntN(len(known))]; s.random.IntN(4) {
	case 0:
		return p
	case 1: // among what is of one moment, if there is more
		return repository.Place{CreatedAt: p.CreatedAt, ID: ids[s.random.IntN(len(ids))]}
	case 2:
		return repository.Place{CreatedAt: p.CreatedAt.Add(time.Duration(s.random.IntN(2_000_001)-1_000_000) * time.Microsecond), ID: ids[s.random.IntN(len(ids))]}
	}
	return repository.Place{CreatedAt: s.at(s.random.IntN(10_000) - 500), ID: uuid.New()}
}

func (s *stretches) query(words []string, known []repository.Place) repository.SearchQuery {
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

func (s *stretches) places() (known []repository.Place) {
	s.Helper()
	var found []struct {
		ID uuid.UUID `db:"message_id"`
		At time.Time `db:"created_at"`
	}
	wantNil(s.T, s.db.Select(&found, `SELECT message_id, created_at FROM dlq.message_documents ORDER BY 2, 1`))
	for _, f := range found {
		known = append(known, repository.Place{CreatedAt: f.At, ID: f.ID})
	}
	return known
}

// TestBlocksPageByPage: pages of a search for words are what plain SQL finds, wherever
// they begin and however documents and their blocks lie in time.
func TestBlocksPageByPage(t *testing.T) {
	t.Parallel()
	s := seedStretches(t, 1)
	if n := count(t, s.db, "message_documents WHERE block IS NULL"); n != 120 {
		t.Fatalf("%d documents are in no block, want 120", n)
	}
	if n := count(t, s.db, "document_blocks WHERE $1 BETWEEN oldest AND newest", s.at(crowded)); n != 150 {
		t.Fatalf("%d blocks are around one moment, want 150", n)
	}
	t.Run("All", func(t *testing.T) {
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
				s.wantPages(how, 40)
			}
		}
		if found != len(askedWords())-2 {
			t.Errorf("some message has the words in %d cases, want in all but 2", found)
		}
	})
	t.Run("AmongManyBlocks", func(t *testing.T) {
		s := *s
		s.T = t
		for i := 1; i <= 150; i += 25 {
			for _, archived := range []bool{false, true} {
				q := repository.SearchQuery{Filter: entity.Filter{Words: []string{crowdedWord(i)}}, Limit: 5, Archived: archived}
				q.After = repository.Place{CreatedAt: s.at(crowded), ID: uuid.Max}
				s.wantPages(q, 2)
				q.After.ID, q.Sort.Ascending = uuid.Nil, true
				s.wantPages(q, 2)
			}
		}
	})
	t.Run("FromAnyPlace", func(t *testing.T) {
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

// TestSkipLeavesNoneOut: between where a list begins and where skip goes to there is
// nothing that has the words, and it goes to no place before that where it was.
func TestSkipLeavesNoneOut(t *testing.T) {
	t.Parallel()
	s := seedStretches(t, 2)
	known := s.places()
	tx, err := s.db.BeginTxx(t.Context(), nil)
	wantNil(t, err)
	defer func() { _ = tx.Rollback() }()
	ended := 0
	for range 60 {
		for _, words := range askedWords() {
			q := s.query(words, known)
			past, err := skip(t.Context(), tx, q)
			wantNil(t, err)
			all := s.expected(q)
			if past.none {
				ended++
				if len(all) > 0 {
					t.Fatalf("%+v: none is left, want %d", q, len(all))
				}
				continue
			}
			if past.moved == (past.to == q.After) {
				t.Fatalf("%+v: it goes to %v, and moved is %t", q, past.to, past.moved)
			}
			q.After = past.to
			if left := s.expected(q); !slices.Equal(left, all) {
				t.Fatalf("%+v: %d are left, want %d", q, len(left), len(all))
			}
			again, err := skip(t.Context(), tx, q)
			wantNil(t, err)
			if q.Sort.Ascending && again.to.CreatedAt.Before(q.After.CreatedAt) || !q.Sort.Ascending && again.to.CreatedAt.After(q.After.CreatedAt) {
				t.Fatalf("%+v: it goes back to %s", q, again.to.CreatedAt)
			}
		}
	}
	if ended < 50 {
		t.Errorf("it went to the end %d times, want it to go past blocks", ended)
	}
}

// TestSkipGoesOnBehindManyBlocks: it stops behind as many blocks as it goes through at
// once, and the next time goes through the next.
func TestSkipGoesOnBehindManyBlocks(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	s := &stretches{T: t, db: db, began: time.Now().Add(-24 * time.Hour).Truncate(time.Second)}
	s.emptyBlocks(0, 2*skippedBlocks+skippedBlocks/2)
	for _, ascending := range []bool{false, true} {
		q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"absentword"}}, Sort: repository.Sort{Ascending: ascending}}
		tx, err := db.BeginTxx(t.Context(), nil)
		wantNil(t, err)
		for round := range 2 {
			past, err := skip(t.Context(), tx, q)
			wantNil(t, err)
			if past.none || !past.moved || !past.stopped || past.to == q.After {
				t.Fatalf("ascending %t, round %d: skip = %+v, want a place further on, where it stopped", ascending, round, past)
			}
			q.After = past.to
		}
		if past, err := skip(t.Context(), tx, q); err != nil || !past.none {
			t.Errorf("ascending %t: skip = %+v, %v, want the end", ascending, past, err)
		}
		wantNil(t, tx.Rollback())
	}
}

// TestDocumentsLeaveTheirBlock: whoever changes a document, or its message's time, and
// knows of no blocks, leaves it where a search finds it; who stores it again puts it back.
func TestDocumentsLeaveTheirBlock(t *testing.T) {
	t.Parallel()
	seed := func(t *testing.T) *stretches {
		t.Helper()
		s := &stretches{T: t, db: postgrestest.Open(t), random: rand.New(rand.NewPCG(8, 6)), began: time.Now().Add(-24 * time.Hour).Truncate(time.Second)}
		s.store = New(s.db)
		s.store.AnswerFrom(1)
		exec(t, s.db, `UPDATE dlq.catalogue SET version = 1, mark = now(), walked_at = now(), found_until = now()`)
		return s
	}
	one := func(s *stretches, text string) entity.Document {
		s.Helper()
		d := entity.Document{MessageID: uuid.New(), Text: text}
		exec(s.T, s.db, `INSERT INTO dlq.dlq_messages (id, original_topic, error_message, created_at) VALUES ($1, 'orders', 'boom', $2)`, d.MessageID, s.at(0))
		s.keep([]entity.Document{d})
		return d
	}
	blockOf := func(s *stretches, d entity.Document) uuid.NullUUID {
		s.Helper()
		var block uuid.NullUUID
		wantNil(s.T, s.db.Get(&block, `SELECT block FROM dlq.message_documents WHERE message_id = $1`, d.MessageID))
		return block
	}
	wantFoundBy := func(s *stretches, word string, want ...uuid.UUID) {
		s.Helper()
		for _, ascending := range []bool{false, true} {
			q := repository.SearchQuery{Filter: entity.Filter{Words: []string{word}}, Sort: repository.Sort{Ascending: ascending}, Limit: 10}
			if got := pageByPage(s.T, s.store, q, 2); !slices.Equal(got, want) {
				s.Errorf("%s, ascending %t: got %v, want %v", word, ascending, got, want)
			}
		}
	}
	const setText = `UPDATE dlq.message_documents SET text = $2 WHERE message_id = $1`

	t.Run("AnotherText", func(t *testing.T) {
		t.Parallel()
		s := seed(t)
		d := one(s, "charged")
		if !blockOf(s, d).Valid {
			t.Fatal("it is in no block")
		}
		exec(t, s.db, setText, d.MessageID, "charged")
		if !blockOf(s, d).Valid {
			t.Error("a text that is the same takes it out of its block")
		}
		exec(t, s.db, setText, d.MessageID, "refunded")
		if blockOf(s, d).Valid {
			t.Error("with another text it is in its block")
		}
		wantFoundBy(s, "refunded", d.MessageID)
		wantFoundBy(s, "charged")
	})
	t.Run("AnotherTime", func(t *testing.T) {
		t.Parallel()
		for _, by := range []time.Duration{-time.Hour, time.Hour} {
			s := seed(t)
			d := one(s, "charged")
			exec(t, s.db, `UPDATE dlq.dlq_messages SET created_at = $2 WHERE id = $1`, d.MessageID, s.at(0).Add(by))
			if blockOf(s, d).Valid {
				t.Errorf("%s later it is in its block", by)
			}
			wantFoundBy(s, "charged", d.MessageID)
			s.keep([]entity.Document{d})
			if !blockOf(s, d).Valid {
				t.Error("stored again it is in no block")
			}
			wantFoundBy(s, "charged", d.MessageID)
		}
	})
	t.Run("AnotherTimeInTheArchive", func(t *testing.T) {
		t.Parallel()
		s := seed(t)
		d := one(s, "charged")
		archive(t, s.db, d.MessageID)
		if !blockOf(s, d).Valid {
			t.Error("archived it is in no block")
		}
		exec(t, s.db, `UPDATE dlq.dlq_messages_archive SET created_at = created_at - interval '1 hour'`)
		if blockOf(s, d).Valid {
			t.Error("with another time it is in its block")
		}
		q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"charged"}}, Archived: true, Limit: 10}
		if got := pageByPage(t, s.store, q, 2); !slices.Equal(got, []uuid.UUID{d.MessageID}) {
			t.Errorf("got %v, want %v", got, d.MessageID)
		}
	})
	t.Run("WhatNoTextCanHave", func(t *testing.T) { // it is found as it is stored
		t.Parallel()
		for _, text := range []string{"char\x00ged", "char\xff\xfeged"} {
			s := seed(t)
			d := one(s, text)
			wantFoundBy(s, "char\ufffdged", d.MessageID)
		}
	})
	t.Run("StoredOutOfTurn", func(t *testing.T) { // the store that knows less comes last
		t.Parallel()
		s := seed(t)
		d := one(s, "charged")
		less := bytes.Clone(s.store.block.letters.bits[:])
		e := one(s, "refunded "+randomLetters(s.random, 3000))
		s.store.block.letters.bits = letters{}.bits
		copy(s.store.block.letters.bits[:], less)
		s.keep([]entity.Document{d})
		wantFoundBy(s, "refunded", e.MessageID)
		wantFoundBy(s, "charged", d.MessageID)
	})
	t.Run("AnotherTimeByItself", func(t *testing.T) {
		t.Parallel()
		s := seed(t)
		d := one(s, "charged")
		exec(t, s.db, `UPDATE dlq.message_documents SET created_at = created_at - interval '1 hour'`)
		if blockOf(s, d).Valid {
			t.Error("with another time it is in its block")
		}
	})
	t.Run("NoFiniteTime", func(t *testing.T) {
		t.Parallel()
		s := seed(t)
		d := one(s, "charged")
		exec(t, s.db, `UPDATE dlq.dlq_messages SET created_at = 'infinity'`)
		if blockOf(s, d).Valid {
			t.Error("without a time it is in its block")
		}
		exec(t, s.db, `UPDATE dlq.dlq_messages SET created_at = $1`, s.at(-100))
		wantFoundBy(s, "charged", d.MessageID)
	})
	t.Run("StoredAgain", func(t *testing.T) {
		t.Parallel()
		s := seed(t)
		d := one(s, "charged")
		first := blockOf(s, d)
		s.nextBlock(true)
		s.keep([]entity.Document{d})
		if got := blockOf(s, d); got != first {
			t.Errorf("unchanged it is in block %v, want %v still", got, first)
		}
		exec(t, s.db, `UPDATE dlq.message_documents SET block = NULL`)
		s.keep([]entity.Document{d})
		second := blockOf(s, d)
		if !second.Valid || second == first {
			t.Errorf("from no block it comes into %v, want a new one", second)
		}
		s.nextBlock(true)
		d.Text = "refunded"
		s.keep([]entity.Document{d})
		if third := blockOf(s, d); !third.Valid || third == second {
			t.Errorf("with another text it comes into %v, want a new one", third)
		}
		wantFoundBy(s, "refunded", d.MessageID)
		d.Text = "reversed" // by the block that it is in
		s.keep([]entity.Document{d})
		wantFoundBy(s, "reversed", d.MessageID)
		exec(t, s.db, `UPDATE dlq.catalogue SET version = 2`)
		s.nextBlock(true)
		wantNil(t, s.store.StoreDocuments(t.Context(), 2, []entity.Document{d}))
		s.store.AnswerFrom(2)
		if !blockOf(s, d).Valid {
			t.Error("of another version it is in no block")
		}
		wantFoundBy(s, "reversed", d.MessageID)
	})
	t.Run("StoredByAProgramOfBefore", func(t *testing.T) {
		t.Parallel()
		s := seed(t)
		d := one(s, "charged")
		exec(t, s.db, `INSERT INTO dlq.message_documents AS d (message_id, version, text, terms) VALUES ($1, 1, 'refunded', '{}')
			ON CONFLICT (message_id) DO UPDATE SET text = excluded.text, terms = excluded.terms`, d.MessageID)
		if blockOf(s, d).Valid {
			t.Error("it is in its block")
		}
		wantFoundBy(s, "refunded", d.MessageID)
	})
	t.Run("ForAnotherVersion", func(t *testing.T) { // nothing is stored, not even a block
		t.Parallel()
		s := seed(t)
		one(s, "charged")
		s.nextBlock(true)
		wantNil(t, s.store.StoreDocuments(t.Context(), 7, textsOf("refunded")))
		wantNil(t, s.store.StoreDocuments(t.Context(), 1, textsOf("a message that is gone")))
		if n := count(t, s.db, "document_blocks"); n != 1 {
			t.Errorf("%d blocks, want 1", n)
		}
	})
}

// TestPurgeOfBlocks: those of whose time no message is left go, unless they were stored so
// late that they might get one.
func TestPurgeOfBlocks(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	now := time.Now().Truncate(time.Second)
	days := func(n int) time.Time { return now.Add(time.Duration(n) * -24 * time.Hour) }
	block := func(stored, oldest, newest time.Time) (id uuid.UUID) {
		id = uuid.New()
		exec(t, db, `INSERT INTO dlq.document_blocks (id, stored_at, oldest, newest, letters) VALUES ($1, $2, $3, $4, decode(repeat('00', 128), 'hex'))`,
			id, stored, oldest, newest)
		return id
	}
	want := func(when string, left ...uuid.UUID) {
		t.Helper()
		_, err := New(db).PurgeBookkeeping(t.Context(), 365, 730, 2)
		wantNil(t, err)
		slices.SortFunc(left, compareIDs)
		if got := allIDs(t, db, "document_blocks"); !slices.Equal(got, left) {
			t.Errorf("%s: got %v, want %v", when, got, left)
		}
	}
	const live = `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at) VALUES ('orders', 'boom', $1)`
	const archived = `INSERT INTO dlq.dlq_messages_archive (original_topic, error_message, status, created_at, archived_at) VALUES ('orders', 'boom', 'DEAD', $1, now() - interval '5 days')`
	exec(t, db, `ALTER TABLE dlq.dlq_messages DISABLE TRIGGER trg_dlq_messages_note_late`)
	exec(t, db, live, "-infinity")
	exec(t, db, live, "infinity")
	exec(t, db, live, days(10))
	exec(t, db, archived, days(20))
	for range 5 { // more than a batch
		block(days(8), days(30), days(20).Add(-time.Microsecond))
	}
	block(days(8), days(20).Add(time.Microsecond), days(10).Add(-time.Microsecond))
	block(days(8), days(10).Add(time.Microsecond), now)
	block(now.Add(-blockKept-time.Minute), days(30), days(25))
	fresh := block(now.Add(-blockKept+time.Minute), days(30), days(25))
	first, last := block(days(8), days(20), days(19)), block(days(8), days(21), days(20))
	inLive, aroundLive := block(days(8), days(10), days(10)), block(days(8), days(11), days(9))
	want("with both tables", fresh, first, last, inLive, aroundLive)
	exec(t, db, `DELETE FROM dlq.dlq_messages_archive`)
	want("without an archive", fresh, inLive, aroundLive)
	exec(t, db, `DELETE FROM dlq.dlq_messages WHERE isfinite(created_at)`)
	exec(t, db, archived, days(9))
	want("with an archive only", fresh, aroundLive)
	exec(t, db, `DELETE FROM dlq.dlq_messages_archive`)
	want("with messages of no finite time", fresh)
	exec(t, db, `DELETE FROM dlq.dlq_messages`)
	block(days(2), days(2), days(1))
	want("without any", fresh)
}

// What a search may read of documents beside a flood of 5,000 that the index has not
// merged: those of its page, or of some hundred messages, one by one. The list of what is
// not merged has three times as many buffers.
const (
	buffersOfAPage     = 600
	buffersOfTwoProbes = 4_000
)

// TestBlocksReadLittle: a search goes past a flood without a look at its documents, and
// without one at the list of those that are new to the index.
func TestBlocksReadLittle(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	store := New(db)
	store.AnswerFrom(1)
	random := rand.New(rand.NewPCG(8, 7))
	for _, table := range []string{"dlq_messages", "message_documents", "document_blocks"} {
		exec(t, db, `ALTER TABLE dlq.`+table+` SET (autovacuum_enabled = off)`)
	}
	exec(t, db, `ALTER TABLE dlq.dlq_messages DISABLE TRIGGER USER`)
	exec(t, db, `UPDATE dlq.catalogue SET version = 1, mark = now(), walked_at = now(), found_until = now()`)
	stored := func(topic, word string, messages int) {
		t.Helper()
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, value, headers)
			SELECT $1, 'boom', now() - interval '1 day' + n * interval '1 millisecond' + (SELECT count(*) FROM dlq.dlq_messages) * interval '1 second', '{}', '\x00'
			FROM generate_series(1, $2::int) n`, topic, messages)
		var ids []uuid.UUID
		wantNil(t, db.Select(&ids, `SELECT id FROM dlq.dlq_messages WHERE original_topic = $1 ORDER BY created_at`, topic))
		for batch := range slices.Chunk(ids, 250) {
			documents := make([]entity.Document, len(batch))
			for i, id := range batch {
				documents[i] = entity.Document{MessageID: id, Text: word + " order of " + randomLetters(random, 100)}
				if i%25 == 0 && word != "flooded" {
					documents[i].Text += " alternating"
				}
			}
			wantNil(t, store.StoreDocuments(t.Context(), 1, documents))
		}
		store.block.id = uuid.Nil
	}
	stored("first", "charged", 300)
	stored("flood", "flooded", 5000)
	stored("last", "refunded", 300)
	exec(t, db, `ANALYZE dlq.dlq_messages`)
	for _, c := range []struct {
		word      string
		ascending bool
		want      int
		most      int64 // buffers
	}{
		{"charged", false, 50, buffersOfAPage},
		{"refunded", true, 50, buffersOfAPage},
		{"alternating", false, 24, buffersOfTwoProbes}, // on both sides of the flood
		{"alternating", true, 24, buffersOfTwoProbes},
		{"absentword", false, 0, buffersOfAPage},
		{"absentword", true, 0, buffersOfAPage},
	} {
		t.Run(fmt.Sprint(c.word, c.ascending), func(t *testing.T) {
			messages, documents := buffersOf(t, db, "dlq_messages"), buffersOf(t, db, "message_documents")
			found, err := store.Search(t.Context(), repository.SearchQuery{
				Filter: entity.Filter{Words: []string{c.word}}, Sort: repository.Sort{Ascending: c.ascending}, Limit: 50, NoValues: true,
			})
			wantNil(t, err)
			if len(found) != c.want {
				t.Errorf("got %d messages, want %d", len(found), c.want)
			}
			messages, documents = buffersOf(t, db, "dlq_messages")-messages, buffersOf(t, db, "message_documents")-documents
			if documents > c.most || messages > c.most {
				t.Errorf("it reads %d buffers of messages and %d of documents, want at most %d", messages, documents, c.most)
			}
		})
	}
}

// TestSkipPlans: skip walks the indexes of blocks, and that of documents without one,
// however many blocks there are and whatever PostgreSQL knows of them.
func TestSkipPlans(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	for _, table := range []string{"message_documents", "document_blocks"} {
		exec(t, db, `ALTER TABLE dlq.`+table+` SET (autovacuum_enabled = off)`)
	}
	exec(t, db, `INSERT INTO dlq.document_blocks (id, oldest, newest, letters)
		SELECT gen_random_uuid(), now() - (n + 1) * interval '1 minute', now() - n * interval '1 minute', decode(repeat('00', 512), 'hex')
		FROM generate_series(1, 5000) n`)
	exec(t, db, `ALTER TABLE dlq.message_documents DISABLE TRIGGER USER`)
	exec(t, db, `INSERT INTO dlq.message_documents (message_id, version, text, terms, created_at, block)
		SELECT gen_random_uuid(), 1, 'boom', '{}', now() - n * interval '10 seconds', CASE WHEN n % 1000 > 0 THEN gen_random_uuid() END
		FROM generate_series(1, 30000) n`)
	asked := fours([]string{"nullpointerexception"})
	wantWalked := func(t *testing.T, edge string, from any, ascending bool) {
		t.Helper()
		query, args := skipQuery(from, asked, ascending)
		plan := planned(t, db, query, args)
		wantWalks(t, plan, "document_blocks", []string{"idx_document_blocks_around", edge, "idx_message_documents_unblocked"})
		wantWalks(t, plan, "message_documents", nil)
		if strings.Contains(plan, "Bitmap Heap Scan on message_documents") {
			t.Errorf("it collects what it should walk:\n%s", plan)
		}
	}
	for _, known := range []string{"Never", "Analyzed"} {
		if known == "Analyzed" {
			exec(t, db, `ANALYZE dlq.document_blocks`)
			exec(t, db, `ANALYZE dlq.message_documents`)
		}
		for name, from := range map[string]time.Time{"Newest": time.Now(), "Middle": time.Now().Add(-40 * time.Hour), "Oldest": time.Now().Add(-5000 * time.Minute)} {
			t.Run(known+name, func(t *testing.T) {
				wantWalked(t, "idx_document_blocks_newest", from, false)
				wantWalked(t, "idx_document_blocks_oldest", from, true)
			})
		}
		t.Run(known+"All", func(t *testing.T) {
			wantWalked(t, "idx_document_blocks_newest", "infinity", false)
			wantWalked(t, "idx_document_blocks_oldest", "-infinity", true)
		})
	}
}
