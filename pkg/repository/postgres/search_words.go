package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// probed is how many messages are looked at one by one for words, before the
// catalogue is asked which of all have them: a word that every hundredth has is
// found faster that way. probedNew is how many that came behind the catalogue are
// looked through, of whatever topic, the next to it first: its worker goes upwards, a
// batch at a time, so these are those that may have documents. While messages pour in
// there are hundreds of thousands for which nobody has made any, and a filter that
// none of those fits would have all of them read.
//
// The catalogue goes back when it finds what a long transaction has stored. Whether
// it had been further tells the message that is looked at behind as many.
const (
	probed     = 5000
	probedNew  = 500
	lookedPast = 2 * probedNew
)

// probe looks for words among the first messages that the rest of the filter
// leaves, and says whether those were all. When there are enough hits nobody asks
// that, and it is false.
func probe(ctx context.Context, tx *sqlx.Tx, from source, q repository.SearchQuery, n names) (hits []uuid.UUID, all bool, err error) {
	hits, all, _, err = probeIn(ctx, tx, q, probedPlaces(from, q, n))
	return hits, all, err
}

// probeCatalogued is the same for a page, which is whole without messages that the
// catalogue has not come to.
func probeCatalogued(ctx context.Context, tx *sqlx.Tx, from source, q repository.SearchQuery, n names) (hits []uuid.UUID, all bool, err error) {
	hits, all, further, err := probeIn(ctx, tx, q, cataloguedPlaces(from, q, n))
	if further && err == nil {
		return probe(ctx, tx, from, q, n)
	}
	return hits, all, err
}

// probeIn also says whether there are documents further on than the places.
func probeIn(ctx context.Context, tx *sqlx.Tx, q repository.SearchQuery, p *places) (hits []uuid.UUID, all, further bool, err error) {
	query, args := probeQuery(q, p)
	var found []struct {
		All     bool          `db:"all_seen"`
		Further bool          `db:"further"`
		ID      uuid.NullUUID `db:"id"`
	}
	if err := readRows(ctx, tx, &found, query, args...); err != nil {
		return nil, false, false, err
	}
	for _, f := range found {
		all, further = f.All, f.Further
		if f.ID.Valid {
			hits = append(hits, f.ID.UUID)
		}
	}
	return hits, all, further, nil
}

// cataloguedUntil is the place that the catalogue has come to. What is below has its
// document, what came later may have one.
const cataloguedUntil = "(SELECT greatest(found_until, walked_at) FROM dlq.catalogue)"

// probeQuery reads no further than to the last hit. A catalogue that has only begun
// has come to nothing, but may have documents from before.
func probeQuery(q repository.SearchQuery, p *places) (string, []any) {
	whole, further := "true", "false"
	if p.past != "" {
		whole = "coalesce(" + cataloguedUntil + " > '-infinity', false)"
		further = "coalesce((SELECT d.version FROM dlq.message_documents d WHERE d.message_id = (" + p.past + "))" +
			" = (SELECT version FROM dlq.catalogue), false)"
	}
	query := "WITH first AS MATERIALIZED (" + p.query + "), hits AS MATERIALIZED (SELECT id, at FROM first WHERE " +
		p.lookedUp(q.Filter, "first.id") + " ORDER BY " + p.order + " LIMIT " + number(q.Limit) + ")\n" +
		"SELECT CASE WHEN (SELECT count(*) FROM hits) < " + number(q.Limit) + " THEN " +
		"(SELECT count(*) FILTER (WHERE NOT new) < " + number(probed) + " AND " + whole + " FROM first) ELSE false END AS all_seen,\n" +
		further + " AS further, h.id\n" +
		"FROM (SELECT 1) one LEFT JOIN hits h ON true ORDER BY " + p.order
	return query, p.values
}

// probedPlaces are the messages that are looked at: id, at, and whether they are new
// to the catalogue, which is asked of none here.
func probedPlaces(from source, q repository.SearchQuery, n names) *places {
	p := listedIn(from, q, n, leaveOut, stretch{limit: probed, first: 1})
	p.query = "SELECT id, at, false AS new FROM (" + p.query + ") known ORDER BY " + p.order
	return p
}

// cataloguedPlaces leave out what cannot have documents yet. Of a list that begins
// with the newest, all that the catalogue has come to are reached by that, and nobody
// was told that more was searched.
func cataloguedPlaces(from source, q repository.SearchQuery, n names) *places {
	if from.archived || q.Sort != (repository.Sort{}) {
		return probedPlaces(from, q, n)
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
	p.past = "SELECT m.id" + walk + "OFFSET " + number(lookedPast-1) + " LIMIT 1"
	p.first, p.values = 1, append(above.values, p.values...)
	return p
}
