package search

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
)

// timeRange is the range of time from From up to, but not including, To, in microseconds since 2000.
type timeRange struct{ From, To int64 }

func (r timeRange) empty() bool { return r.From >= r.To }

// Length returns the length of the range in microseconds.
func (r timeRange) Length() int64 { return r.To - r.From }

// and returns the intersection of the ranges r and o.
func (r timeRange) and(o timeRange) timeRange {
	return timeRange{max(r.From, o.From), min(r.To, o.To)}
}

// with returns the shortest range that contains the ranges r and o.
func (r timeRange) with(o timeRange) timeRange {
	return timeRange{min(r.From, o.From), max(r.To, o.To)}
}

// first returns the part of the range r, at most length long, that comes first in a list: the oldest part when the list
// is ascending, otherwise the newest part.
func (r timeRange) first(length int64, ascending bool) timeRange {
	switch {
	case r.empty() || length >= r.Length():
	case ascending:
		r.To = r.From + length
	default:
		r.From = r.To - length
	}
	return r
}

// behind returns the part of the range r that comes after the cursor p in a list.
func (r timeRange) behind(p repository.Cursor, ascending bool) timeRange {
	at := micros2000(p.CreatedAt)
	if ascending {
		if p.ID == uuid.Max {
			at++
		}
		r.From = max(r.From, at)
		return r
	}
	if p.ID != uuid.Nil {
		at++
	}
	r.To = min(r.To, at)
	return r
}

// since2000 is the beginning of the year 2000 in microseconds of Unix time.
const since2000 = 946_684_800_000_000

// micros2000 returns the microseconds from 2000 to t.
func micros2000(t time.Time) int64 { return t.UnixMicro() - since2000 }

func moment2000(micros int64) time.Time { return time.UnixMicro(micros + since2000).UTC() }

// The first partition of the search index also contains all earlier times, and the last partition all later times.
// Their numbers are days since 2000-01-01.
const (
	earliestDay = -1
	latestDay   = 36_525 // 2100-01-01
	dayLength   = int64(24 * time.Hour / time.Microsecond)
)

// day is one partition of the search index and its time range.
type day struct {
	timeRange
	Table string // SQL name; "" when the role may read the partition only through dlq.message_documents
}

