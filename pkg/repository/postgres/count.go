package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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
	if n.visible != nil {
		return s.countVisible(ctx, q.Filter, n, from)
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

// countStep is how many messages are counted at once.
const countStep = 1000

// countVisible counts up to repository.CountLimit messages. When that takes too long
// it answers with what was counted by then.
func (s *Store) countVisible(ctx context.Context, f entity.Filter, n names, from source) (repository.MatchCount, error) {
	query, args := visibleQuery(f, n, from)
	var counted int64
	deadline := time.Now().Add(s.countPatience)
	err := s.bounded(ctx, s.countPatience, func(tx *sqlx.Tx) error {
		counted = 0
		if _, err := tx.ExecContext(ctx, "DECLARE counted NO SCROLL CURSOR FOR "+query, args...); err != nil {
			return err
		}
		for counted <= repository.CountLimit {
			if time.Now().After(deadline) {
				return &repository.TooBroadError{}
			}
			moved, err := tx.ExecContext(ctx, fmt.Sprintf("MOVE %d FROM counted", countStep))
			if err != nil {
				return err
			}
			step, err := moved.RowsAffected()
			counted += step
			if err != nil || step < countStep {
				return err
			}
		}
		return nil
	}, walkedByIndex)
	var slow *repository.TooBroadError
	if errors.As(err, &slow) {
		return repository.MatchCount{Messages: min(counted, repository.CountLimit), AtLeast: true}, nil
	}
	return repository.LimitedCount(counted), err
}

// walkedByIndex makes the planner use an index, in order, wherever there is one.
const walkedByIndex = `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off`

// visibleQuery reads the visible messages, and nothing else, before it asks anything
// of them: the planner moves no condition past OFFSET 0. The times are compared
// together with the topic, which only the index of topics can do: with the index of
// times the messages of all topics would be read.
func visibleQuery(f entity.Filter, n names, from source) (string, []any) {
	a := &arguments{first: 1, version: n.version}
	seen := []string{"m.original_topic = seen.name"}
	for _, t := range []struct {
		sign string
		at   time.Time
	}{{">=", f.CreatedAfter}, {"<", f.CreatedBefore}} {
		if !t.at.IsZero() {
			seen = append(seen, "(m.original_topic, m.created_at) "+t.sign+" (seen.name, "+a.arg(entity.Moment(t.at))+"::timestamptz)")
		}
	}
	visible := "SELECT m.* FROM unnest(" + a.texts(n.visibleOriginals(f)) + ") AS seen (name) CROSS JOIN LATERAL (" +
		"SELECT m.* FROM " + from.table + " m WHERE " + and(seen...) + " OFFSET 0) m"
	if n.seesUnnamed() {
		visible += "\n\tUNION ALL\n\tSELECT m.* FROM (SELECT m.* FROM " + from.table + " m WHERE m.original_topic = '' AND " +
			and(a.seen(n)...) + " OFFSET 0) m"
	}
	words := leaveOut
	if f.Catalogued() {
		words = lookUp
	}
	conditions := append(append(a.named(f, n), a.conditions(f)...), a.words(f, words)...)
	return "SELECT FROM (" + visible + ") m WHERE " + and(conditions...) + " LIMIT " + number(repository.CountLimit+1), a.values
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

// estimate is what the planner believes. It is made of statistics of all messages:
// a caller who may not see all of them could read others' values from it.
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
