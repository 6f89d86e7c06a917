package search

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

const (
	// searchTime is the time limit of a page of a free-text search. After this time the search starts no more
	// statements, unless its cursor has not moved yet, and the page ends at the message that the search has reached.
	searchTime = time.Second
	// rangeTime is the time limit of one statement of the search. When a statement takes longer, it is cancelled, and
	// another statement searches a shorter time range.
	rangeTime = 300 * time.Millisecond
	// quick is a duration. When searching some days took less time than quick, the next statement searches twice as
	// many days.
	quick = rangeTime / 10
	// shortestRange is the length in microseconds of a time range that is not divided further. The statement that
	// searches such a range has the time limit of any other query.
	shortestRange = int64(time.Second / time.Microsecond)
	// maxScanned is the maximum number of messages that one statement tests one by one. promising decides whether the
	// search continues to test messages one by one: it does so only if the matches so far suggest that the page will be
	// full after at most this many messages.
	maxScanned = 16_000
	promising  = 8_000
)

// textSearch finds the messages of a page that contain a filter's words. It tests the first messages of the list one by
// one. Then it searches the documents day by day, or several days at once when that is quick.
type textSearch struct {
	q     repository.SearchQuery // q.After is the present cursor of the search
	hits  []uuid.UUID
	known map[uuid.UUID]bool
	left  timeRange // time range that remains to be searched

	advanced bool      // the cursor has moved past at least one message
	deadline time.Time // after this time no statement begins, unless the cursor has not moved yet
	step     int       // number of messages that the next statement tests one by one

	// find finds the first messages of the time range r. whole contains the partitions of the range; it is empty when
	// the range is a part of a day. ended is false when the statement exceeded its time limit.
	find func(ctx context.Context, q repository.SearchQuery, r timeRange, whole []day) (hits []uuid.UUID, ended bool, err error)
	// scan reads the next messages that match the rest of the filter, and tests one by one whether they contain the
	// words. ended is false when the statement exceeded its time limit.
	scan func(ctx context.Context, q repository.SearchQuery, limit int) (l scanResult, ended bool, err error)
}

// searchText finds the messages of a page. When the page's time ended before the page was full, next is the cursor from
// which the next page continues the search.
func (s *Searcher) searchText(ctx context.Context, tx *sqlx.Tx, from codec.Source, q repository.SearchQuery, n Scope) (*idQuery, repository.Cursor, error) {
	began := time.Now()
	l, err := scanIndexed(ctx, tx, from, q, n)
	if err != nil {
		return nil, repository.Cursor{}, err
	}
	if l.all || len(l.hits) >= q.Limit {
		return these(from, q, l.hits), repository.Cursor{}, nil
	}
	if q.Sort.By != repository.ByCreated { // documents contain only the time created_at, so they cannot be searched in another order
		_, err := tx.ExecContext(ctx, foundTogether)
		return Listed(from, q, n, findFirst), repository.Cursor{}, err
	}
	t := &textSearch{q: q, known: map[uuid.UUID]bool{}, deadline: began.Add(s.SearchTime), step: 2 * scannedAtOnce}
	ranges := &rangeReader{tx: tx, from: from, names: n, short: s.rangeTime, long: s.SearchTimeout}
	t.find, t.scan = ranges.find, ranges.scan
	days, err := ranges.begin(ctx, t)
	if err == nil {
		t.passScanned(l)
		err = t.run(ctx, days, scannedAtOnce, len(l.hits))
	}
	if err == nil {
		err = ranges.end(ctx)
	}
	return these(from, q, t.hits), t.next(), err
}

// run searches until the page is full, the whole time range is searched, or the time is over. The caller has tested
// some messages already: scanned is their number, and found is how many of them contain the words.
func (t *textSearch) run(ctx context.Context, days []day, scanned, found int) error {
	for scanned*(t.q.Limit-len(t.hits)) <= promising*found && !t.done() && t.inTime() {
		before := len(t.hits)
		scanned = t.step
		if _, err := t.scanOnce(ctx); err != nil {
			return err
		}
		found = len(t.hits) - before
	}
	days = slices.DeleteFunc(days, func(d day) bool { return t.left.and(d.timeRange).empty() })
	for together := 1; len(days) > 0; {
		n, began := min(together, len(days)), time.Now()
		if ended, err := t.runDays(ctx, days[:n]); err != nil || !ended {
			return err
		}
		if together = 1; time.Since(began) < quick {
			together = 2 * n
		}
		days = days[n:]
	}
	t.left = timeRange{}
	return nil
}

// runDays searches some days. ended is false when the time is over or the page is full.
func (t *textSearch) runDays(ctx context.Context, days []day) (ended bool, err error) {
	all, length := days[0].with(days[len(days)-1].timeRange), int64(math.MaxInt64)
	for {
		r := t.left.and(all).first(length, t.q.Sort.Ascending)
		switch {
		case r.empty():
			return true, nil
		case t.done() || t.advanced && !t.inTime():
			return false, nil
		}
		began := time.Now()
		hits, ended, err := t.find(ctx, t.q, r, days)
		if err != nil {
			return false, err
		}
		if ended {
			t.keep(hits)
			t.passRange(r)
			length = 2 * r.Length()
			continue
		}
		days = nil
		length = max(r.Length()/2, shortestRange)
		if err := t.scanFor(ctx, time.Since(began)); err != nil {
			return false, err
		}
	}
}

