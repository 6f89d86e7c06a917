package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// arguments are those of a query whose text depends on the filter. It is planned for its arguments: one topic may
// have a millionth of the table and the next all of it.
type arguments struct {
	first   int // number of the parameter of the first argument
	values  []any
	version *int64 // of documents, in addition to that of the search index; nil: any
}

func (a *arguments) arg(v any) string {
	a.values = append(a.values, v)
	return fmt.Sprintf("$%d", a.first+len(a.values)-1)
}

// text returns s as an argument; if no column can hold s, an argument that equals nothing.
func (a *arguments) text(s string) string {
	if s != clean(s) {
		return "NULL::text"
	}
	return a.arg(s) + "::text"
}

func (a *arguments) texts(list []string) string {
	c := newColumn(oidText, len(list), 16)
	for _, s := range list {
		c.text(s)
	}
	return a.arg(c.arg()) + "::text[]"
}

func (a *arguments) numbers(list []int32) string {
	c := newColumn(oidInt4, len(list), 4)
	for _, n := range list {
		c.int32(n)
	}
	return a.arg(c.arg()) + "::int[]"
}

func (a *arguments) terms(list []int64) string {
	c := newColumn(oidInt8, len(list), 8)
	for _, n := range list {
		c.int64(n)
	}
	return a.arg(c.arg()) + "::bigint[]"
}

// conditions are those of a filter on message m, without those on its topics and on the search index.
func (a *arguments) conditions(f entity.Filter) []string {
	var all []string
	add := func(asked bool, condition func() string) {
		if asked {
			all = append(all, condition())
		}
	}
	add(len(f.Statuses) > 0, func() string { return status(f.Statuses) })
	add(f.ErrorClass != "", func() string { return "m.error_class = " + a.text(f.ErrorClass) })
	add(f.ConsumerGroup != "", func() string { return "m.consumer_group = " + a.text(f.ConsumerGroup) })
	add(f.Dialect != "", func() string { return "m.dialect = " + a.text(f.Dialect) })
	add(f.Group != uuid.Nil, func() string { return "m.group_id = " + a.arg(f.Group) + "::uuid" })
	times := []struct {
		column, sign string
		at           any
		asked        bool
	}{
		{"created_at", ">=", entity.Moment(f.CreatedAfter), !f.CreatedAfter.IsZero()},
		{"created_at", "<", entity.Moment(f.CreatedBefore), !f.CreatedBefore.IsZero()},
		{"last_retry_at", ">=", entity.Moment(f.RetriedAfter), !f.RetriedAfter.IsZero()},
		{"last_retry_at", "<", entity.Moment(f.RetriedBefore), !f.RetriedBefore.IsZero()},
	}
	for _, t := range times {
		add(t.asked, func() string { return "m." + t.column + " " + t.sign + " " + a.arg(t.at) + "::timestamptz" })
	}
	return all
}

// status writes the states into the text, because the planner knows how common each one is.
func status(wanted []entity.Status) string {
	var known []string
	for _, s := range entity.Statuses() {
		if slices.Contains(wanted, s) {
			known = append(known, "'"+string(s)+"'")
		}
	}
	if len(known) == 0 {
		return "false"
	}
	return "m.status IN (" + strings.Join(known, ", ") + ")"
}

// documented are a filter's conditions on d, the message's document.
func (a *arguments) documented(f entity.Filter) string {
	if slices.ContainsFunc(f.Words, func(word string) bool { return word != clean(word) }) {
		return "false"
	}
	all := []string{"d.version = (SELECT version FROM dlq.search_index)"}
	if a.version != nil {
		all = append(all, "d.version = "+a.arg(*a.version)+"::bigint")
	}
	var every []int64
	for _, any := range f.Terms() {
		if len(any) == 1 {
			every = append(every, any[0])
			continue
		}
		all = append(all, "d.terms && "+a.terms(any))
	}
	if len(every) > 0 {
		all = append(all, "d.terms @> "+a.terms(every))
	}
	for _, word := range f.Words {
		all = append(all, "d.text LIKE "+a.arg("%"+literally.Replace(word)+"%")+"::text")
	}
	return strings.Join(all, " AND ")
}

// literally escapes the wildcards of LIKE.
var literally = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// documentOfM is the condition that d is the document of m.
const documentOfM = "d.message_id = m.id AND d.created_at = m.created_at"

// inPartitions are conditions on d that exclude the partitions in which a filter can have no document: all other
// partitions are locked, and read or searched.
func (a *arguments) inPartitions(f entity.Filter) string {
	var all []string
	if !f.CreatedAfter.IsZero() {
		all = append(all, "d.created_at >= "+a.arg(entity.Moment(f.CreatedAfter))+"::timestamptz")
	}
	if !f.CreatedBefore.IsZero() {
		all = append(all, "d.created_at < "+a.arg(entity.Moment(f.CreatedBefore))+"::timestamptz")
	}
	return and(all...)
}

// catalogued is the condition that m has a matching document; the planner decides where to begin.
func (a *arguments) catalogued(f entity.Filter) []string {
	if !f.Catalogued() {
		return nil
	}
	return []string{"EXISTS (SELECT FROM dlq.message_documents d WHERE " + and(documentOfM, a.inPartitions(f), a.documented(f)) + ")"}
}

// lookedUp is the same condition, tested for one message after the other: the planner cannot reverse it.
func (a *arguments) lookedUp(f entity.Filter) string {
	return "(SELECT " + a.documented(f) + " FROM dlq.message_documents d WHERE " + and(documentOfM, a.inPartitions(f)) + ")"
}

// found is the same condition for words that few messages have: the documents are found first, and their messages by
// the primary key.
func (a *arguments) found(f entity.Filter) string {
	return "m.id = ANY (ARRAY(SELECT d.message_id FROM dlq.message_documents d WHERE " + and(a.inPartitions(f), a.documented(f)) + "))"
}

// and joins conditions; without any the result is always true.
func and(conditions ...string) string {
	if len(conditions) == 0 {
		return "true"
	}
	return strings.Join(conditions, " AND ")
}

// CountMatching implements repository.Searcher. Numbers that the counters have are exact with every Counting.
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

// countVisible counts up to repository.CountLimit messages. When that takes too long it returns the number counted by
// then.
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

// walkedByIndex makes the planner use an index, in order, wherever possible.
const walkedByIndex = `SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off`

// visibleQuery reads the visible messages before it checks anything else: the planner moves no condition past OFFSET
// 0. Times are compared together with the topic, which only the index of topics supports.
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

// counted reports whether the counters can answer a filter.
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

// exactQuery counts each walk separately.
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

// estimate is the planner's estimate. It comes from statistics of all messages: a caller who may not see all of them
// could infer others' values from it.
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
