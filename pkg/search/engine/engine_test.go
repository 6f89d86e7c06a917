package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/opensearch"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

var start = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// sides are the documents of the store, and those of the search engine. Each range has the document of one minute.
type sides struct {
	Writes
	Repairs
	Notes

	stored, written []repository.Cursor
	sum             func(r repository.EngineRange) error // called before each comparison of a range
	again           []uuid.UUID                          // messages that are indexed again
	tidied          int
}

func in(r repository.EngineRange, c repository.Cursor) bool {
	return !c.CreatedAt.Before(r.From) && (r.Before.IsZero() || c.CreatedAt.Before(r.Before))
}

func sumOf(list []repository.Cursor, r repository.EngineRange) (s repository.EngineSum) {
	for _, c := range list {
		if in(r, c) {
			s.Documents++
			s.Digests += repository.EngineDigest(c.ID)
		}
	}
	return s
}

func sorted(list []repository.Cursor, r repository.EngineRange, after uuid.UUID) []repository.Cursor {
	list = slices.DeleteFunc(slices.Clone(list), func(c repository.Cursor) bool { return !in(r, c) || compare(c.ID, after) <= 0 })
	slices.SortFunc(list, func(a, b repository.Cursor) int { return compare(a.ID, b.ID) })
	return list
}

func (s *sides) EngineRange(_ context.Context, before time.Time, _ int) (repository.EngineRange, error) {
	r := repository.EngineRange{Before: before}
	for _, c := range s.stored {
		if in(repository.EngineRange{Before: before}, c) && c.CreatedAt.After(r.From) {
			r.From = c.CreatedAt
		}
	}
	return r, nil
}

func (s *sides) EngineSum(_ context.Context, _ int64, r repository.EngineRange) (repository.EngineSum, error) {
	return sumOf(s.stored, r), s.sum(r)
}

func (s *sides) Sum(_ context.Context, _ int64, r repository.EngineRange) (repository.EngineSum, error) {
	return sumOf(s.written, r), nil
}

func (s *sides) EngineDocuments(_ context.Context, _ int64, r repository.EngineRange, after uuid.UUID, _ int) ([]uuid.UUID, error) {
	return idsIn(sorted(s.stored, r, after)), nil
}

func (s *sides) Documents(_ context.Context, _ int64, r repository.EngineRange, after uuid.UUID, _ int) ([]repository.Cursor, error) {
	return sorted(s.written, r, after), nil
}

func (s *sides) IndexAgain(_ context.Context, _ int64, ids []uuid.UUID) error {
	s.again = append(s.again, ids...)
	return nil
}

func (s *sides) IndexRangeAgain(ctx context.Context, v int64, r repository.EngineRange) error {
	return s.IndexAgain(ctx, v, idsIn(sorted(s.stored, r, uuid.Nil)))
}

func (s *sides) EngineFacts(_ context.Context, ids []uuid.UUID) (facts []repository.EngineFacts, err error) {
	for _, c := range s.stored {
		if slices.Contains(ids, c.ID) {
			facts = append(facts, repository.EngineFacts{ID: c.ID, CreatedAt: c.CreatedAt})
		}
	}
	return facts, nil
}

func (s *sides) Delete(_ context.Context, _, _ int64, documents []repository.Cursor) error {
	s.written = slices.DeleteFunc(s.written, func(c repository.Cursor) bool { return slices.Contains(documents, c) })
	return nil
}

func (s *sides) Forget() {}

func (s *sides) Tidy(context.Context, int64, bool, time.Time) error {
	s.tidied++
	return nil
}

func idsIn(list []repository.Cursor) []uuid.UUID {
	ids := make([]uuid.UUID, len(list))
	for i, c := range list {
		ids[i] = c.ID
	}
	return ids
}

func (s *sides) indexer(now func() time.Time) *Indexer {
	x := New(nil, nil, entity.MaskedFields{}).NewIndexer(Stores{Notes: s, Repairs: s}, s, prometheus.NewRegistry(), zap.NewNop())
	x.now = now
	return x
}

// TestRepair_GoesOnWhereItEnded: the documents of a large index are compared in several steps, so that messages are indexed
// in between, and a step that failed is not a reason to begin again.
func TestRepair_GoesOnWhereItEnded(t *testing.T) {
	t.Parallel()
	const documents = 10
	s, now, compared, away := &sides{}, start, map[time.Time]int{}, 0
	for i := range documents {
		at := start.Add(time.Duration(i) * time.Minute)
		s.stored = append(s.stored, repository.Cursor{CreatedAt: at, ID: uuid.New()})
	}
	s.written = slices.Clone(s.stored)
	s.sum = func(r repository.EngineRange) error {
		if now = now.Add(200 * time.Millisecond); r.From.Equal(s.stored[4].CreatedAt) && away == 0 {
			away++
			return &repository.EngineAwayError{Cause: errors.New("away")}
		}
		compared[r.From]++
		return nil
	}
	x, steps := s.indexer(func() time.Time { return now }), 0
	for ; x.compared.at.IsZero(); steps++ {
		check.Require(t, steps < 100, "the comparison does not end")
		_ = x.repair(t.Context(), 1) // it fails once
	}
	check.Same(t, steps, 4, "steps of 500 ms for 11 ranges of 200 ms, one of which failed")
	for at, times := range compared {
		check.Same(t, times, 1, "comparisons of the range from %s", at)
	}
	check.Same(t, len(compared), documents+1, "compared ranges: one for each document, and that of all earlier times")
	check.NoError(t, x.repair(t.Context(), 1))
	check.Same(t, len(compared), documents+1, "compared ranges before the next comparison is due")
	now = now.Add(repairInterval)
	check.NoError(t, x.repair(t.Context(), 1))
	check.Same(t, compared[s.stored[documents-1].CreatedAt], 2, "comparisons of the newest range when it is due")
}

