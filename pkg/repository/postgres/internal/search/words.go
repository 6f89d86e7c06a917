package search

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
)

// scannedAtOnce is the maximum number of messages that a search tests for its words one by one, before it reads the
// search index. For a word that every twentieth message contains, this is faster. scannedNewer is the maximum number of
// messages after the indexer's position that are tested too, of any topic, the oldest first, because the indexer stores
// documents in this order and some of these messages may have one. There is a limit because hundreds of thousands of
// messages have no document during heavy ingest.
//
// The indexer goes back when a long transaction has stored older messages. Then the message that follows the tested
// newer messages already has a document of the current version. In this case the indexer's position is ignored.
const (
	scannedAtOnce = 500
	scannedNewer  = 500
)

// scanResult is the result of testing messages one by one.
type scanResult struct {
	hits []uuid.UUID
	// all is true when all messages that match the rest of the filter were tested. It is false when the page is full.
	all bool
	// last is the last message that was tested, unless the page is full; the zero Cursor when none was tested.
	last repository.Cursor
}

// candidate is a message whose document is tested for the words.
type candidate struct {
	ID   uuid.UUID    `db:"id"`
	At   sql.NullTime `db:"created_at"` // NULL for an infinite created_at
	Kind string       `db:"kind"`
}

// The kinds of candidates: a message before the indexer's position, a newer message, and the first message after the
// newer messages, whose document is read but which is never a result of the search.
const (
	indexedKind = "indexed"
	newerKind   = "newer"
	nextKind    = "next"
)

const finiteTime = "CASE WHEN isfinite(created_at) THEN created_at END AS created_at"

// scanMessages tests messages for the words of the filter, one by one: the first ones, at most limit, that match the
// rest of the filter.
func scanMessages(ctx context.Context, tx *sqlx.Tx, from codec.Source, q repository.SearchQuery, n Scope, limit int) (scanResult, error) {
	p := listedIn(from, q, n, LeaveOut, listPart{limit: limit, first: 1})
	query := "SELECT id, " + finiteTime + ", '" + indexedKind + "' AS kind FROM (" + p.Query + ") listed ORDER BY " + p.order
	var found []candidate
	if err := readRows(ctx, tx, &found, query, p.Values...); err != nil {
		return scanResult{}, err
	}
	documents, err := readDocuments(ctx, tx, q.Filter, n, found)
	return resultOf(q, found, documents, limit), err
}

// scanIndexed does the work of scanMessages for a page of the newest messages, some of which may not be indexed yet. It
// leaves out messages without documents and fills the page with older messages; searched_until of the page shows how
// far the index is.
func scanIndexed(ctx context.Context, tx *sqlx.Tx, from codec.Source, q repository.SearchQuery, n Scope) (scanResult, error) {
	if from.Archived || q.Sort != (repository.Sort{}) {
		return scanMessages(ctx, tx, from, q, n, scannedAtOnce)
	}
	var until []sql.NullTime
	err := readRows(ctx, tx, &until, `SELECT nullif(greatest(found_until, walked_at), '-infinity') FROM dlq.search_index`)
	if err != nil || len(until) == 0 || !until[0].Valid {
		return scanResult{}, err // the indexer has no position yet; documents of an earlier indexer may exist
	}
	query, args := candidatesQuery(from, q, n, until[0].Time)
	var found []candidate
	if err := readRows(ctx, tx, &found, query, args...); err != nil {
		return scanResult{}, err
	}
	documents, err := readDocuments(ctx, tx, q.Filter, n, found)
	if err != nil {
		return scanResult{}, err
	}
	for _, c := range found {
		if c.Kind == nextKind && documents[c.ID].current {
			return scanMessages(ctx, tx, from, q, n, scannedAtOnce)
		}
	}
	return resultOf(q, found, documents, scannedAtOnce), nil
}

// candidatesQuery finds the newest messages before the indexer's position that match the filter, and the first messages
// after the indexer's position.
func candidatesQuery(from codec.Source, q repository.SearchQuery, n Scope, until time.Time) (string, []any) {
	a := Arguments{First: 1, Version: n.Version}
	at := a.Arg(until) + "::timestamptz"
	newer := "FROM " + from.Table + " m WHERE " + And(append(a.behind(q), "m.created_at >= "+at)...) + " ORDER BY m.created_at, m.id "
	asked := append(a.Named(q.Filter, n), a.Conditions(q.Filter)...)
	indexed := listedIn(from, q, n, LeaveOut, listPart{limit: scannedAtOnce, first: 1 + len(a.Values), within: "m.created_at < " + at})
	return "SELECT id, " + finiteTime + ", kind FROM (" +
		"\n(SELECT m.id, m.created_at, '" + newerKind + "' AS kind FROM (SELECT * " + newer + "LIMIT " + codec.Bigint(scannedNewer) + ") m WHERE " + And(asked...) + ")" +
		"\nUNION ALL (SELECT m.id, m.created_at, '" + nextKind + "' " + newer + "OFFSET " + codec.Bigint(scannedNewer) + " LIMIT 1)" +
		"\nUNION ALL SELECT id, created_at, '" + indexedKind + "' FROM (" + indexed.Query + ") listed" +
		"\n) found ORDER BY " + orderBy(q.Sort, "found.created_at", "id"), append(a.Values, indexed.Values...)
}

