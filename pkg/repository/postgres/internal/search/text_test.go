package search

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// fakeIndex answers the statements of a textSearch from a list of messages. The list has the order of the page.
type fakeIndex struct {
	messages  []repository.Cursor
	hits      map[uuid.UUID]bool
	ascending bool

	tooLong func(r timeRange) bool // whether a statement that searches r exceeds its time limit
	scans   bool                   // whether messages can be tested one by one within the time limit
	asked   []timeRange
}

// following returns the messages after a cursor.
func (f *fakeIndex) following(after repository.Cursor) []repository.Cursor {
	sign := 1
	if !f.ascending {
		sign = -1
	}
	for i, m := range f.messages {
		if after == (repository.Cursor{}) || sign*compareCursors(m, after) > 0 {
			return f.messages[i:]
		}
	}
	return nil
}

func compareCursors(a, b repository.Cursor) int {
	if n := a.CreatedAt.Compare(b.CreatedAt); n != 0 {
		return n
	}
	return bytes.Compare(a.ID[:], b.ID[:])
}

func (f *fakeIndex) find(_ context.Context, q repository.SearchQuery, r timeRange, _ []day) (ids []uuid.UUID, ended bool, err error) {
	f.asked = append(f.asked, r)
	if r.Length() > shortestRange && f.tooLong(r) {
		<-time.After(rangeTime) // this waits on the fake clock of package synctest
		return nil, false, nil
	}
	for _, m := range f.following(q.After) {
		if at := micros2000(m.CreatedAt); f.hits[m.ID] && at >= r.From && at < r.To && len(ids) < q.Limit {
			ids = append(ids, m.ID)
		}
	}
	return ids, true, nil
}

func (f *fakeIndex) scan(_ context.Context, q repository.SearchQuery, limit int) (l scanResult, ended bool, err error) {
	if !f.scans {
		return scanResult{}, false, nil
	}
	<-time.After(time.Duration(limit) * 10 * time.Microsecond)
	found := f.following(q.After)
	for _, m := range found[:min(limit, len(found))] {
		if f.hits[m.ID] {
			l.hits = append(l.hits, m.ID)
		}
		if len(l.hits) == q.Limit {
			return scanResult{hits: l.hits}, true, nil
		}
		l.last = m
	}
	l.all = len(found) < limit
	return l, true, nil
}

// page searches one page and returns its messages and the next cursor.
func (f *fakeIndex) page(t *testing.T, q repository.SearchQuery, took time.Duration) ([]uuid.UUID, repository.Cursor) {
	t.Helper()
	first, last := micros2000(f.messages[0].CreatedAt), micros2000(f.messages[len(f.messages)-1].CreatedAt)
	s := &textSearch{
		q: q, known: map[uuid.UUID]bool{}, left: timeRange{min(first, last), max(first, last) + 1},
		deadline: time.Now().Add(took), step: scannedAtOnce, find: f.find, scan: f.scan,
	}
	if q.After != (repository.Cursor{}) {
		s.seek(q.After)
		s.advanced = false
	}
	var days []day
	for n := min(first, last) / dayLength; n <= max(first, last)/dayLength; n++ {
		days = append(days, day{timeRange: timeRange{n * dayLength, (n + 1) * dayLength}})
	}
	if !f.ascending {
		slices.Reverse(days)
	}
	check.NoError(t, s.run(t.Context(), days, scannedAtOnce, 0))
	return s.hits[:min(len(s.hits), q.Limit)], s.next()
}

// newFakeIndex returns an index of n messages, which are some minutes apart or have the same created_at.
func newFakeIndex(random *rand.Rand, n int, ascending bool) *fakeIndex {
	f := &fakeIndex{hits: map[uuid.UUID]bool{}, ascending: ascending}
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	for range n {
		if random.IntN(5) > 0 {
			at = at.Add(-time.Duration(random.Int64N(int64(4 * time.Minute)))).Truncate(time.Microsecond)
		}
		m := repository.Cursor{CreatedAt: at, ID: uuid.New()}
		f.messages = append(f.messages, m)
		f.hits[m.ID] = random.IntN(9) == 0
	}
	slices.SortFunc(f.messages, compareCursors)
	if !ascending {
		slices.Reverse(f.messages)
	}
	return f
}

