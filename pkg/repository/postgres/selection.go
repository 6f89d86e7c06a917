package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// selection is the text and the arguments of a query that finds the messages of a
// redrive: id, created_at, original_topic, confidence, and as reason why the
// action cannot take the message now, NULL where it can. Its text depends on what
// is asked for, and it is never prepared: PostgreSQL plans it for the very topic
// and times, for one topic may be a millionth of the table and the next one all
// of it.
type selection struct {
	query string
	order string // how its rows are to be sorted
	args  []any
	first int           // number of the first argument's parameter
	topic sql.NullInt32 // number of the topic as a dead-letter topic, if it is one
}

// newSelection returns the selection of r with parameters from number first on.
// What nothing narrows is entity.ErrInvalid. The number of a topic is asked for
// before, since it never changes and the planner has to know it: with one that it
// does not know it takes every topic for as common as the others.
func (s *Store) newSelection(ctx context.Context, r repository.NewRedrive, first int) (*selection, error) {
	takes, err := taken(r)
	if err != nil {
		return nil, err
	}
	if r.Selection.Empty() {
		return nil, fmt.Errorf("a selection that nothing narrows: %w", entity.ErrInvalid)
	}
	q := &selection{first: first}
	if name := r.Selection.Topic; name != "" && name == clean(name) {
		var numbers []sql.NullInt32
		if err := s.selectRows(ctx, &numbers, `SELECT id FROM dlq.topics WHERE name = $1`, name); err != nil {
			return nil, err
		}
		if len(numbers) > 0 {
			q.topic = numbers[0]
		}
	}
	if len(r.Selection.IDs) > 0 {
		q.byID(r.Selection, takes)
	} else {
		q.byFilter(r, takes)
	}
	return q, nil
}

// taken is the condition under which the action of r takes a message m.
func taken(r repository.NewRedrive) (string, error) {
	switch r.Action {
	case entity.RedriveRetry:
		if r.Options.Requeue {
			return "(m.status = 'PENDING' AND m.retry_count < m.max_retries OR m.status = 'DEAD')", nil
		}
		return "(m.status = 'PENDING' AND m.retry_count < m.max_retries)", nil
	case entity.RedriveRequeue:
		return "(m.status = 'DEAD')", nil
	case entity.RedriveDead:
		return "(m.status = 'PENDING' OR m.status = 'RETRYING' AND m.unsettled)", nil
	case entity.RedriveDelete:
		return "(m.status <> 'RETRYING')", nil
	}
	return "", fmt.Errorf("action %q: %w", r.Action, entity.ErrInvalid)
}

// worked are the states of messages that the action can act upon, and RETRYING,
// whose messages are told of in any case.
func worked(r repository.NewRedrive) []entity.Status {
	switch r.Action {
	case entity.RedriveRequeue:
		return []entity.Status{entity.Retrying, entity.Dead}
	case entity.RedriveDelete:
		return entity.Statuses()
	case entity.RedriveRetry:
		if r.Options.Requeue {
			return []entity.Status{entity.Pending, entity.Retrying, entity.Dead}
		}
	case entity.RedriveDead:
	}
	return []entity.Status{entity.Pending, entity.Retrying}
}

const selectedColumns = `m.id, m.created_at, m.original_topic,
	coalesce(m.origin_confidence, CASE WHEN m.original_topic = '' THEN 'none' ELSE 'mapping' END) AS confidence,
	CASE WHEN %s THEN NULL WHEN m.status = 'RETRYING' THEN '` + repository.SkippedTaken + `'
	     ELSE '` + repository.SkippedNotRetryable + `' END AS reason`

// byFilter walks the messages of a topic by its two names, each along its index,
// or those of the states. Without a cut-off the statement's snapshot is it.
func (q *selection) byFilter(r repository.NewRedrive, takes string) {
	q.order = "created_at, id"
	conditions := q.conditions(r.Selection)
	if len(r.Selection.Statuses) == 0 {
		conditions = append(conditions, status(worked(r)), "("+takes+" OR m.status = 'RETRYING')")
	}
	columns := fmt.Sprintf(selectedColumns, takes)
	find := func(name ...string) string {
		return "SELECT " + columns + "\n\tFROM dlq.dlq_messages m WHERE " + strings.Join(append(name, conditions...), " AND ")
	}
	if r.Selection.Topic == "" {
		q.query = find()
		return
	}
	topic := q.text(r.Selection.Topic)
	q.query = find("m.original_topic = " + topic)
	if q.topic.Valid {
		q.query += "\n\tUNION ALL\n\t" + find("m.dlq_topic_id = "+q.arg(q.topic.Int32)+"::int", "m.original_topic <> "+topic)
	}
}

// byID finds messages by their primary key only. Ids that do not exist are told
// of, those that exist and do not match the rest are not meant.
func (q *selection) byID(s entity.Selection, takes string) {
	q.order = "ord"
	conditions := append(q.conditions(s), "true")
	if s.Topic != "" {
		conditions = append(conditions, "(m.original_topic = "+q.text(s.Topic)+" OR m.dlq_topic_id = "+q.arg(q.topic)+"::int)")
	}
	q.query = "SELECT w.ord, w.id, m.created_at, coalesce(m.original_topic, '') AS original_topic,\n" +
		"	CASE WHEN m.id IS NOT NULL THEN v.confidence ELSE '' END AS confidence,\n" +
		"	CASE WHEN m.id IS NULL THEN '" + repository.SkippedGone + "' ELSE v.reason END AS reason\n" +
		"	FROM unnest(" + q.arg(uuids(unique(s.IDs))) + "::uuid[]) WITH ORDINALITY AS w (id, ord)\n" +
		"	LEFT JOIN dlq.dlq_messages m ON m.id = w.id\n" +
		"	LEFT JOIN LATERAL (SELECT " + fmt.Sprintf(selectedColumns, takes) + ") v ON true\n" +
		"	WHERE m.id IS NULL OR (" + strings.Join(conditions, " AND ") + ")"
}

// conditions are those that hold for m under whichever name its topic is found.
func (q *selection) conditions(s entity.Selection) []string {
	var all []string
	if len(s.Statuses) > 0 {
		all = append(all, status(s.Statuses))
	}
	if s.ErrorClass != "" {
		all = append(all, "m.error_class = "+q.text(s.ErrorClass))
	}
	if s.ConsumerGroup != "" {
		all = append(all, "m.consumer_group = "+q.text(s.ConsumerGroup))
	}
	if !s.CreatedAfter.IsZero() {
		all = append(all, "m.created_at >= "+q.arg(entity.Moment(s.CreatedAfter))+"::timestamptz")
	}
	if !s.CreatedBefore.IsZero() {
		all = append(all, "m.created_at < "+q.arg(entity.Moment(s.CreatedBefore))+"::timestamptz")
	}
	return all
}

func (q *selection) arg(v any) string {
	q.args = append(q.args, v)
	return fmt.Sprintf("$%d", q.first+len(q.args)-1)
}

// text is an argument that nothing equals when no column can hold it.
func (q *selection) text(s string) string {
	if s != clean(s) {
		return "NULL::text"
	}
	return q.arg(s) + "::text"
}

// status is spelt out, for the planner knows how common each one is.
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

// unique returns the ids in their order, each once.
func unique(ids []uuid.UUID) []uuid.UUID {
	seen := make(map[uuid.UUID]bool, len(ids))
	once := make([]uuid.UUID, 0, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
}

// within puts the selection into a statement that does something with it.
func (q *selection) within(statement string) string {
	return strings.NewReplacer("%SELECTION%", q.query, "%ORDER%", q.order).Replace(statement)
}
