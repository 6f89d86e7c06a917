package postgres

import (
	"context"
	"database/sql"
	"slices"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	// windowsAtOnce bounds the windows of a statement.
	windowsAtOnce = 64
	// windowShare is the part of a step's documents that one window may have. One with
	// more is too long, unless there is no shorter one.
	windowShare = 5
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
	deadline time.Time
}

// catalogued are the messages of a page that has words. A list that is sorted by
// another time than documents know, or of words that no index has, is made of all
// documents that have them.
func (s *Store) catalogued(ctx context.Context, tx *sqlx.Tx, from source, q repository.SearchQuery, n names) (*places, error) {
	began := time.Now()
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
	for step := probed; !w.over(); step *= 2 {
		if err := w.alongDocuments(ctx, step, w.last); err != nil {
			return nil, err
		}
		if err := w.alongMessages(ctx, step); err != nil {
			return nil, err
		}
	}
	return these(from, q, w.hits), nil
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

// edgesQuery is between which moments there are messages, and what the catalogue has
// come to.
func edgesQuery(from source) string {
	micros := func(at string) string {
		return "(extract(epoch FROM " + at + " - TIMESTAMPTZ '2000-01-01 00:00:00+00') * 1000000)::bigint"
	}
	edge := func(where, order string) string {
		return "(SELECT created_at FROM " + from.table + " WHERE " + where + " ORDER BY created_at " + order + " LIMIT 1)"
	}
	return "SELECT " + micros("e.oldest") + " AS oldest, " + micros("e.newest") + " AS newest,\n" +
		"CASE WHEN isfinite(e.until) THEN " + micros("e.until") + " END AS until\n" +
		"FROM (SELECT " + edge("created_at > '-infinity'", "") + " AS oldest, " + edge("created_at < 'infinity'", "DESC") + " AS newest, " +
		cataloguedUntil + " AS until) e WHERE isfinite(e.oldest) AND isfinite(e.newest)"
}

type edges struct {
	Oldest int64         `db:"oldest"`
	Newest int64         `db:"newest"`
	Until  sql.NullInt64 `db:"until"`
}

// begin goes to behind the messages that were looked at. If those that the catalogue
// has not come to were left out, it first looks for documents of theirs, of which
// there are few. Until it has, what else was found may not fill the page.
func (w *wordWalk) begin(ctx context.Context, l looked) error {
	var found []edges
	if err := readRows(ctx, w.tx, &found, edgesQuery(w.from)); err != nil || len(found) == 0 {
		w.stride = stride{ascending: true, at: 1}
		return err
	}
	first := w.within(found[0])
	w.stride = stride{at: first, ascending: w.q.Sort.Ascending}
	if l.above || l.last == (repository.Place{}) {
		upTo := w.last
		if found[0].Until.Valid && l.last != (repository.Place{}) {
			upTo = max(upTo, found[0].Until.Int64)
		}
		for !w.over() && !w.stride.beyond(upTo) {
			if err := w.alongDocuments(ctx, probed, upTo); err != nil {
				return err
			}
		}
	}
	w.keep(l.hits)
	if l.last != (repository.Place{}) {
		w.goTo(l.last)
		w.stride.level = startLevel(max(first-w.stride.at, w.stride.at-first))
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
		w.stride.at, w.stride.passed = at, 0
	}
	w.q.After = p
}

// take is for the statements that follow, if there is time for any.
func (w *wordWalk) take(ctx context.Context, way string) error {
	if time.Now().After(w.deadline) {
		return &repository.TooBroadError{}
	}
	_, err := w.tx.ExecContext(ctx, way)
	return err
}

// alongMessages looks at the next messages that the rest of the filter leaves.
func (w *wordWalk) alongMessages(ctx context.Context, step int) error {
	if w.over() {
		return nil
	}
	if err := w.take(ctx, way(w.q.Filter, w.n)); err != nil {
		return err
	}
	l, err := probe(ctx, w.tx, w.from, w.q, w.n, step)
	if err != nil {
		return err
	}
	w.keep(l.hits)
	switch {
	case l.all:
		w.stride = stride{at: w.last, ascending: w.q.Sort.Ascending}.behind()
	case len(w.hits) < w.q.Limit:
		w.goTo(l.last)
	}
	return nil
}

// alongDocuments looks at documents that have the words, window by window, until it is
// past a moment or has looked at as many as step.
func (w *wordWalk) alongDocuments(ctx context.Context, step int, upTo int64) error {
	if err := w.take(ctx, inWindows); err != nil {
		return err
	}
	began := w.stride.at
	for step > 0 && len(w.hits) < w.q.Limit && !w.stride.beyond(upTo) {
		strides := w.strides(upTo)
		query, args := windowsQuery(w.from, w.q, w.n, strides, step)
		var found []windowRow
		if err := readRows(ctx, w.tx, &found, query, args...); err != nil {
			return err
		}
		for _, f := range found {
			if f.ID.Valid {
				w.keep([]uuid.UUID{f.ID.UUID})
			}
		}
		end := found[len(found)-1] // each window has a row at least
		step -= end.Read
		if end.TooFull {
			w.stride = strides[end.Ord-1].finer()
			continue
		}
		_, w.stride = strides[end.Ord-1].next()
	}
	if w.stride.at != began {
		w.q.After = w.stride.place()
	}
	return nil
}

// strides are the next windows, each as the stride before it.
func (w *wordWalk) strides(upTo int64) []stride {
	var all []stride
	for s := w.stride; !s.beyond(upTo) && len(all) < windowsAtOnce; _, s = s.next() {
		all = append(all, s)
	}
	return all
}
