package postgres

import (
	"context"
	"database/sql"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// activityTopicsQuery steps from topic to topic along an index. Who does not see all
// topics does not see those of unknown origin.
const activityTopicsQuery = `
	WITH RECURSIVE step AS (
		(SELECT original_topic AS name FROM dlq.activity WHERE original_topic > '' ORDER BY original_topic LIMIT 1)
		UNION ALL
		SELECT (SELECT n.original_topic FROM dlq.activity n WHERE n.original_topic > step.name
			ORDER BY n.original_topic LIMIT 1)
		FROM step WHERE step.name IS NOT NULL
	)
	SELECT name FROM step WHERE name IS NOT NULL`

// arrivalsQuery answers with one row at least, which says how far the catalogue is.
var (
	arrivalsQuery         = arrivalsWhere("")
	arrivalsOfTopicsQuery = arrivalsWhere("a.original_topic = ANY ($5::text[]) AND ")
)

func arrivalsWhere(condition string) string {
	return `
	SELECT c.found_until, p.at, coalesce(p.arrived, 0) AS arrived, coalesce(p.returned, 0) AS returned
	FROM dlq.search_index c LEFT JOIN (
		SELECT date_bin($4::bigint * interval '1 microsecond', a.at, $2::timestamptz) AS at,
			sum(a.arrived)::bigint AS arrived, sum(a.returned)::bigint AS returned
		FROM dlq.activity a
		WHERE ` + condition + `a.minutes = $1::smallint AND a.at >= $2::timestamptz AND a.at < $3::timestamptz
		GROUP BY 1
	) p ON true`
}

type arrivalsRow struct {
	FoundUntil sql.NullTime `db:"found_until"`
	At         sql.NullTime `db:"at"`
	Arrived    int64        `db:"arrived"`
	Returned   int64        `db:"returned"`
}

// Arrivals implements repository.Activity.
func (s *Store) Arrivals(ctx context.Context, q repository.ArrivalsQuery) (repository.Arrivals, error) {
	step := repository.ArrivalsStep
	if q.Fine() {
		step = repository.FineArrivalsStep
	}
	query, args := arrivalsQuery, []any{int(step.Minutes()), q.Since.UTC(), q.Until.UTC(), q.Step.Microseconds()}
	if q.Topic != "" || q.Visible != nil {
		topics, err := s.activeTopics(ctx, q)
		if err != nil {
			return repository.Arrivals{}, translate("count arrivals", err)
		}
		query, args = arrivalsOfTopicsQuery, append(args, texts(topics))
	}
	var found []arrivalsRow
	if err := s.selectRows(ctx, &found, query, args...); err != nil {
		return repository.Arrivals{}, translate("count arrivals", err)
	}
	came := repository.Arrivals{Points: q.Empty()}
	for _, r := range found {
		came.Until = moment(r.FoundUntil)
		if r.At.Valid {
			q.Add(came.Points, r.At.Time, r.Arrived, r.Returned)
		}
	}
	return came, nil
}

// activeTopics are those that a question is about. They are looked up before it, since
// patterns cannot be held against names in it.
func (s *Store) activeTopics(ctx context.Context, q repository.ArrivalsQuery) ([]string, error) {
	if q.Topic != "" {
		if q.Topic != clean(q.Topic) || q.Visible != nil && !q.Visible.Match(q.Topic) {
			return nil, nil
		}
		return []string{q.Topic}, nil
	}
	var names []string
	err := s.selectRows(ctx, &names, activityTopicsQuery)
	return slices.DeleteFunc(names, func(name string) bool { return !q.Visible.Match(name) }), err
}
