package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// What a span costs. More documents than spanShare of a step and it is too long, unless
// it is a short one; to look into one at all is as much work as some documents, for
// those that are new to the index are a list that is read each time. The index is read
// for all of a span before it is known to be too long, so the next one may only be so
// much longer.
const (
	spanShare  = 2
	spanCost   = 50
	spanGrowth = 8
	// sampled is how many of the next messages tell how close they lie in time.
	sampled = 250
	// promisingBlocks is how often a block that may have the words has its messages looked
	// at before documents are: behind others that lack them it mostly has them.
	promisingBlocks = 8
	// everything is a reach that ends nowhere.
	everything = math.MaxInt / spanGrowth / spanGrowth
)

// wordWalk looks for a page of messages that have a filter's words. There are two ways:
// to look at each message that the rest of the filter leaves, and to look at each
// document that has the words. Which of them is short depends on what words and the
// rest have to do with one another, and nobody knows that. So it takes them in turn, each
// time twice as far: what either has come past needs no looking at by the other.
type wordWalk struct {
	tx   *sqlx.Tx
	from source
	q    repository.SearchQuery
	n    names

	hits     []uuid.UUID
	known    map[uuid.UUID]bool
	last     int64  // the last moment that there are messages of
	stride   stride // what is left; of its first moment, what stands behind q.After
	reach    int    // how many messages the next span should be about
	full     *span  // one that was too full, of which something is left
	deadline time.Time
}