// scanFor tests messages one by one for the time d. It is used for a time range that has too many documents for one
// statement, so that the search advances nevertheless.
func (t *textSearch) scanFor(ctx context.Context, d time.Duration) error {
	for began := time.Now(); !t.done() && time.Since(began) < d; {
		if ended, err := t.scanOnce(ctx); err != nil || !ended {
			return err
		}
	}
	return nil
}

func (t *textSearch) scanOnce(ctx context.Context) (ended bool, err error) {
	l, ended, err := t.scan(ctx, t.q, t.step)
	if err != nil || !ended {
		return false, err
	}
	t.step = min(2*t.step, maxScanned)
	return t.passScanned(l), nil
}

// passScanned moves the search past the messages that were tested one by one. It returns false when no message was
// tested although some remain.
func (t *textSearch) passScanned(l scanResult) bool {
	t.keep(l.hits)
	switch {
	case l.all:
		t.left = timeRange{}
	case len(t.hits) >= t.q.Limit:
	case l.last == repository.Cursor{}:
		return false
	default:
		t.seek(l.last)
	}
	return true
}

func (t *textSearch) keep(hits []uuid.UUID) {
	for _, id := range hits {
		if !t.known[id] {
			t.known[id] = true
			t.hits = append(t.hits, id)
		}
	}
}

// seek makes the search continue after the cursor p.
func (t *textSearch) seek(p repository.Cursor) {
	t.q.After, t.advanced = p, true
	t.left = t.left.behind(p, t.q.Sort.Ascending)
}

// passRange moves the search past the time range r.
func (t *textSearch) passRange(r timeRange) {
	if t.advanced = true; t.q.Sort.Ascending {
		t.left.From = r.To
		t.q.After = repository.Cursor{CreatedAt: moment2000(r.To - 1), ID: uuid.Max}
	} else {
		t.left.To = r.From
		t.q.After = repository.Cursor{CreatedAt: moment2000(r.From)}
	}
}

func (t *textSearch) done() bool { return len(t.hits) >= t.q.Limit || t.left.empty() }

func (t *textSearch) inTime() bool { return time.Now().Before(t.deadline) }

// next returns the cursor from which the next page continues the search; the zero Cursor when the search is complete or
// the page is full.
func (t *textSearch) next() repository.Cursor {
	if t.done() {
		return repository.Cursor{}
	}
	return t.q.After
}

// rangeReader runs the statements of a textSearch in one transaction.
type rangeReader struct {
	tx          *sqlx.Tx
	from        codec.Source
	names       Scope
	short, long time.Duration // short is the time limit of a statement that searches, long of the statements that must not be cut short
	settings    string        // settings of the transaction; "" when unknown
}

// begin prepares the transaction, sets the time range that t has to search, and returns the days that have partitions,
// in the order of the page.
func (r *rangeReader) begin(ctx context.Context, t *textSearch) ([]day, error) {
	// With this lock no partition can be dropped during the transaction.
	if _, err := r.tx.ExecContext(ctx, foundTogether+"; LOCK TABLE ONLY dlq.message_documents IN ACCESS SHARE MODE; SAVEPOINT statement"); err != nil {
		return nil, err
	}
	var err error
	if t.left, err = leftOf(ctx, r.tx, r.from, t.q); err != nil {
		return nil, err
	}
	return daysOf(ctx, r.tx, t.q.Sort.Ascending)
}

// end sets the long time limit for the statement that reads the messages of the page, so that the messages that were
// found are not lost.
func (r *rangeReader) end(ctx context.Context) error {
	_, err := r.tx.ExecContext(ctx, foundTogether+inAnyWay+timeout(r.long))
	return err
}

func (r *rangeReader) find(ctx context.Context, q repository.SearchQuery, in timeRange, whole []day) (hits []uuid.UUID, ended bool, err error) {
	if in.Length() <= shortestRange || !byWords(q.Filter) || slices.ContainsFunc(whole, func(d day) bool { return d.Table == "" }) {
		whole = nil // the documents are found by their time, in the parent table
	}
	query, args := rangeQuery(r.from, q, r.names, in, whole)
	settings, limit := foundTogether+byIndex, r.short
	if in.Length() <= shortestRange {
		limit = r.long
	}
	ended, err = r.within(ctx, limit, settings, func() error {
		hits = nil
		return r.tx.SelectContext(ctx, &hits, query, args...) // the result has no bytea, so the query need not be prepared
	})
	if err == nil && !ended && in.Length() <= shortestRange {
		err = &repository.TooBroadError{}
	}
	return hits, ended, err
}

func (r *rangeReader) scan(ctx context.Context, q repository.SearchQuery, limit int) (l scanResult, ended bool, err error) {
	ended, err = r.within(ctx, r.short, way(q.Filter, r.names)+inAnyWay, func() error {
		l, err = scanMessages(ctx, r.tx, r.from, q, r.names, limit)
		return err
	})
	return l, ended, err
}

// within runs statements with a time limit. ended is false when a statement exceeded it. The transaction can still be
// used then, but the result of that statement is missing.
func (r *rangeReader) within(ctx context.Context, limit time.Duration, settings string, do func() error) (ended bool, err error) {
	if settings += timeout(limit); settings != r.settings {
		if _, err := r.tx.ExecContext(ctx, settings); err != nil {
			return false, err
		}
		r.settings = settings
	}
	if err := do(); err == nil || ctx.Err() != nil || !conn.Canceled(err) {
		return err == nil, err
	}
	r.settings = ""
	_, err = r.tx.ExecContext(ctx, "ROLLBACK TO statement")
	return false, err
}

func timeout(d time.Duration) string {
	return fmt.Sprintf("; SET LOCAL statement_timeout = %d", max(1, d.Milliseconds()))
}
