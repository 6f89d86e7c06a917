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

	// grown is how many windows of a level are looked through before those of the next
	// one: so what is looked at is never much longer than all that was there before.
	grown = 4
)

// since2000 is the year 2000 in microseconds of Unix time.
const since2000 = 946_684_800_000_000

func micros(t time.Time) int64 { return t.UnixMicro() - since2000 }

// window is the number of a window among those of its level.
type window struct {
	level int
	n     int64
}

func windowOf(level int, at int64) window { return window{level, at >> widthOf(level)} }

func widthOf(level int) int { return finestWindow + windowGrowth*level }

// key is what dlq.spans has for the window.
func (w window) key() int64 { return w.n*16 + int64(w.level) }

// end is the first moment behind the window on the way that the list goes.
func (w window) end(ascending bool) int64 {
	if ascending {
		return (w.n + 1) << widthOf(w.level)
	}
	return w.n<<widthOf(w.level) - 1
}

// stride goes through time from window to window, without a gap: each begins where
// the one before ended, the first where the stride does. Windows become longer on the
// way; whoever finds one too full halves it, as it were, and goes on with shorter ones.
type stride struct {
	at        int64 // the first moment that no window was about, in microseconds since 2000
	level     int
	passed    int // windows of the level
	ascending bool
}

// next is the window that at is in, and what is left to do behind it.
func (s stride) next() (window, stride) {
	w := windowOf(s.level, s.at)
	s.at = w.end(s.ascending)
	s.passed++
	if s.passed >= grown && s.level < windowLevels-1 && windowOf(s.level+1, s.at) != windowOf(s.level+1, w.n<<widthOf(w.level)) {
		s.level, s.passed = s.level+1, 0
	}
	return w, s
}

// behind is the same stride one moment on.
func (s stride) behind() stride {
	if s.ascending {
		s.at++
	} else {
		s.at--
	}
	return s
}

// finer is the same stride with shorter windows.
func (s stride) finer() stride {
	s.level, s.passed = s.level-1, 0
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
	if s.ascending {
		return repository.Place{CreatedAt: time.UnixMicro(s.at - 1 + since2000).UTC(), ID: uuid.Max}
	}
	return repository.Place{CreatedAt: time.UnixMicro(s.at + 1 + since2000).UTC()}
}

// startLevel is that of the longest windows that are no longer than a quarter of a
// stretch of time.
func startLevel(stretch int64) int {
	level := 0
	for level < windowLevels-1 && int64(1)<<widthOf(level+1) <= stretch/4 {
		level++
	}
	return level
}

// inWindows is how windows are read: PostgreSQL does not know how few documents are in
// one, and might read all there are.
const inWindows = foundTogether + `; SET LOCAL enable_seqscan = off`

// windowRow is a message that was found in a window, or none for a window without any.
type windowRow struct {
	Ord     int           `db:"ord"`      // of the window, from 1
	Read    int           `db:"read"`     // documents in the windows up to this one
	TooFull bool          `db:"too_full"` // the window has too many; it is the last one
	ID      uuid.NullUUID `db:"id"`
}

// windowsQuery looks into one window after the other: it finds the documents that have
// the words, and then their messages, the first of the window for the page. It ends
// with the page, with a window that is too full, and when it has read as many
// documents as step.
func windowsQuery(from source, q repository.SearchQuery, n names, strides []stride, step int) (string, []any) {
	a := &arguments{first: 1, version: n.version}
	keys := make([]int64, len(strides))
	for i, s := range strides {
		w, _ := s.next()
		keys[i] = w.key()
	}
	list := a.terms(keys)
	behind := a.behind(q)
	documents := []string{a.documented(q.Filter), "dlq.spans(d.created_at) @> ARRAY[(" + list + ")[walk.ord + 1]]"}
	for _, b := range behind {
		documents = append(documents, strings.ReplaceAll(strings.ReplaceAll(b, "m.created_at", "d.created_at"), "m.id", "d.message_id"))
	}
	messages := append(append(a.named(q.Filter, n), a.conditions(q.Filter)...), behind...)
	most := number(max(1, step/windowShare))
	return `
	WITH RECURSIVE walk (ord, read, found, too_full, ids) AS (
		SELECT 0, 0::bigint, 0::bigint, false, NULL::uuid[]
		UNION ALL
		SELECT walk.ord + 1, walk.read + w.read, walk.found + cardinality(w.ids), w.too_full, w.ids
		FROM walk CROSS JOIN LATERAL (
			WITH documents AS MATERIALIZED (
				SELECT d.message_id FROM dlq.message_documents d WHERE ` + and(documents...) + `
				LIMIT CASE WHEN (` + list + `)[walk.ord + 1] % 16 <> 0 THEN ` + most + ` + 1 END
			), counted AS MATERIALIZED (
				SELECT count(*) AS read, (` + list + `)[walk.ord + 1] % 16 <> 0 AND count(*) > ` + most + ` AS too_full FROM documents
			)
			SELECT read, too_full, ARRAY(
				SELECT m.id FROM documents ` + from.join("documents.message_id") + `
				WHERE NOT too_full AND ` + and(messages...) + `
				ORDER BY ` + order(q.Sort, "m.created_at", "m.id") + ` LIMIT ` + number(q.Limit) + `
			) AS ids FROM counted
		) w
		WHERE walk.ord < cardinality(` + list + `) AND NOT walk.too_full AND walk.found < ` + number(q.Limit) + ` AND walk.read < ` + number(step) + `
	)
	SELECT walk.ord, walk.read, walk.too_full, h.id FROM walk LEFT JOIN LATERAL unnest(walk.ids) h (id) ON true
	WHERE walk.ord > 0 ORDER BY walk.ord`, a.values
}
