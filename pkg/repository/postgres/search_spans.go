package postgres

import (
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Windows of time are those of dlq.spans: one of level n is 2^(17+3n) microseconds
// long and begins at a multiple of that, counted from the year 2000. A moment is in
// one of each level, and the next level's is eight of them.
const (
	finestWindow = 17
	windowGrowth = 3
	windowLevels = 12

	// windowsAtOnce is by how many windows of one level a span is covered: with few,
	// what they have beside the span is much, and each is a place in the index to look
	// at.
	windowsAtOnce = 16
)

// since2000 is the year 2000 in microseconds of Unix time.
const since2000 = 946_684_800_000_000

func micros(t time.Time) int64 { return t.UnixMicro() - since2000 }

func moment2000(micros int64) time.Time { return time.UnixMicro(micros + since2000).UTC() }

func widthOf(level int) int { return finestWindow + windowGrowth*level }

// windowKey is what dlq.spans has for the nth window of a level.
func windowKey(level int, n int64) int64 { return n*16 + int64(level) }

// span is a part of time, in microseconds since 2000. Both ends belong to it.
type span struct{ first, last int64 }

// windows are the keys of those that cover the span.
func (s span) windows() []int64 {
	level := 0
	for level < windowLevels-1 && s.last>>widthOf(level)-s.first>>widthOf(level) >= windowsAtOnce {
		level++
	}
	var keys []int64
	for n := s.first >> widthOf(level); n <= s.last>>widthOf(level); n++ {
		keys = append(keys, windowKey(level, n))
	}
	return keys
}

// short reports whether the span is one that is not made shorter: no more than a
// window of the finest level.
func (s span) short() bool { return s.last-s.first < 1<<finestWindow }

// stride goes through time from span to span, without a gap: each begins where the
// one before ended.
type stride struct {
	at        int64 // the first moment that no span was about
	length    int64 // of the next span, at least a window of the finest level
	ascending bool
}

// next is the span that at is in, which ends at upTo at the latest.
func (s stride) next(upTo int64) span {
	if s.ascending {
		return span{s.at, s.at + shorter(s.length, distance(s.at, upTo))}
	}
	return span{s.at - shorter(s.length, distance(upTo, s.at)), s.at}
}

// distance is that between two moments, which may be more than an int64 has.
func distance(from, to int64) uint64 { return uint64(to) - uint64(from) } //nolint:gosec // what wraps twice is right again

func shorter(length int64, left uint64) int64 {
	if left < uint64(length) { //nolint:gosec // lengths are above zero
		return int64(left) //nolint:gosec // it is less than one
	}
	return length - 1
}

// over leaves a span behind.
func (s stride) over(done span) stride {
	if s.ascending {
		s.at = done.last + 1
	} else {
		s.at = done.first - 1
	}
	return s
}

// longestSpan is longer than there is time.
const longestSpan = int64(1) << 62

func (s stride) withLength(length int64) stride {
	s.length = min(max(length, 1<<finestWindow), longestSpan)
	return s
}

// beyond reports whether nothing up to a moment is left.
func (s stride) beyond(last int64) bool {
	if s.ascending {
		return s.at > last
	}
	return s.at < last
}

// place is such that what stands behind it is what is left.
func (s stride) place() repository.Place {
	return placeBefore(moment2000(s.at), s.ascending)
}

// inWindows is how windows are read: PostgreSQL does not know how few documents are in
// one, and might read all there are.
const (
	inWindows    = foundTogether + `; SET LOCAL enable_seqscan = off`
	outOfWindows = `; SET LOCAL enable_seqscan = on`
)

// spanRow is a message that was found in a span, or none if there is none.
type spanRow struct {
	Read int           `db:"read"` // documents
	ID   uuid.NullUUID `db:"id"`
}

// spanQuery looks into a span: it finds the documents that have the words, no more
// than one above most, and unless there are more than most then their messages, the
// first of the span for the page. Of a span that is short it reads all.
func spanQuery(from source, q repository.SearchQuery, n names, s span, most int) (string, []any) {
	a := &arguments{first: 1, version: n.version}
	behind := a.behind(q)
	documents := []string{
		a.documented(q.Filter), "dlq.spans(d.created_at) && " + a.terms(s.windows()),
		"d.created_at >= " + a.arg(moment2000(s.first)) + "::timestamptz", "d.created_at <= " + a.arg(moment2000(s.last)) + "::timestamptz",
	}
	for _, b := range behind {
		documents = append(documents, strings.ReplaceAll(strings.ReplaceAll(b, "m.created_at", "d.created_at"), "m.id", "d.message_id"))
	}
	messages := append(append(a.named(q.Filter, n), a.conditions(q.Filter)...), behind...)
	limit := ""
	if !s.short() {
		limit = " LIMIT " + number(most+1)
		messages = append(messages, "c.read <= "+number(most))
	}
	order := order(q.Sort, "m.created_at", "m.id")
	return `
	WITH documents AS MATERIALIZED (
		SELECT d.message_id FROM dlq.message_documents d WHERE ` + and(documents...) + limit + `
	), counted AS MATERIALIZED (SELECT count(*) AS read FROM documents)
	SELECT c.read, h.id FROM counted c LEFT JOIN LATERAL (
		SELECT m.id, row_number() OVER (ORDER BY ` + order + `) AS ord
		FROM documents ` + from.join("documents.message_id") + ` WHERE ` + and(messages...) + ` ORDER BY ` + order + ` LIMIT ` + number(q.Limit) + `
	) h ON true ORDER BY h.ord`, a.values
}