// TestTextSearchGoesOn: all pages together contain every match once and in order, and each page makes progress,
// whichever statements exceed their time limit and however long a page may take.
func TestTextSearchGoesOn(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 24))
			f := newFakeIndex(random, 2000, seed%2 == 0)
			f.scans = seed%3 == 0
			f.tooLong = func(r timeRange) bool { return random.Int64N(r.Length()) > dayLength/20 }
			var want, got []uuid.UUID
			for _, m := range f.messages {
				if f.hits[m.ID] {
					want = append(want, m.ID)
				}
			}
			places := map[uuid.UUID]repository.Cursor{}
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
				} else if next == (repository.Cursor{}) {
					break
				}
				if n := compareCursors(q.After, before); before != (repository.Cursor{}) && (n < 0) == f.ascending || n == 0 {
					t.Fatalf("seed %d: the page after %v continues at %v", seed, before, q.After)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("seed %d: got %d messages, want %d; the first that differs is the %dth", seed, len(got), len(want), check.FirstDifference(got, want))
			}
		})
	}
}

// TestTextSearchHalves: when a statement takes too long, the next one searches the half of its time range that comes
// first on the page, down to one second; after that the time ranges become longer again.
func TestTextSearchHalves(t *testing.T) {
	t.Parallel()
	for _, ascending := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFakeIndex(rand.New(rand.NewPCG(1, 2)), 200, ascending)
			f.tooLong = func(timeRange) bool { return true }
			_, next := f.page(t, repository.SearchQuery{Limit: 500, Sort: repository.Sort{Ascending: ascending}}, 0)
			last := f.asked[0]
			for i, r := range f.asked[1:] {
				if r.Length() != max(last.Length()/2, shortestRange) || ascending && r.From != last.From || !ascending && r.To != last.To {
					t.Fatalf("range %d is %+v after %+v, want its first half", i+1, r, last)
				}
				last = r
			}
			check.True(t, last.Length() == shortestRange && next != (repository.Cursor{}),
				"the last range is %+v and the page goes on from %v, want a second and some place", last, next)
			f.asked, f.tooLong = nil, func(r timeRange) bool { return r.Length() > int64(time.Minute/time.Microsecond) }
			f.page(t, repository.SearchQuery{Limit: 500, Sort: repository.Sort{Ascending: ascending}}, 20*time.Second)
			grown := false
			for i, r := range f.asked[1:] {
				grown = grown || r.Length() > f.asked[i].Length()
			}
			check.True(t, grown, "no range is longer than the one before it")
		})
	}
}

// TestStatementOfASearchEnds: after a statement that exceeded its time limit, the transaction can still be used.
func TestStatementOfASearchEnds(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.MustExec(`UPDATE dlq.search_index SET version = 1`)
	var id uuid.UUID
	check.NoError(t, db.Get(&id, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, group_id, created_at)
		VALUES ('orders', 'boom', 'DEAD', gen_random_uuid(), '2026-01-02 12:00Z') RETURNING id`))
	db.MustExec(`SELECT dlq.create_document_partitions(ARRAY(SELECT created_at FROM dlq.dlq_messages))`)
	db.MustExec(`INSERT INTO dlq.message_documents (message_id, created_at, version, text, terms)
		SELECT id, created_at, 1, 'boom', '{}' FROM dlq.dlq_messages`)
	lock := check.Must(db.Beginx())(t)
	defer func() { _ = lock.Rollback() }()
	check.NoError(t, check.Err(lock.Exec(`LOCK TABLE dlq.message_documents_20260102 IN ACCESS EXCLUSIVE MODE`)))
	q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"boom"}}, Limit: 5}
	err := Bounded(t.Context(), conn.New(db, nil), time.Minute, func(tx *sqlx.Tx) error {
		r := &rangeReader{tx: tx, from: codec.SourceOf(false), short: 20 * time.Millisecond, long: time.Minute}
		days := check.Must(r.begin(t.Context(), &textSearch{q: q}))(t)
		check.Require(t, len(days) == 1 && days[0].Length() == dayLength, "got the days %v, want one", days)
		hits, ended, err := r.find(t.Context(), q, days[0].timeRange, days[:1])
		check.True(t, err == nil && !ended && len(hits) == 0,
			"with a lock: got %v, %t, %v, want that it is cancelled", hits, ended, err)
		check.NoError(t, lock.Rollback())
		r.short = time.Minute
		hits, ended, err = r.find(t.Context(), q, days[0].timeRange, days[:1])
		check.True(t, err == nil && ended && slices.Equal(hits, []uuid.UUID{id}),
			"without it: got %v, %t, %v, want the message", hits, ended, err)
		return nil
	})
	check.NoError(t, err)
}