// catalogued are the messages of a page that has words. A list that is sorted by
// another time than documents know, or of words that no index has, is made of all
// documents that have them.
func (s *Store) catalogued(ctx context.Context, tx *sqlx.Tx, from source, q repository.SearchQuery, n names) (*places, error) {
	began := time.Now()
	past, err := skip(ctx, tx, q)
	if err != nil || past.none {
		return these(from, q, nil), err
	}
	q.After = past.to
	l, err := probeCatalogued(ctx, tx, from, q, n)
	if err != nil {
		return nil, err
	}
	if l.all || len(l.hits) >= q.Limit {
		return these(from, q, l.hits), nil
	}
	if q.Sort.By != repository.ByCreated || !indexed(q.Filter) {
		_, err := tx.ExecContext(ctx, foundTogether)
		return listed(from, q, n, findFirst), err
	}
	w := &wordWalk{tx: tx, from: from, q: q, n: n, known: map[uuid.UUID]bool{}, deadline: began.Add(s.searchPatience)}
	if err := w.begin(ctx, l); err != nil {
		return nil, err
	}
	for step, promising := probed, promisingBlocks; !w.over(); {
		past, err := w.alongBlocks(ctx)
		switch {
		case err != nil:
		case past.moved && !past.stopped && promising > 0:
			promising--
			err = w.alongMessages(ctx, probed)
		default:
			err = w.both(ctx, step)
			step *= 2
		}
		if err != nil {
			return nil, err
		}
	}
	// A page that was found is not lost for the little that is left to do.
	_, err = tx.ExecContext(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d%s", max(time.Second, time.Until(w.deadline)).Milliseconds(), outOfWindows))
	return these(from, q, w.hits), err
}

// indexed reports whether the index narrows a filter's documents. It has three letters
// or digits at a time: whoever asks for fewer has all documents read, which is done best
// in one go.
func indexed(f entity.Filter) bool {
	return len(f.Terms()) > 0 || slices.ContainsFunc(f.Words, func(word string) bool {
		letters := 0
		for _, r := range word {
			if unicode.IsLetter(r) || unicode.IsDigit(r) {
				letters++
			}
		}
		return letters >= 3
	})
}

// over reports whether nothing that is left belongs to the page.
func (w *wordWalk) over() bool {
	return len(w.hits) >= w.q.Limit || w.stride.beyond(w.last)
}

func (w *wordWalk) keep(hits []uuid.UUID) {
	for _, id := range hits {
		if !w.known[id] {
			w.known[id] = true
			w.hits = append(w.hits, id)
		}
	}
}

// edgesQuery is between which moments there are messages.
func edgesQuery(from source) string {
	edge := func(where, order string) string {
		return "(SELECT created_at FROM " + from.table + " WHERE " + where + " ORDER BY created_at " + order + " LIMIT 1)"
	}
	return "SELECT " + microsOf("e.oldest") + " AS oldest, " + microsOf("e.newest") + " AS newest\n" +
		"FROM (SELECT " + edge("created_at > '-infinity'", "") + " AS oldest, " + edge("created_at < 'infinity'", "DESC") + " AS newest) e\n" +
		"WHERE isfinite(e.oldest) AND isfinite(e.newest)"
}

// microsOf is what an expression of SQL says in microseconds since 2000.
func microsOf(at string) string {
	return "(extract(epoch FROM " + at + " - TIMESTAMPTZ '2000-01-01 00:00:00+00') * 1000000)::bigint"
}

type edges struct {
	Oldest int64 `db:"oldest"`
	Newest int64 `db:"newest"`
}

// begin goes to behind the messages that were looked at, or to the beginning if those
// were none that the catalogue has come to.
func (w *wordWalk) begin(ctx context.Context, l looked) error {
	var found []edges
	if err := readRows(ctx, w.tx, &found, edgesQuery(w.from)); err != nil || len(found) == 0 {
		w.stride = stride{ascending: true, at: 1}
		return err
	}
	w.stride = stride{at: w.within(found[0]), ascending: w.q.Sort.Ascending}
	w.keep(l.hits)
	if w.reach = everything; l.last != (repository.Place{}) {
		w.goTo(l.last)
		w.reach = probed
	}
	return nil
}

// within narrows the edges to what the query asks for. It returns the moment to begin
// with.
func (w *wordWalk) within(e edges) (first int64) {
	f := w.q.Filter
	if !f.CreatedAfter.IsZero() {
		e.Oldest = max(e.Oldest, micros(f.CreatedAfter))
	}
	if !f.CreatedBefore.IsZero() {
		e.Newest = min(e.Newest, micros(f.CreatedBefore))
	}
	if at := w.q.After; at != (repository.Place{}) && w.q.Sort.Ascending {
		e.Oldest = max(e.Oldest, micros(at.CreatedAt))
	} else if at != (repository.Place{}) {
		e.Newest = min(e.Newest, micros(at.CreatedAt))
	}
	if w.q.Sort.Ascending {
		w.last = e.Newest
		return e.Oldest
	}
	w.last = e.Oldest
	return e.Newest
}

// goTo leaves what stands behind a place, unless less is left.
func (w *wordWalk) goTo(p repository.Place) {
	at := micros(p.CreatedAt)
	if ahead := w.stride; w.q.Sort.Ascending && at > ahead.at || !w.q.Sort.Ascending && at < ahead.at {
		w.stride.at = at
	}
	w.q.After = p
}

// take is for the statements that follow, if there is time for any.
func (w *wordWalk) take(ctx context.Context, way string) error {
	left := time.Until(w.deadline)
	if left <= 0 {
		return &repository.TooBroadError{}
	}
	_, err := w.tx.ExecContext(ctx, way+fmt.Sprintf("; SET LOCAL statement_timeout = %d", max(1, left.Milliseconds())))
	return err
}

// end leaves everything behind.
func (w *wordWalk) end() { w.stride = w.stride.over(span{w.last, w.last}) }

// alongBlocks goes past blocks of documents that have not all of the words.
func (w *wordWalk) alongBlocks(ctx context.Context) (skipped, error) {
	past, err := skip(ctx, w.tx, w.q)
	switch {
	case err != nil:
	case past.none:
		w.end()
	case past.moved:
		w.goTo(past.to)
	}
	return past, err
}

// both goes on in the two other ways.
func (w *wordWalk) both(ctx context.Context, step int) error {
	if err := w.alongDocuments(ctx, step); err != nil {
		return err
	}
	return w.alongMessages(ctx, step)
}

// alongMessages looks at the next messages that the rest of the filter leaves.
func (w *wordWalk) alongMessages(ctx context.Context, step int) error {
	if w.over() {
		return nil
	}
	if err := w.take(ctx, way(w.q.Filter, w.n)+outOfWindows); err != nil {
		return err
	}
	l, err := probe(ctx, w.tx, w.from, w.q, w.n, step)
	if err != nil {
		return err
	}
	w.keep(l.hits)
	switch {
	case l.all:
		w.end()
	case len(w.hits) < w.q.Limit:
		w.goTo(l.last)
	}
	return nil
}

// alongDocuments looks at documents that have the words, span by span, until the page is
// whole, none are left, or it has looked at as many as step.
func (w *wordWalk) alongDocuments(ctx context.Context, step int) error {
	began, most := w.stride.at, max(step/spanShare, 2*w.q.Limit)
	for step > 0 && !w.over() {
		whole, err := w.measure(ctx)
		if err != nil || w.over() {
			return err
		}
		if err := w.take(ctx, inWindows); err != nil {
			return err
		}
		in := w.stride.next(w.last)
		query, args := spanQuery(w.from, w.q, w.n, in, most)
		var found []spanRow // one at least
		if err := readRows(ctx, w.tx, &found, query, args...); err != nil {
			return err
		}
		read := found[0].Read
		step -= read + spanCost
		if read > most && !in.short() {
			if w.reach >= everything {
				w.reach = spanGrowth * probed
			}
			w.full, w.reach = &in, max(1, w.reach/2)
			continue
		}
		for _, f := range found {
			if f.ID.Valid {
				w.keep([]uuid.UUID{f.ID.UUID})
			}
		}
		w.stride = w.stride.over(in)
		w.reach = w.further(whole, read, most)
	}
	if w.stride.at != began {
		w.q.After = w.stride.place()
	}
	return nil
}

// further is how many messages the next span should be about. In one that was too full
// that is half of what is left there: so its first documents are come by soon.
func (w *wordWalk) further(whole bool, read, most int) int {
	if w.full != nil && w.stride.beyond(w.full.first) && w.stride.beyond(w.full.last) {
		w.full = nil
	}
	switch {
	case !whole:
		return w.reach
	case w.full != nil:
		return max(1, w.reach/2, min(w.reach, most/2))
	}
	return longer(w.reach, read, most)
}

// longer is how many messages the span behind one with so many documents should be
// about: as many as may be, if they are like those before.
func longer(reach, read, most int) int {
	for by := spanGrowth; by > 1; by /= 2 {
		if read*by <= most {
			return min(reach, everything) * by
		}
	}
	return reach
}

// measure makes the next span as long as the messages lie in time that it should be
// about. Where there are none, however long, it goes to the next one. It reports
// whether the span is as long as it should be: it is not where such a time follows.
func (w *wordWalk) measure(ctx context.Context) (whole bool, err error) {
	w.stride = w.stride.withLength(longestSpan)
	if w.reach >= everything {
		return true, nil
	}
	n, sign := min(w.reach, sampled), "<="
	if w.stride.ascending {
		sign = ">="
	}
	a := arguments{first: 1}
	query := "SELECT " + microsOf("created_at") + " FROM " + w.from.table + " WHERE isfinite(created_at) AND created_at " + sign + " " +
		a.arg(moment2000(w.stride.at)) + "::timestamptz ORDER BY " + order(w.q.Sort, "created_at", "id") + " LIMIT " + number(n)
	var next []int64
	if err := readRows(ctx, w.tx, &next, query, a.values...); err != nil {
		return false, err
	}
	if len(next) < n {
		return true, nil // so few are left
	}
	w.stride.at = next[0]
	length, whole := lengthOf(next, w.reach)
	w.stride = w.stride.withLength(length)
	return whole, nil
}

// lengthOf is how long a span is that is about as many messages as reach and begins with
// the next of them. If half of the time that these lie in has none at all, that would say
// nothing: the span then ends before that, and is not the whole.
func lengthOf(next []int64, reach int) (length int64, whole bool) {
	stretch, last := apart(next[0], next[len(next)-1]), next[0]
	for _, at := range next {
		if gap := apart(last, at); gap > 1<<finestWindow && gap > stretch/2 {
			return apart(next[0], last) + 1, false
		}
		last = at
	}
	return int64(min(float64(stretch)*float64(reach)/float64(len(next)), float64(longestSpan))) + 1, true
}

func apart(a, b int64) int64 { return max(a-b, b-a) }
