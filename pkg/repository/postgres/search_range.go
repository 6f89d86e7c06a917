package postgres

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// timeRange is a part of time in microseconds since 2000. to is not part of it.
type timeRange struct{ from, to int64 }

func (r timeRange) empty() bool { return r.from >= r.to }

func (r timeRange) length() int64 { return r.to - r.from }

// and is what is in both ranges.
func (r timeRange) and(o timeRange) timeRange {
	return timeRange{max(r.from, o.from), min(r.to, o.to)}
}

// first is the part of a range that a list has first.
func (r timeRange) first(length int64, ascending bool) timeRange {
	switch {
	case r.empty() || length >= r.length():
	case ascending:
		r.to = r.from + length
	default:
		r.from = r.to - length
	}
	return r
}

// behind is the part of a range that has what follows a place in a list.
func (r timeRange) behind(p repository.Place, ascending bool) timeRange {
	at := micros(p.CreatedAt)
	if ascending {
		if p.ID == uuid.Max {
			at++
		}
		r.from = max(r.from, at)
		return r
	}
	if p.ID != uuid.Nil {
		at++
	}
	r.to = min(r.to, at)
	return r
}

// since2000 is the year 2000 in microseconds of Unix time.
const since2000 = 946_684_800_000_000

func micros(t time.Time) int64 { return t.UnixMicro() - since2000 }

func moment2000(micros int64) time.Time { return time.UnixMicro(micros + since2000).UTC() }

// Days since 2000 of the partitions that have all times before and all times after.
const (
	earliestDay = -1
	latestDay   = 36_525 // 2100-01-01
	dayLength   = int64(24 * time.Hour / time.Microsecond)
)

// daysOf returns the ranges of the partitions that there are.
func daysOf(ctx context.Context, tx *sqlx.Tx, ascending bool) ([]timeRange, error) {
	var found []int64
	err := readRows(ctx, tx, &found, `SELECT to_date(right(c.relname, 8), 'YYYYMMDD') - DATE '2000-01-01'
		FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
		WHERE i.inhparent = 'dlq.message_documents'::regclass ORDER BY 1`)
	if err != nil {
		return nil, err
	}
	days := make([]timeRange, len(found))
	for i, n := range found {
		days[i] = timeRange{n * dayLength, (n + 1) * dayLength}
		switch n {
		case earliestDay:
			days[i].from = math.MinInt64
		case latestDay:
			days[i].to = math.MaxInt64
		}
	}
	if !ascending {
		slices.Reverse(days)
	}
	return days, nil
}

// leftOf returns the range between the oldest and the newest message, without what the
// query leaves out.
func leftOf(ctx context.Context, tx *sqlx.Tx, from source, q repository.SearchQuery) (timeRange, error) {
	var found []struct {
		Oldest int64 `db:"oldest"`
		Newest int64 `db:"newest"`
	}
	if err := readRows(ctx, tx, &found, edgesQuery(from)); err != nil || len(found) == 0 {
		return timeRange{}, err
	}
	left := timeRange{found[0].Oldest, found[0].Newest + 1}
	if at := q.Filter.CreatedAfter; !at.IsZero() {
		left.from = max(left.from, micros(at))
	}
	if at := q.Filter.CreatedBefore; !at.IsZero() {
		left.to = min(left.to, micros(at)+1)
	}
	if q.After != (repository.Place{}) {
		left = left.behind(q.After, q.Sort.Ascending)
	}
	return left, nil
}

// edgesQuery returns the oldest and the newest finite created_at of messages.
func edgesQuery(from source) string {
	edge := func(where, order string) string {
		return "(SELECT created_at FROM " + from.table + " WHERE " + where + " ORDER BY created_at " + order + " LIMIT 1)"
	}
	return "SELECT " + microsOf("e.oldest") + " AS oldest, " + microsOf("e.newest") + " AS newest\n" +
		"FROM (SELECT " + edge("created_at > '-infinity'", "") + " AS oldest, " + edge("created_at < 'infinity'", "DESC") + " AS newest) e\n" +
		"WHERE isfinite(e.oldest) AND isfinite(e.newest)"
}

// microsOf is an expression of SQL in microseconds since 2000.
func microsOf(at string) string {
	return "(extract(epoch FROM " + at + " - TIMESTAMPTZ '2000-01-01 00:00:00+00') * 1000000)::bigint"
}

// A range is read by an index: PostgreSQL does not know how few documents have a word, and
// might read all there are.
const (
	byIndex  = `; SET LOCAL enable_seqscan = off`
	inAnyWay = `; SET LOCAL enable_seqscan = on`
)

// rangeQuery finds the first messages of a range. The documents are found before their
// messages: PostgreSQL would walk the messages in order if it took the words for common.
// They are sorted before the join, so that of many only the first messages are read.
func rangeQuery(from source, q repository.SearchQuery, n names, in timeRange) (string, []any) {
	a := &arguments{first: 1, version: n.version}
	behind := a.behind(q)
	documents := []string{
		a.documented(q.Filter),
		"d.created_at >= " + a.arg(moment2000(in.from)) + "::timestamptz", "d.created_at < " + a.arg(moment2000(in.to)) + "::timestamptz",
	}
	for _, b := range behind {
		documents = append(documents, strings.NewReplacer("m.created_at", "d.created_at", "m.id", "d.message_id").Replace(b))
	}
	messages := append(append(a.named(q.Filter, n), a.conditions(q.Filter)...), "m.created_at = found.created_at")
	return `
	WITH found AS MATERIALIZED (
		SELECT d.message_id, d.created_at FROM dlq.message_documents d WHERE ` + and(documents...) + `
	)
	SELECT m.id FROM found ` + from.join("found.message_id") + ` WHERE ` + and(messages...) + `
	ORDER BY ` + order(q.Sort, "found.created_at", "found.message_id") + ` LIMIT ` + number(q.Limit), a.values
}
