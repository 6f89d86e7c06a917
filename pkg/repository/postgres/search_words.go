package postgres

import (
	"context"
	"database/sql"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// probed is how many messages are looked at one by one for words, before documents
// are: a word that every twentieth has is found faster that way, and most filters that
// leave few messages end there. probedNew is how many that came behind the catalogue are
// looked through, of whatever topic, the next to it first: its worker goes upwards, a
// batch at a time, so these are those that may have documents. While messages pour in
// there are hundreds of thousands for which nobody has made any, and a filter that
// none of those fits would have all of them read.
//
// The catalogue goes back when it finds what a long transaction has stored. Whether
// it had been further tells the message behind those.
const (
	probed    = 500
	probedNew = 500
)

// looked is what came of looking at messages one by one.
type looked struct {
	hits []uuid.UUID
	// all says that there are no other messages; it is false when there are enough
	// hits, for nobody asks then.
	all bool
	// last is the last message, unless there are enough hits; the zero Place: none was
	// looked at.
	last repository.Place
}

// probe looks for words among the first messages that the rest of the filter leaves,
// as many as limit.
func probe(ctx context.Context, tx *sqlx.Tx, from source, q repository.SearchQuery, n names, limit int) (looked, error) {
	l, _, err := probeIn(ctx, tx, q, probedPlaces(from, q, n, limit), limit)
	return l, err
}

// probeCatalogued is the same for a page, which is whole without messages that the
// catalogue has not come to.
func probeCatalogued(ctx context.Context, tx *sqlx.Tx, from source, q repository.SearchQuery, n names) (looked, error) {
	p := cataloguedPlaces(from, q, n)
	l, further, err := probeIn(ctx, tx, q, p, probed)
	if further && err == nil {
		return probe(ctx, tx, from, q, n, probed)
	}
	return l, err
}

// probeIn also says whether there are documents further on than the places.
func probeIn(ctx context.Context, tx *sqlx.Tx, q repository.SearchQuery, p *places, limit int) (l looked, further bool, err error) {
	query, args := probeQuery(q, p, limit)
	var found []struct {
		All     bool          `db:"all_seen"`
		Further bool          `db:"further"`
		LastAt  sql.NullTime  `db:"last_at"`
		LastID  uuid.NullUUID `db:"last_id"`
		ID      uuid.NullUUID `db:"id"`
	}
	if err := readRows(ctx, tx, &found, query, args...); err != nil {
		return looked{}, false, err
	}
	for _, f := range found {
		l.all, further = f.All, f.Further
		if f.LastID.Valid {
			l.last = repository.Place{CreatedAt: f.LastAt.Time, ID: f.LastID.UUID}
		}
		if f.ID.Valid {
			l.hits = append(l.hits, f.ID.UUID)
		}
	}
	return l, further, nil
}

// cataloguedUntil is the place that the catalogue has come to. What is below has its
// document, what came later may have one.
const cataloguedUntil = "(SELECT greatest(found_until, walked_at) FROM dlq.catalogue)"

// probeQuery reads no further than to the last hit. A catalogue that has only begun
// has come to nothing, but may have documents from before.
func probeQuery(q repository.SearchQuery, p *places, limit int) (string, []any) {
	whole, further := "true", "false"
	if p.past != "" {
		whole = "coalesce(" + cataloguedUntil + " > '-infinity', false)"
		further = "coalesce((SELECT d.version FROM dlq.message_documents d WHERE d.message_id = (" + p.past + "))" +
			" = (SELECT version FROM dlq.catalogue), false)"
	}
	back := repository.Sort{By: q.Sort.By, Ascending: !q.Sort.Ascending}
	query := "WITH first AS MATERIALIZED (" + p.query + "), hits AS MATERIALIZED (SELECT id, at FROM first WHERE " +
		p.lookedUp(q.Filter, "first.id") + " ORDER BY " + p.order + " LIMIT " + number(q.Limit) + ")\n" +
		"SELECT coalesce(s.known < " + number(limit) + " AND " + whole + ", false) AS all_seen, " + further + " AS further,\n" +
		"l.at AS last_at, l.id AS last_id, h.id\n" +
		"FROM (SELECT CASE WHEN count(*) < " + number(q.Limit) + " THEN (SELECT count(*) FILTER (WHERE NOT new) FROM first) END AS known FROM hits) s\n" +
		"LEFT JOIN LATERAL (SELECT id, at FROM first WHERE s.known IS NOT NULL AND NOT new ORDER BY " + order(back, "at", "id") + " LIMIT 1) l ON true\n" +
		"LEFT JOIN hits h ON true ORDER BY " + order(q.Sort, "h.at", "h.id")
	return query, p.values
}

// probedPlaces are the messages that are looked at: id, at, and whether they are new
// to the catalogue, which is asked of none here.
func probedPlaces(from source, q repository.SearchQuery, n names, limit int) *places {
	p := listedIn(from, q, n, leaveOut, stretch{limit: limit, first: 1})
	p.query = "SELECT id, at, false AS new FROM (" + p.query + ") known ORDER BY " + p.order
	return p
}

// cataloguedPlaces leave out what cannot have documents yet. Of a list that begins
// with the newest, all that the catalogue has come to are reached by that, and nobody
// was told that more was searched.
func cataloguedPlaces(from source, q repository.SearchQuery, n names) *places {
	if from.archived || q.Sort != (repository.Sort{}) {
		return probedPlaces(from, q, n, probed)
	}
	above := arguments{first: 1, version: n.version}
	walked := append([]string{"m.created_at >= " + cataloguedUntil}, above.behind(q)...)
	asked := append(above.named(q.Filter, n), above.conditions(q.Filter)...)
	p := listedIn(from, q, n, leaveOut, stretch{
		limit: probed, first: 1 + len(above.values), within: "m.created_at < coalesce(" + cataloguedUntil + ", '-infinity')",
	})
	walk := " FROM " + from.table + " m WHERE " + and(walked...) + " ORDER BY m.created_at, m.id "
	p.query = "SELECT m.id, m.created_at AS at, true AS new FROM (SELECT *" + walk + "LIMIT " + number(probedNew) + ") m WHERE " + and(asked...) +
		" UNION ALL SELECT id, at, false FROM (" + p.query + ") known ORDER BY " + p.order
	p.past = "SELECT m.id" + walk + "OFFSET " + number(probedNew) + " LIMIT 1"
	p.first, p.values = 1, append(above.values, p.values...)
	return p
}
