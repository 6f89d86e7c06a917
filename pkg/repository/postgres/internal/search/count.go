package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// CountMatching implements repository.Searcher. When the counters contain the number of matching messages, the answer
// is exact, whatever q.How says.
func (s *Searcher) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	count, err := s.countMatching(ctx, q)
	return count, conn.Translate("count messages", err)
}

func (s *Searcher) countMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	from := codec.SourceOf(q.Archived)
	n, err := s.scopes.Resolve(ctx, q.Filter, from)
	if err != nil {
		return repository.MatchCount{}, err
	}
	var count repository.MatchCount
	if !q.Archived && counted(q.Filter) {
		count.Exact = true
		query, args := counterQuery(q.Filter, n)
		return count, s.readNumber(ctx, &count.Messages, query, args)
	}
	if n.Visible != nil {
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

// countStep is the number of messages by which one statement moves the cursor. The moved messages are counted.
const countStep = 1000

// countVisible counts the messages that the caller may see, up to repository.CountLimit. When its time limit has
// passed, it returns the number that it has counted until then.
func (s *Searcher) countVisible(ctx context.Context, f entity.Filter, n Scope, from codec.Source) (repository.MatchCount, error) {
	query, args := visibleQuery(f, n, from)
	var counted int64
	deadline := time.Now().Add(s.CountTimeout)
	err := Bounded(ctx, s.db, s.CountTimeout, func(tx *sqlx.Tx) error {
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

// walkedByIndex makes the planner read an index in order wherever it can.
const walkedByIndex = `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off`

// visibleQuery selects the messages that the caller may see before it checks any other condition: PostgreSQL moves no
// condition into a subquery with OFFSET 0. The conditions on the time are written as comparisons of (topic, time),
// which only the index of topics supports, so that PostgreSQL uses that index.
func visibleQuery(f entity.Filter, n Scope, from codec.Source) (string, []any) {
	a := &Arguments{First: 1, Version: n.Version}
	seen := []string{"m.original_topic = seen.name"}
	for _, t := range []struct {
		sign string
		at   time.Time
	}{{">=", f.CreatedAfter}, {"<", f.CreatedBefore}} {
		if !t.at.IsZero() {
			seen = append(seen, "(m.original_topic, m.created_at) "+t.sign+" (seen.name, "+a.Arg(entity.TruncateTime(t.at))+"::timestamptz)")
		}
	}
	visible := "SELECT m.* FROM unnest(" + a.texts(n.visibleOriginals(f)) + ") AS seen (name) CROSS JOIN LATERAL (" +
		"SELECT m.* FROM " + from.Table + " m WHERE " + And(seen...) + " OFFSET 0) m"
	if n.seesUnnamed() {
		visible += "\n\tUNION ALL\n\tSELECT m.* FROM (SELECT m.* FROM " + from.Table + " m WHERE m.original_topic = '' AND " +
			And(a.Seen(n)...) + " OFFSET 0) m"
	}
	words := LeaveOut
	if f.NeedsSearchIndex() {
		words = testEach
	}
	conditions := append(append(a.Named(f, n), a.Conditions(f)...), a.words(f, words)...)
	return "SELECT FROM (" + visible + ") m WHERE " + And(conditions...) + " LIMIT " + codec.Bigint(repository.CountLimit+1), a.Values
}

// counted reports whether the counters contain the number of messages that match the filter.
func counted(f entity.Filter) bool {
	f.Topic, f.Topics, f.Statuses, f.UnknownOrigin, f.Visible = "", entity.TopicPatterns{}, nil, false, nil
	return !f.Narrow() && f.CreatedAfter.IsZero() && f.CreatedBefore.IsZero() && f.RetriedAfter.IsZero() && f.RetriedBefore.IsZero()
}

func counterQuery(f entity.Filter, n Scope) (string, []any) {
	a := &Arguments{First: 1}
	conditions := append(a.Named(f, n), a.Conditions(f)...)
	return `SELECT coalesce(sum(messages), 0)::bigint FROM (
		SELECT original_topic, nullif(dlq_topic_id, 0) AS dlq_topic_id, status, messages FROM dlq.message_counters
	) m WHERE ` + And(conditions...), a.Values
}

// exactQuery returns the query that counts the messages of each walk (see Walks) separately, and adds up these numbers.
func exactQuery(f entity.Filter, n Scope, from codec.Source) (string, []any) {
	a := &Arguments{First: 1, Version: n.Version}
	walks := a.Walks(f, n)
	if len(walks) == 0 {
		return `SELECT 0::bigint`, nil
	}
	conditions := append(a.Conditions(f), a.Indexed(f)...)
	for i, walk := range walks {
		walks[i] = []string{"(SELECT count(*) FROM " + from.Table + " m WHERE " + And(append(walk, conditions...)...) + ")"}
	}
	return "SELECT " + Join(walks, " + "), a.Values
}

func (s *Searcher) readNumber(ctx context.Context, n *int64, query string, args []any) error {
	return Bounded(ctx, s.db, s.CountTimeout, func(tx *sqlx.Tx) error { return tx.GetContext(ctx, n, query, args...) })
}

// estimate returns the planner's estimate of the number of messages. It must not be shown to callers who may see only
// some topics: it is made from statistics of all messages and could reveal values of messages in other topics.
func (s *Searcher) estimate(ctx context.Context, f entity.Filter, n Scope, from codec.Source) (int64, error) {
	a := &Arguments{First: 1, Version: n.Version}
	conditions := append(append(a.Named(f, n), a.Conditions(f)...), a.Indexed(f)...)
	var text []byte
	err := Bounded(ctx, s.db, s.CountTimeout, func(tx *sqlx.Tx) error {
		return tx.GetContext(ctx, &text, `EXPLAIN (FORMAT JSON) SELECT FROM `+from.Table+` m WHERE `+And(conditions...), a.Values...)
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
