package postgres

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestSearchWithAnIncompleteIndex: while the index is incomplete, a search for words finds all messages up to the
// indexer's position, and those messages of the indexer's present batch that have documents already. All of these form
// one list in the order of time.
func TestSearchWithAnIncompleteIndex(t *testing.T) {
	db := freshDB(t)
	newest := postgrestest.SeedBehind(t, db)
	store := New(db)
	store.SetIndexVersion(1)
	page := func(t *testing.T, q repository.SearchQuery) (ids []uuid.UUID) {
		t.Helper()
		q.Filter.Words = append(q.Filter.Words, "boom")
		found := check.Must(store.Search(t.Context(), q))(t)
		for _, m := range found.Messages {
			ids = append(ids, m.ID)
		}
		return ids
	}
	want := func(t *testing.T, got, want []uuid.UUID) {
		t.Helper()
		check.Require(t, len(got) == len(want), "%d messages, want %d", len(got), len(want))
		for i := range got {
			check.Require(t, got[i] == want[i], "message %d is %s, want %s", i, got[i], want[i])
		}
	}
	var places []repository.Cursor
	for _, id := range newest {
		p := repository.Cursor{ID: id}
		check.NoError(t, db.Get(&p.CreatedAt, `SELECT created_at FROM dlq.dlq_messages WHERE id = $1`, id))
		places = append(places, p)
	}

	postgrestest.Parallel(t, "PageByPage", func(t *testing.T) {
		want(t, page(t, repository.SearchQuery{Limit: 3}), newest[:3])
		want(t, page(t, repository.SearchQuery{Limit: 10, After: places[2]}), newest[3:13])
		want(t, page(t, repository.SearchQuery{Limit: 20, After: places[12]}), newest[13:33])
	})
	postgrestest.Parallel(t, "TheLastPageIsNotFull", func(t *testing.T) {
		want(t, page(t, repository.SearchQuery{Limit: 100}), newest)
		want(t, page(t, repository.SearchQuery{Limit: 100, After: places[39]}), nil)
	})
	postgrestest.Parallel(t, "OldestFirst", func(t *testing.T) {
		got := page(t, repository.SearchQuery{Limit: 1, Sort: repository.Sort{Ascending: true}})
		want(t, got, newest[39:])
	})
	t.Run("WithParameters", func(t *testing.T) { // the query has arguments of both kinds of candidates: newer and older than the indexer's position
		t.Parallel()
		f := entity.Filter{Topic: "orders", ErrorClass: "x", Words: []string{"boom"}}
		want(t, page(t, repository.SearchQuery{Limit: 12, Filter: f, After: places[4]}), newest[5:17])
	})
	postgrestest.Parallel(t, "NobodyElsesTopics", func(t *testing.T) {
		none := check.Must(entity.ParseTopicPatterns("topics", "payments"))(t)
		want(t, page(t, repository.SearchQuery{Limit: 12, Filter: entity.Filter{Visible: &none}}), nil)
	})
}

// TestSearchWithoutAMark: while the indexer has no position, as when the index is rebuilt, a search finds messages by
// the documents that exist already.
func TestSearchWithoutAMark(t *testing.T) {
	db := freshDB(t)
	newest := postgrestest.SeedBehind(t, db)
	exec(t, db, `UPDATE dlq.search_index SET walked_at = '-infinity', found_until = NULL`)
	found, err := New(db).Search(t.Context(), repository.SearchQuery{Limit: 100, Filter: entity.Filter{Words: []string{"boom"}}})
	check.NoError(t, err)
	check.Same(t, len(found.Messages), len(newest), "messages")
}

// TestSearchInTheMiddleOfABatch: the indexer stores the documents of a batch first and its own position later. Between
// these two steps, the pages of a search leave out no message between the first and the last message that they show.
func TestSearchInTheMiddleOfABatch(t *testing.T) {
	db := freshDB(t)
	postgrestest.SeedBehind(t, db)
	postgrestest.StoreDocuments(t, db, `'boom'`, `'{}'`, `dlq.dlq_messages m WHERE error_message::int BETWEEN 1006 AND 1400`)
	store := New(db)
	q := repository.SearchQuery{Limit: 30, Filter: entity.Filter{Words: []string{"boom"}}}
	next := 1400
	for range 20 {
		found := check.Must(store.Search(t.Context(), q))(t)
		for _, m := range found.Messages {
			want := fmt.Sprint(next)
			check.Require(t, m.ErrorMessage == want, "got message %s, want %s", m.ErrorMessage, want)
			next--
			q.After = repository.Cursor{CreatedAt: m.CreatedAt, ID: m.ID}
		}
	}
	check.True(t, next == 965, "the pages end after message %d, want 966", next+1)
}

// TestSearchWhileTheIndexerGoesBack: the indexer goes back to a message that was stored late. Meanwhile, a search still
// finds the newest message, which it found before.
func TestSearchWhileTheIndexerGoesBack(t *testing.T) {
	t.Parallel()
	f := newFinder(t)
	f.store.SetIndexVersion(1)
	f.work()
	late := check.Must(f.db.Beginx())(t)
	defer func() { _ = late.Rollback() }()
	missed := f.insert(late, 0)
	exec(t, f.db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id, created_at)
		SELECT 'many', n::text, gen_random_uuid(), $1::timestamptz + n * interval '10 milliseconds' FROM generate_series(1, 2000) n`, f.now)
	f.now = f.now.Add(5 * time.Minute)
	for range 10 {
		f.work()
	}
	newest := func() string {
		found, err := f.store.Search(t.Context(), repository.SearchQuery{Limit: 1, Filter: entity.Filter{Words: []string{"boom"}}})
		check.NoError(t, err)
		if len(found.Messages) == 0 {
			return "none"
		}
		return found.Messages[0].ErrorMessage
	}
	if got := newest(); got != "2000" {
		t.Fatalf("before: got message %s first, want 2000", got)
	}
	check.NoError(t, late.Commit())
	f.now = f.now.Add(5 * time.Minute)
	if got := f.look(); len(got) != 1 || got[0] != missed {
		t.Fatalf("the indexer found %d messages, want the one that was stored late", len(got))
	}
	check.Same(t, newest(), "2000", "meanwhile: got message first")
}
