package postgres

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// fakeIndex serves a textSearch from a list of messages, in the order of the page.
type fakeIndex struct {
	messages  []repository.Place
	hits      map[uuid.UUID]bool
	ascending bool

	tooLong func(r timeRange) bool // a statement over the range takes too long
	looks   bool                   // messages can be tested one by one
	asked   []timeRange
}

// following returns the messages after a place.
func (f *fakeIndex) following(after repository.Place) []repository.Place {
	sign := 1
	if !f.ascending {
		sign = -1
	}
	for i, m := range f.messages {
		if after == (repository.Place{}) || sign*comparePlaces(m, after) > 0 {
			return f.messages[i:]
		}
	}
	return nil
}

func comparePlaces(a, b repository.Place) int {
	if n := a.CreatedAt.Compare(b.CreatedAt); n != 0 {
		return n
	}
	return compareIDs(a.ID, b.ID)
}

func (f *fakeIndex) find(_ context.Context, q repository.SearchQuery, r timeRange, _ []day) (ids []uuid.UUID, ended bool, err error) {
	f.asked = append(f.asked, r)
	if r.length() > shortestRange && f.tooLong(r) {
		<-time.After(rangeTime) // of the bubble's clock
		return nil, false, nil
	}
	for _, m := range f.following(q.After) {
		if at := micros(m.CreatedAt); f.hits[m.ID] && at >= r.from && at < r.to && len(ids) < q.Limit {
			ids = append(ids, m.ID)
		}
	}
	return ids, true, nil
}

func (f *fakeIndex) look(_ context.Context, q repository.SearchQuery, limit int) (l looked, ended bool, err error) {
	if !f.looks {
		return looked{}, false, nil
	}
	<-time.After(time.Duration(limit) * 10 * time.Microsecond)
	found := f.following(q.After)
	for _, m := range found[:min(limit, len(found))] {
		if f.hits[m.ID] {
			l.hits = append(l.hits, m.ID)
		}
		if len(l.hits) == q.Limit {
			return looked{hits: l.hits}, true, nil
		}
		l.last = m
	}
	l.all = len(found) < limit
	return l, true, nil
}

// page searches one page.
func (f *fakeIndex) page(t *testing.T, q repository.SearchQuery, took time.Duration) ([]uuid.UUID, repository.Place) {
	t.Helper()
	first, last := micros(f.messages[0].CreatedAt), micros(f.messages[len(f.messages)-1].CreatedAt)
	s := &textSearch{
		q: q, known: map[uuid.UUID]bool{}, left: timeRange{min(first, last), max(first, last) + 1},
		deadline: time.Now().Add(took), step: probed, find: f.find, look: f.look,
	}
	if q.After != (repository.Place{}) {
		s.goTo(q.After)
		s.advanced = false
	}
	var days []day
	for n := min(first, last) / dayLength; n <= max(first, last)/dayLength; n++ {
		days = append(days, day{timeRange: timeRange{n * dayLength, (n + 1) * dayLength}})
	}
	if !f.ascending {
		slices.Reverse(days)
	}
	check.NoError(t, s.run(t.Context(), days, probed, 0))
	return s.hits[:min(len(s.hits), q.Limit)], s.next()
}

// newFakeIndex returns an index with messages of some days, some of them of one instant.
func newFakeIndex(random *rand.Rand, n int, ascending bool) *fakeIndex {
	f := &fakeIndex{hits: map[uuid.UUID]bool{}, ascending: ascending}
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	for range n {
		if random.IntN(5) > 0 {
			at = at.Add(-time.Duration(random.Int64N(int64(4 * time.Minute)))).Truncate(time.Microsecond)
		}
		m := repository.Place{CreatedAt: at, ID: uuid.New()}
		f.messages = append(f.messages, m)
		f.hits[m.ID] = random.IntN(9) == 0
	}
	slices.SortFunc(f.messages, comparePlaces)
	if !ascending {
		slices.Reverse(f.messages)
	}
	return f
}

// TestTextSearchGoesOn: whichever statements end in time and however long a page may take, the pages together are all
// matches, in order, and each makes progress.
func TestTextSearchGoesOn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 24))
			f := newFakeIndex(random, 2000, seed%2 == 0)
			f.looks = seed%3 == 0
			f.tooLong = func(r timeRange) bool { return random.Int64N(r.length()) > dayLength/20 }
			var want, got []uuid.UUID
			for _, m := range f.messages {
				if f.hits[m.ID] {
					want = append(want, m.ID)
				}
			}
			places := map[uuid.UUID]repository.Place{}
			for _, m := range f.messages {
				places[m.ID] = m
			}
			q := repository.SearchQuery{Limit: 1 + random.IntN(60), Sort: repository.Sort{Ascending: f.ascending}}
			took := time.Duration(random.Int64N(int64(2 * time.Second)))
			for {
				began := time.Now()
				hits, next := f.page(t, q, took)
				got = append(got, hits...)
				spent := time.Since(began)
				check.Require(t, spent <= took+17*rangeTime, "seed %d: a page took %s of %s", seed, spent, took)
				before := q.After
				if q.After = next; len(hits) == q.Limit {
					q.After = places[hits[len(hits)-1]]
				} else if next == (repository.Place{}) {
					break
				}
				if n := comparePlaces(q.After, before); before != (repository.Place{}) && (n < 0) == f.ascending || n == 0 {
					t.Fatalf("seed %d: the page after %v continues at %v", seed, before, q.After)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: got %d messages, want %d; the first that differs is the %dth", seed, len(got), len(want), firstDifference(got, want))
			}
		})
	}
}

// TestTextSearchHalves: a statement that takes too long is repeated for the half of its range that comes first in the
// page, down to a second, and then for longer ranges again.
func TestTextSearchHalves(t *testing.T) {
	t.Parallel()
	for _, ascending := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeIndex(rand.New(rand.NewPCG(1, 2)), 200, ascending)
			f.tooLong = func(timeRange) bool { return true }
			_, next := f.page(t, repository.SearchQuery{Limit: 500, Sort: repository.Sort{Ascending: ascending}}, 0)
			last := f.asked[0]
			for i, r := range f.asked[1:] {
				if r.length() != max(last.length()/2, shortestRange) || ascending && r.from != last.from || !ascending && r.to != last.to {
					t.Fatalf("range %d is %+v after %+v, want its first half", i+1, r, last)
				}
				last = r
			}
			check.True(t, last.length() == shortestRange && next != (repository.Place{}),
				"the last range is %+v and the page goes on from %v, want a second and some place", last, next)
			f.asked, f.tooLong = nil, func(r timeRange) bool { return r.length() > int64(time.Minute/time.Microsecond) }
			f.page(t, repository.SearchQuery{Limit: 500, Sort: repository.Sort{Ascending: ascending}}, 20*time.Second)
			grown := false
			for i, r := range f.asked[1:] {
				grown = grown || r.length() > f.asked[i].length()
			}
			check.True(t, grown, "no range is longer than the one before it")
		})
	}
}