// daysOf returns the existing partitions of the search index in the order of the page.
func daysOf(ctx context.Context, tx *sqlx.Tx, ascending bool) ([]day, error) {
	var found []struct {
		Number int64  `db:"number"`
		Name   string `db:"name"`
	}
	err := readRows(ctx, tx, &found, `SELECT to_date(right(c.relname, 8), 'YYYYMMDD') - DATE '2000-01-01' AS number,
		CASE WHEN has_table_privilege(c.oid, 'SELECT') THEN 'dlq.' || quote_ident(c.relname) ELSE '' END AS name
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'dlq.message_documents'::regclass ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	days := make([]day, len(found))
	for i, f := range found {
		days[i] = day{timeRange{f.Number * dayLength, (f.Number + 1) * dayLength}, f.Name}
		switch f.Number {
		case earliestDay:
			days[i].From = math.MinInt64
		case latestDay:
			days[i].To = math.MaxInt64
		}
	}
	if !ascending {
		slices.Reverse(days)
	}
	return days, nil
}

// leftOf returns the time range that a search has to cover: from the oldest to the newest message, without the times
// that the query excludes.
func leftOf(ctx context.Context, tx *sqlx.Tx, from codec.Source, q repository.SearchQuery) (timeRange, error) {
	var found []struct {
		Oldest int64 `db:"oldest"`
		Newest int64 `db:"newest"`
	}
	if err := readRows(ctx, tx, &found, boundsQuery(from)); err != nil || len(found) == 0 {
		return timeRange{}, err
	}
	left := timeRange{found[0].Oldest, found[0].Newest + 1}
	if at := q.Filter.CreatedAfter; !at.IsZero() {
		left.From = max(left.From, micros2000(at))
	}
	if at := q.Filter.CreatedBefore; !at.IsZero() {
		left.To = min(left.To, micros2000(at)+1)
	}
	if q.After != (repository.Cursor{}) {
		left = left.behind(q.After, q.Sort.Ascending)
	}
	return left, nil
}

// boundsQuery returns the oldest and the newest finite created_at of messages.
func boundsQuery(from codec.Source) string {
	edge := func(where, order string) string {
		return "(SELECT created_at FROM " + from.Table + " WHERE " + where + " ORDER BY created_at " + order + " LIMIT 1)"
	}
	return "SELECT " + microsOf("e.oldest") + " AS oldest, " + microsOf("e.newest") + " AS newest\n" +
		"FROM (SELECT " + edge("created_at > '-infinity'", "") + " AS oldest, " + edge("created_at < 'infinity'", "DESC") + " AS newest) e\n" +
		"WHERE isfinite(e.oldest) AND isfinite(e.newest)"
}

// microsOf returns the SQL expression for a time, the SQL expression at, in microseconds since the year 2000.
func microsOf(at string) string {
	return "(extract(epoch FROM " + at + " - TIMESTAMPTZ '2000-01-01 00:00:00+00') * 1000000)::bigint"
}

// Settings of the planner for reading a time range. byIndex makes PostgreSQL use an index. Otherwise it might read all
// documents, because it does not know how few documents contain a word. inAnyWay lets PostgreSQL choose freely again.
const (
	byIndex  = `; SET LOCAL enable_seqscan = off`
	inAnyWay = `; SET LOCAL enable_seqscan = on`
)

// rangeQuery finds the first messages of a time range by their documents. The documents come first because PostgreSQL
// would read all messages of the range for words that it considers common. The documents are sorted before they are
// joined to their messages, so that few messages are read.
//
// When the range consists of whole days, PostgreSQL must find the documents by their words; in a part of a day, it
// finds them by their time. The choice is not left to PostgreSQL, because in a new day, which it has not analyzed, it
// would read every document by its time.
func rangeQuery(from codec.Source, q repository.SearchQuery, n Scope, in timeRange, whole []day) (string, []any) {
	a := &Arguments{First: 1, Version: n.Version}
	behind := append(a.behind(q), "m.created_at >= "+a.Arg(moment2000(in.From))+"::timestamptz", "m.created_at < "+a.Arg(moment2000(in.To))+"::timestamptz")
	documents := []string{a.documented(q.Filter)}
	messages := append(append(a.Named(q.Filter, n), a.Conditions(q.Filter)...), "m.created_at = found.created_at")
	table := "dlq.message_documents"
	if len(whole) > 0 {
		table = unionOf(whole)
		messages = append(messages, onDocument(behind, "found"))
	} else {
		documents = append(documents, onDocument(behind, "d"))
	}
	return `
	WITH found AS MATERIALIZED (
		SELECT d.message_id, d.created_at FROM ` + table + ` d WHERE ` + And(documents...) + `
	)
	SELECT m.id FROM found ` + from.Join("found.message_id") + ` WHERE ` + And(messages...) + `
	ORDER BY ` + orderBy(q.Sort, "found.created_at", "found.message_id") + ` LIMIT ` + codec.Bigint(q.Limit), a.Values
}

// onDocument rewrites conditions on the created_at and id of the message m as conditions on its document; the parameter
// document is the document's SQL name.
func onDocument(conditions []string, document string) string {
	return strings.NewReplacer("m.created_at", document+".created_at", "m.id", document+".message_id").Replace(And(conditions...))
}

// unionOf returns the SQL that selects the documents of these partitions.
func unionOf(days []day) string {
	var tables []string
	for _, d := range days {
		tables = append(tables, "SELECT message_id, created_at, version, text, terms FROM "+d.Table)
	}
	return "(" + strings.Join(tables, " UNION ALL ") + ")"
}

// byWords reports whether the search index can find the documents of a filter by words, headers or fields. A word needs
// at least three adjacent letters or digits.
func byWords(f entity.Filter) bool {
	return len(f.Terms()) > 0 || slices.ContainsFunc(f.Words, func(word string) bool {
		adjacent, most := 0, 0
		for _, r := range word {
			if adjacent++; !unicode.IsLetter(r) && !unicode.IsDigit(r) {
				adjacent = 0
			}
			most = max(most, adjacent)
		}
		return most >= 3
	})
}