// TestRepair_FindsEachDifference: documents that the search engine lacks are indexed again, and those without a message are
// deleted, also where the store has no document.
func TestRepair_FindsEachDifference(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	one, two, three := repository.Cursor{CreatedAt: at(1), ID: uuid.New()}, repository.Cursor{CreatedAt: at(2), ID: uuid.New()}, repository.Cursor{CreatedAt: at(2), ID: uuid.New()}
	newer, older := repository.Cursor{CreatedAt: at(5000), ID: uuid.New()}, repository.Cursor{CreatedAt: at(-5000), ID: uuid.New()}
	moved := repository.Cursor{CreatedAt: at(-3000), ID: two.ID} // in the index of another day
	s := &sides{stored: []repository.Cursor{one, two, three}, written: []repository.Cursor{two, newer, older, moved}, sum: func(repository.EngineRange) error { return nil }}
	x := s.indexer(func() time.Time { return start })
	check.NoError(t, x.repair(t.Context(), 1))
	check.Same(t, s.written, []repository.Cursor{two}, "documents with a message")
	slices.SortFunc(s.again, compare)
	want := []uuid.UUID{one.ID, three.ID}
	slices.SortFunc(want, compare)
	check.Same(t, s.again, want, "messages that are indexed again")
	check.Same(t, s.tidied, 1, "deletions of empty indexes")
}

// lateSearch is a search engine that answers some requests, and no more in time, with a store that confirms all messages.
type lateSearch struct {
	Documents
	State
	Reads
	answers int
}

var errLate = &repository.EngineLateError{Limit: time.Second}

func (s *lateSearch) EngineState(context.Context) (repository.EngineState, error) {
	return repository.EngineState{Version: 1, Serves: true, Begun: true}, nil
}

func (s *lateSearch) EngineChanges(context.Context, int) ([]repository.EngineChange, error) {
	return nil, nil
}

func (s *lateSearch) EngineScope(context.Context, entity.Filter, bool) (repository.EngineScope, error) {
	return repository.EngineScope{}, nil
}

func (s *lateSearch) Find(_ context.Context, _ int64, _ opensearch.Query, p opensearch.Page) (found []repository.Cursor, err error) {
	if s.answers--; s.answers < 0 {
		return nil, errLate
	}
	for i := range p.Limit {
		found = append(found, repository.Cursor{CreatedAt: start.Add(-time.Duration(i) * time.Minute), ID: uuid.New()})
	}
	return found, nil
}

func (s *lateSearch) FindAll(ctx context.Context, v int64, q opensearch.Query, p opensearch.Page, yield func([]repository.Cursor) error) error {
	for {
		found, err := s.Find(ctx, v, q, p)
		if err != nil {
			return err
		}
		if err := yield(found); err != nil {
			return err
		}
	}
}

func (s *lateSearch) Count(context.Context, int64, opensearch.Query) (int64, error) {
	return 0, errLate
}

// Search confirms every hundredth of the found messages.
func (s *lateSearch) Search(_ context.Context, q repository.SearchQuery) (page repository.SearchPage, err error) {
	for i := 0; i < len(q.Filter.MessageIDs); i += 100 {
		page.Messages = append(page.Messages, entity.Message{ID: q.Filter.MessageIDs[i], CreatedAt: start})
	}
	return page, nil
}

func (s *lateSearch) CountMatching(_ context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	return repository.MatchCount{Messages: int64(len(q.Filter.MessageIDs)), Exact: true}, nil
}

