package postgres

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// probed is how many messages are looked at one by one for words, before the
// catalogue is asked which of all have them: a word that every hundredth has is
// found faster that way. probedNew is how many of those are looked at that came
// behind the catalogue, the next to it first: its worker goes upwards, a batch at a
// time. While messages pour in there are hundreds of thousands for which nobody has
// made documents, and the newest are not even committed.
const (
	probed    = 5000
	probedNew = 100
)

// probe looks for words among the first messages that the rest of the filter
// leaves, and says whether those were all. When there are enough hits nobody asks
// that, and it is false.
func probe(ctx context.Context, tx *sqlx.Tx, from source, q repository.SearchQuery, n names) (hits []uuid.UUID, all bool, err error) {
	query, args := probeQuery(from, q, n)
	var found []struct {
		All bool          `db:"all_seen"`
		ID  uuid.NullUUID `db:"id"`
	}
	if err := readRows(ctx, tx, &found, query, args...); err != nil {
		return nil, false, err
	}
	for _, f := range found {
		all = f.All
		if f.ID.Valid {
			hits = append(hits, f.ID.UUID)
		}
	}
	return hits, all, nil
}

// cataloguedUntil is the place that the catalogue has come to. What is below has its
// document, what came later may have one.
const cataloguedUntil = "(SELECT greatest(found_until, walked_at) FROM dlq.catalogue)"

// probeQuery reads no further than to the last hit.
func probeQuery(from source, q repository.SearchQuery, n names) (string, []any) {
	p := probedPlaces(from, q, n)
	seen := "SELECT count(*) FILTER (WHERE NOT new) < " + number(probed) + " AND (count(*) FILTER (WHERE new) < " + number(probedNew) +
		" OR " + cataloguedUntil + " > '-infinity') FROM first"
	query := "WITH first AS MATERIALIZED (" + p.query + "), hits AS MATERIALIZED (SELECT id, at FROM first WHERE " +
		p.lookedUp(q.Filter, "first.id") + " ORDER BY " + p.order + " LIMIT " + number(q.Limit) + ")\n" +
		"SELECT CASE WHEN (SELECT count(*) FROM hits) < " + number(q.Limit) + " THEN " +
		"(" + seen + ") ELSE false END AS all_seen, h.id\n" +
		"FROM (SELECT 1) one LEFT JOIN hits h ON true ORDER BY " + p.order
	return query, p.values
}

// probedPlaces are the messages that are looked at: id, at, and whether they are new
// to the catalogue. Of a list that begins with the newest, all that the catalogue has
// come to are reached by that, and nobody was told that more was searched.
func probedPlaces(from source, q repository.SearchQuery, n names) *places {
	known := stretch{limit: probed, first: 1}
	if from.archived || q.Sort != (repository.Sort{}) {
		p := listedIn(from, q, n, leaveOut, known)
		p.query = "SELECT id, at, false AS new FROM (" + p.query + ") known ORDER BY " + p.order
		return p
	}
	above := listedIn(from, q, n, leaveOut, stretch{limit: probedNew, last: true, first: 1, within: "m.created_at >= " + cataloguedUntil})
	known.first += len(above.values)
	known.within = "m.created_at < coalesce(" + cataloguedUntil + ", '-infinity')"
	p := listedIn(from, q, n, leaveOut, known)
	p.query = "SELECT id, at, true AS new FROM (" + above.query + ") fresh UNION ALL SELECT id, at, false FROM (" + p.query + ") known ORDER BY " + p.order
	p.first, p.values = 1, append(above.values, p.values...)
	return p
}
