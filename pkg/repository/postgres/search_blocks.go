package postgres

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	// askedLetters is how many fours of a filter are looked for: the first few tell.
	askedLetters = 12
	// skippedBlocks is how many blocks are gone through at once, and blocksAround how
	// many there may be around one moment.
	skippedBlocks = 1000
	blocksAround  = 100
)

// fours are bits that every text has which has the words.
func fours(words []string) (asked []int) {
	for _, word := range words {
		eachFour(word, func(bit int) {
			if len(asked) < askedLetters && !slices.Contains(asked, bit) {
				asked = append(asked, bit)
			}
		})
	}
	return asked
}

// skipQuery is the first moment from the given one on at which a document may have the
// bits: at, or NULL when none has. Behind skippedBlocks it stops, and says that it did.
// Documents that are in no block are found by themselves.
func skipQuery(from any, asked []int, ascending bool) (string, []any) {
	a := &arguments{first: 1}
	start := a.arg(from) + "::timestamptz"
	var each []string
	for _, bit := range asked {
		each = append(each, "get_byte(substring(b.letters FROM ("+a.arg(bit/8)+"::int & (octet_length(b.letters) - 1)) + 1 FOR 1), 0) & "+
			number(1<<(bit%8))+" <> 0")
	}
	has, first, edge, behind, order := and(each...), "greatest", "newest", "<", " DESC"
	if ascending {
		first, edge, behind, order = "least", "oldest", ">", ""
	}
	return `
	WITH next AS MATERIALIZED (
		SELECT at, nth FROM (
			SELECT ` + edge + ` AS at, letters, row_number() OVER (ORDER BY ` + edge + order + `) AS nth FROM dlq.document_blocks
			WHERE ` + edge + ` ` + behind + ` ` + start + ` ORDER BY ` + edge + order + ` LIMIT ` + number(skippedBlocks) + `
		) b WHERE nth = ` + number(skippedBlocks) + ` OR ` + has + ` ORDER BY at` + order + ` LIMIT 1
	), around AS MATERIALIZED (
		SELECT FROM (
			SELECT letters, row_number() OVER () AS nth FROM dlq.document_blocks
			WHERE tstzrange(oldest, newest, '[]') @> ` + start + ` LIMIT ` + number(blocksAround) + `
		) b WHERE nth = ` + number(blocksAround) + ` OR ` + has + ` LIMIT 1
	), found AS (
		SELECT CASE WHEN EXISTS (SELECT FROM around) THEN ` + start + ` ELSE ` + first + `((SELECT at FROM next), (
			SELECT d.created_at FROM dlq.message_documents d
			WHERE d.block IS NULL AND d.created_at ` + behind + `= ` + start + ` ORDER BY d.created_at` + order + ` LIMIT 1
		)) END AS at
	)
	SELECT at, coalesce(at = (SELECT at FROM next WHERE nth = ` + number(skippedBlocks) + `), false) AS stopped FROM found`, a.values
}

// skipped is how far a search may go.
type skipped struct {
	to      repository.Place // where the page begins then
	moved   bool             // that is another place than before
	stopped bool             // there may be more to skip
	none    bool             // no document is left
}

// skip goes past documents that cannot have a filter's words.
func skip(ctx context.Context, tx *sqlx.Tx, q repository.SearchQuery) (skipped, error) {
	asked := fours(q.Filter.Words)
	if len(asked) == 0 || q.Sort.By != repository.ByCreated {
		return skipped{to: q.After}, nil
	}
	from := beginOf(q)
	query, args := skipQuery(from.argument(), asked, q.Sort.Ascending)
	var found []struct { // one row
		At      sql.NullTime `db:"at"`
		Stopped bool         `db:"stopped"`
	}
	if err := readRows(ctx, tx, &found, query, args...); err != nil {
		return skipped{}, err
	}
	switch at := found[0].At; {
	case !at.Valid:
		return skipped{to: q.After, none: true}, nil
	case !from.unbounded && at.Time.Equal(from.at):
		return skipped{to: q.After}, nil
	default:
		return skipped{to: placeBefore(at.Time, q.Sort.Ascending), moved: true, stopped: found[0].Stopped}, nil
	}
}

// begin is where a list begins in time.
type begin struct {
	at        time.Time
	unbounded bool // it begins with the first message that there is
	ascending bool
}

func beginOf(q repository.SearchQuery) begin {
	b := begin{unbounded: true, ascending: q.Sort.Ascending}
	narrow := func(at time.Time) {
		if at = entity.Moment(at); b.unbounded || at.After(b.at) == b.ascending {
			b.at, b.unbounded = at, false
		}
	}
	edge := q.Filter.CreatedBefore
	if b.ascending {
		edge = q.Filter.CreatedAfter
	}
	if !edge.IsZero() {
		narrow(edge)
	}
	if q.After != (repository.Place{}) {
		narrow(q.After.CreatedAt)
	}
	return b
}

func (b begin) argument() any {
	switch {
	case !b.unbounded:
		return b.at
	case b.ascending:
		return "-infinity"
	}
	return "infinity"
}

// placeBefore is such that what was created at a moment or behind it stands behind the
// place.
func placeBefore(at time.Time, ascending bool) repository.Place {
	if ascending {
		return repository.Place{CreatedAt: at.Add(-time.Microsecond), ID: uuid.Max}
	}
	return repository.Place{CreatedAt: at.Add(time.Microsecond)}
}
