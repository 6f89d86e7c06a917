package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// CountMatching implements repository.Searcher. What the counters know is exact
// in either way.
func (s *Store) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	count, err := s.countMatching(ctx, q)
	return count, translate("count messages", err)
}

func (s *Store) countMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	from := sourceOf(q.Archived)
	n, err := s.namesOf(ctx, q.Filter, from)
	if err != nil {
		return repository.MatchCount{}, err
	}
	var count repository.MatchCount
	if !q.Archived && counted(q.Filter) {
		count.Exact = true
		query, args := counterQuery(q.Filter, n)
		return count, s.readNumber(ctx, &count.Messages, query, args)
	}
	if q.How == repository.CountExact {
		count.Exact = true
		query, args := exactQuery(q.Filter, n, from)
		err := s.readNumber(ctx, &count.Messages, query, args)
		var slow *repository.TooBroadError
		if !errors.As(err, &slow) {
			return count, err
		}
	}
	count.Exact = false
	count.Messages, err = s.estimate(ctx, q.Filter, n, from)
	return count, err
}

// counted reports whether a filter asks for nothing that the counters do not tell
// apart.
func counted(f entity.Filter) bool {
	f.Topic, f.Topics, f.Statuses, f.UnknownOrigin, f.Visible = "", entity.TopicPatterns{}, nil, false, nil
	return !f.Narrow() && f.CreatedAfter.IsZero() && f.CreatedBefore.IsZero() && f.RetriedAfter.IsZero() && f.RetriedBefore.IsZero()
}

func counterQuery(f entity.Filter, n names) (string, []any) {
	a := &arguments{first: 1}
	conditions := append(a.named(f, n), a.conditions(f)...)
	return `SELECT coalesce(sum(messages), 0)::bigint FROM (
		SELECT original_topic, nullif(dlq_topic_id, 0) AS dlq_topic_id, status, messages FROM dlq.message_counters
	) m WHERE ` + and(conditions...), a.values
}

// exactQuery counts along each walk by itself.
func exactQuery(f entity.Filter, n names, from source) (string, []any) {
	a := &arguments{first: 1, version: n.version}
	walks := a.walks(f, n)
	if len(walks) == 0 {
		return `SELECT 0::bigint`, nil
	}
	conditions := append(a.conditions(f), a.catalogued(f)...)
	for i, walk := range walks {
		walks[i] = []string{"(SELECT count(*) FROM " + from.table + " m WHERE " + and(append(walk, conditions...)...) + ")"}
	}
	return "SELECT " + join(walks, " + "), a.values
}

func (s *Store) readNumber(ctx context.Context, n *int64, query string, args []any) error {
	return s.bounded(ctx, s.countPatience, func(tx *sqlx.Tx) error { return tx.GetContext(ctx, n, query, args...) })
}

// estimate is what the planner believes.
func (s *Store) estimate(ctx context.Context, f entity.Filter, n names, from source) (int64, error) {
	a := &arguments{first: 1, version: n.version}
	conditions := append(append(a.named(f, n), a.conditions(f)...), a.catalogued(f)...)
	var text []byte
	err := s.bounded(ctx, s.countPatience, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &text, `EXPLAIN (FORMAT JSON) SELECT FROM `+from.table+` m WHERE `+and(conditions...), a.values...)
	})
	if err != nil {
		return 0, err
	}
	var plans []struct {
		Plan struct {
			Rows float64 `json:"Plan Rows"`
		}
	}
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) != 1 {
		return 0, fmt.Errorf("%d plans: %w", len(plans), err)
	}
	return int64(plans[0].Plan.Rows), nil
}