// resultOf returns which candidates contain the words of the filter. The parameter found is in the order of the page.
func resultOf(q repository.SearchQuery, found []candidate, documents map[uuid.UUID]documentState, limit int) (l scanResult) {
	indexed := 0
	for _, c := range found {
		if len(l.hits) == q.Limit {
			return scanResult{hits: l.hits}
		}
		if c.Kind == indexedKind {
			if indexed++; c.At.Valid {
				l.last = repository.Cursor{CreatedAt: c.At.Time, ID: c.ID}
			}
		}
		if documents[c.ID].hit && c.Kind != nextKind {
			l.hits = append(l.hits, c.ID)
		}
	}
	if len(l.hits) == q.Limit {
		return scanResult{hits: l.hits}
	}
	l.all = indexed < limit
	return l
}

// documentState is the result of testing the document of a message.
type documentState struct {
	current bool // whether the document has the version of the search index
	hit     bool // whether the document matches the filter's words and its other conditions on documents
}

// readDocuments tests the documents of messages. The query contains the messages' created_at, so that PostgreSQL opens
// only the partitions of these times.
func readDocuments(ctx context.Context, tx *sqlx.Tx, f entity.Filter, n Scope, of []candidate) (map[uuid.UUID]documentState, error) {
	ids, times := codec.NewArray(codec.OIDUUID, len(of), 16), codec.NewArray(codec.OIDTimestamptz, len(of), 8)
	var first, last time.Time
	for _, c := range of {
		if !c.At.Valid {
			continue
		}
		ids.UUID(c.ID)
		times.Time(c.At.Time)
		if first.IsZero() || c.At.Time.Before(first) {
			first = c.At.Time
		}
		if last.IsZero() || c.At.Time.After(last) {
			last = c.At.Time
		}
	}
	if ids.N == 0 {
		return map[uuid.UUID]documentState{}, nil
	}
	a := &Arguments{First: 1, Version: n.Version}
	query := `SELECT w.id, d.current, d.hit FROM unnest(` + a.Arg(ids.Arg()) + `::uuid[], ` + a.Arg(times.Arg()) + `::timestamptz[]) AS w (id, at)
		CROSS JOIN LATERAL (
			SELECT d.version = (SELECT version FROM dlq.search_index) AS current, ` + a.documented(f) + ` AS hit FROM dlq.message_documents d
			WHERE d.message_id = w.id AND d.created_at = w.at
			  AND d.created_at >= ` + a.Arg(first) + `::timestamptz AND d.created_at <= ` + a.Arg(last) + `::timestamptz OFFSET 0
		) d`
	var found []struct {
		ID      uuid.UUID `db:"id"`
		Current bool      `db:"current"`
		Hit     bool      `db:"hit"`
	}
	if err := readRows(ctx, tx, &found, query, a.Values...); err != nil {
		return nil, err
	}
	states := make(map[uuid.UUID]documentState, len(found))
	for _, d := range found {
		states[d.ID] = documentState{d.Current, d.Hit}
	}
	return states, nil
}

// alternatives reports whether messages can match a filter's conditions on topics in several ways within one walk (see
// Walks): messages of one dead-letter topic that have one of several original topics, or messages of unknown origin in
// one of several dead-letter topics. No index contains the messages of such a walk in the order of the page, and only
// few among millions may match.
func alternatives(f entity.Filter, n Scope) bool {
	switch {
	case n.Topics == nil && n.Visible == nil:
		return false
	case f.Topic != "":
		return n.Number.Valid
	}
	return f.UnknownOrigin || n.Topics == nil
}

// WalksOfPairs returns one walk (see Walks) for each matching pair of original and dead-letter topic. When all messages
// of an original topic match, it returns one walk for that topic instead of its pairs. apart is false when there are no
// alternatives, when the pairs are not known, or when there would be too many walks.
func (a *Arguments) WalksOfPairs(f entity.Filter, n Scope) (walks [][]string, apart bool) {
	if n.Pairs == nil || !alternatives(f, n) {
		return nil, false
	}
	fit := map[string][]int32{}
	for _, number := range slices.Sorted(maps.Keys(n.Pairs)) {
		for _, original := range n.Pairs[number] {
			if n.fits(f, original, number) {
				fit[original] = append(fit[original], number)
			}
		}
	}
	for _, original := range slices.Sorted(maps.Keys(fit)) {
		topic := "m.original_topic = " + a.text(original)
		if n.suffices(f, original) {
			walks = append(walks, []string{topic})
			continue
		}
		for _, number := range fit[original] {
			walks = append(walks, []string{topic, a.deadLetterTopic(number)})
		}
	}
	if len(walks) > maxWalks {
		a.Values = nil
		return nil, false
	}
	return walks, true
}

// suffices reports whether all messages of the original topic match, whatever their dead-letter topic is. This includes
// a dead-letter topic that appears after the pairs were read.
func (n Scope) suffices(f entity.Filter, original string) bool {
	return (original != "" || n.Visible == nil) && (f.Topic == "" || original == f.Topic) &&
		(n.Topics == nil || slices.Contains(n.Topics.Originals, original))
}

func (a *Arguments) deadLetterTopic(number int32) string {
	if number == 0 {
		return "m.dlq_topic_id IS NULL"
	}
	return "m.dlq_topic_id = " + a.Arg(number) + "::int"
}

// fits reports whether messages with this original topic, and the dead-letter topic with this number, meet the filter's
// conditions on topics and are visible to the caller.
func (n Scope) fits(f entity.Filter, original string, number int32) bool {
	switch {
	case f.Topic != "" && original != f.Topic && (!n.Number.Valid || number != n.Number.Int32):
		return false
	case f.UnknownOrigin && original != "":
		return false
	case n.Topics != nil && !slices.Contains(n.Topics.Originals, original) && !slices.Contains(n.Topics.Numbers, number):
		return false
	case n.Visible == nil || original != "":
		return n.Visible.sees(original, number)
	}
	return n.Visible.sees(original, number) || number == 0 && n.Visible.Unnamed
}