// TestSearch_ALateAnswerKeepsWhatWasFound: when the search engine does not answer in time, a page has the messages that were
// found until then, and says where the search goes on. Without any it fails with an error that names the limit.
func TestSearch_ALateAnswerKeepsWhatWasFound(t *testing.T) {
	t.Parallel()
	q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"stock"}}, Limit: 50, NoValues: true}
	search := func(answers int) *Searches {
		s := &lateSearch{answers: answers}
		return New(s, s, entity.MaskedFields{}).NewSearches(s)
	}
	page, err := search(1).Search(t.Context(), q)
	check.True(t, err == nil && len(page.Messages) == 2 && page.Next.CreatedAt.Equal(start.Add(-199*time.Minute)), "got %d messages, next %v, %v", len(page.Messages), page.Next, err)
	_, err = search(0).Search(t.Context(), q)
	check.True(t, errors.Is(err, repository.ErrEngineLate), "got %v, want an error that names the limit", err)

	count := func(answers int, how repository.Counting, visible *entity.TopicPatterns) repository.MatchCount {
		t.Helper()
		f := q.Filter
		f.Visible = visible
		return check.Must(search(answers).CountMatching(t.Context(), repository.CountQuery{Filter: f, How: how}))(t)
	}
	check.Same(t, count(2, repository.CountExact, nil), repository.MatchCount{Messages: 2 * maxFound, AtLeast: true}, "late count")
	check.Same(t, count(0, repository.CountEstimate, nil), repository.MatchCount{AtLeast: true}, "late estimate")
	mine := check.Must(entity.ParseTopicPatterns("topics", "orders"))(t)
	check.Same(t, count(1, repository.CountExact, &mine), repository.MatchCount{Messages: min(maxFound, repository.CountLimit), AtLeast: true}, "late count of some topics")
}

// periodSearch is a search engine and a store with one message for each of the given ages. Find keeps the periods that
// it was asked for.
type periodSearch struct {
	lateSearch
	ages  []time.Duration
	asked []string
	slow  func() // called by each Find
}

func (s *periodSearch) Find(_ context.Context, _ int64, q opensearch.Query, _ opensearch.Page) (found []repository.Cursor, _ error) {
	s.slow()
	text := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return start.Sub(t).String()
	}
	s.asked = append(s.asked, text(q.Filter.CreatedAfter)+" to "+text(q.Filter.CreatedBefore))
	for i, age := range s.ages {
		at := start.Add(-age)
		if !at.Before(q.Filter.CreatedAfter) && (q.Filter.CreatedBefore.IsZero() || at.Before(q.Filter.CreatedBefore)) {
			found = append(found, repository.Cursor{CreatedAt: at, ID: uuid.UUID{15: byte(i + 1)}})
		}
	}
	return found, nil
}

func (s *periodSearch) Search(_ context.Context, q repository.SearchQuery) (page repository.SearchPage, err error) {
	for _, id := range q.Filter.MessageIDs {
		page.Messages = append(page.Messages, entity.Message{ID: id, CreatedAt: start.Add(-s.ages[id[15]-1])})
	}
	page.Messages = page.Messages[:min(len(page.Messages), q.Limit)]
	return page, nil
}

// TestSearch_TheNewestPeriodFirst: a page asks the search engine for the newest day first, and for older periods only
// until it is full. When its time is over, it says that the search goes on before the periods that it has searched.
func TestSearch_TheNewestPeriodFirst(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, c := range []struct {
		name  string
		ages  []time.Duration
		after time.Duration // age of CreatedAfter; 0 for none
		took  time.Duration // time of each request
		asked string
		found int
		next  time.Duration // age of the position where the search goes on; 0 for none
	}{
		{"Full", []time.Duration{time.Hour, 2 * time.Hour, 3 * day}, 0, 0, "24h0m0s to -", 2, 0},
		{"TwoPeriods", []time.Duration{time.Hour, 3 * day, 4 * day}, 0, 0, "24h0m0s to -, 168h0m0s to 24h0m0s", 2, 0},
		{"Nothing", nil, 0, 0, "24h0m0s to -, 168h0m0s to 24h0m0s, 720h0m0s to 168h0m0s, - to 720h0m0s", 0, 0},
		{"ShortFilter", nil, 2 * day, 0, "24h0m0s to -, 48h0m0s to 24h0m0s", 0, 0},
		{"NoTime", []time.Duration{time.Hour, 3 * day}, 0, 2 * searchTime, "24h0m0s to -", 1, day},
		{"OldestAtLast", []time.Duration{100 * day}, 0, searchTime / 3, "24h0m0s to -, 168h0m0s to 24h0m0s, 720h0m0s to 168h0m0s, - to 720h0m0s", 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			now := start
			s := &periodSearch{ages: c.ages, slow: func() { now = now.Add(c.took) }}
			searches := New(s, s, entity.MaskedFields{}).NewSearches(s)
			searches.now = func() time.Time { return now }
			q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"stock"}}, Limit: 2}
			if c.after > 0 {
				q.Filter.CreatedAfter = start.Add(-c.after)
			}
			page, err := searches.Search(t.Context(), q)
			check.NoError(t, err)
			next := repository.Cursor{}
			if c.next > 0 {
				next.CreatedAt = start.Add(-c.next)
			}
			check.True(t, len(page.Messages) == c.found && page.Next == next, "got %d messages and go on from %v, want %d and %v",
				len(page.Messages), page.Next, c.found, next)
			check.Same(t, strings.Join(s.asked, ", "), c.asked, "periods")
		})
	}
}
