package redrives

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
)

// selection is the query for the messages of a redrive. It returns the columns id, created_at, original_topic,
// dlq_topic_id, confidence, and reason, which says why the action cannot be applied to the message; NULL when it can.
// The query is never prepared, so that PostgreSQL plans it for its topic and times.
type selection struct {
	search.Arguments
	query string
	first string // the column whose smallest value comes first
	order string // the SQL after ORDER BY that puts the rows of the query in the order in which the redrive processes the messages
}

// newSelection returns the selection of the redrive r. The parameter first is the number of the query's first
// parameter. When r selects all messages, without any condition, the error is of the kind entity.ErrInvalid.
func newSelection(ctx context.Context, scopes *search.Scopes, r repository.NewRedrive, first int) (*selection, error) {
	if r.Selection.Archived {
		return archivedSelection(r, first)
	}
	takes, err := taken(r)
	if err != nil {
		return nil, err
	}
	if r.Selection.Empty() {
		return nil, fmt.Errorf("selection without any condition: %w", entity.ErrInvalid)
	}
	n, err := scopes.Resolve(ctx, r.Selection.Filter, codec.SourceOf(false))
	if err != nil {
		return nil, err
	}
	q := &selection{Arguments: search.Arguments{First: first, Version: n.Version}}
	if len(r.Selection.IDs) > 0 {
		q.byID(r, n, takes)
	} else {
		q.byFilter(r, n, takes)
	}
	return q, nil
}

// archivedSelection returns the selection of a redrive of archived messages. The caller has found the messages. An id of
// the selection that is not among them counts as gone.
func archivedSelection(r repository.NewRedrive, first int) (*selection, error) {
	if r.Found == nil || r.Selection.Empty() || !slices.Contains(entity.ArchivedActions(), r.Action) {
		return nil, fmt.Errorf("action %q on archived messages: %w", r.Action, entity.ErrInvalid)
	}
	q := &selection{Arguments: search.Arguments{First: first}, order: "ord"}
	found := "unnest(" + q.Arg(codec.UUIDArray(*r.Found)) + "::uuid[])"
	from, reason := found+" WITH ORDINALITY AS w (id, ord)", "NULL::text"
	if len(r.Selection.IDs) > 0 {
		from = "unnest(" + q.Arg(codec.UUIDArray(codec.Unique(r.Selection.IDs))) + "::uuid[]) WITH ORDINALITY AS w (id, ord)\n" +
			"	LEFT JOIN " + found + " AS f (id) ON f.id = w.id"
		reason = "CASE WHEN f.id IS NULL THEN '" + repository.SkippedGone + "' END"
	}
	q.query = "SELECT w.ord, w.id, '' AS original_topic, NULL::int AS dlq_topic_id, '' AS confidence, " + reason + " AS reason\n	FROM " + from
	return q, nil
}

// taken returns the SQL condition that the action of the redrive r can be applied to the message m.
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
	case entity.RedriveMap:
		return "(m.status IN ('PENDING', 'DEAD') AND m.origin_confidence IS DISTINCT FROM 'header')", nil
	case entity.RedriveRestore: // only for archived messages
	}
	return "", fmt.Errorf("action %q: %w", r.Action, entity.ErrInvalid)
}

// worked returns the statuses of messages that the redrive r changes or reports. RETRYING is always one of them,
// because a redrive reports the RETRYING messages that it leaves out.
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
	case entity.RedriveMap:
		return []entity.Status{entity.Pending, entity.Retrying, entity.Dead}
	case entity.RedriveDead, entity.RedriveRestore:
	}
	return []entity.Status{entity.Pending, entity.Retrying}
}

const selectedColumns = `m.id, m.created_at, m.original_topic, m.dlq_topic_id,
	coalesce(m.origin_confidence, CASE WHEN m.original_topic = '' THEN 'none' ELSE 'mapping' END) AS confidence,
	CASE WHEN %s THEN %s WHEN m.status = 'RETRYING' THEN '` + repository.SkippedTaken + `'
	     WHEN m.status IN (%s) THEN '` + repository.SkippedOriginKnown + `'
	     ELSE '` + repository.SkippedNotRetryable + `' END AS reason`

// repeatReason is the reason why a redrive does not send a message that it could send: NULL, or that the message is a
// repeat. PostgreSQL reads the repeats once, because they are few.
const repeatReason = `CASE WHEN m.id IN (SELECT message_id FROM dlq.repeats WHERE repeat_of IS NOT NULL) THEN '` + entity.ReasonRepeat + `' END`

// columns returns the columns of a selection. The parameter takes is the SQL condition that the action can be applied
// to a message. With the action RedriveMap, a message with a suitable status for which the condition is false gets the
// reason that a header of its record names the original topic.
func columns(action entity.RedriveAction, takes string) string {
	known, reason := "''", "NULL"
	switch action {
	case entity.RedriveMap:
		known = "'PENDING', 'DEAD'"
	case entity.RedriveRetry:
		reason = repeatReason
	case entity.RedriveRequeue, entity.RedriveDead, entity.RedriveDelete, entity.RedriveRestore:
	}
	return fmt.Sprintf(selectedColumns, takes, reason, known)
}

// byFilter makes q select messages by the filter: it walks the indexes of the filter's topics or, without topics, of
// statuses. When the filter has no cut-off time, the snapshot of the statement decides which messages are selected.
func (q *selection) byFilter(r repository.NewRedrive, n search.Scope, takes string) {
	q.first, q.order = "created_at", "created_at, id"
	f := r.Selection.Filter
	walks := q.Walks(f, n)
	if len(walks) == 0 {
		q.Values, walks = nil, [][]string{{"false"}}
	}
	conditions := append(q.Conditions(f), q.indexed(r, q.Indexed)...)
	if len(f.Statuses) == 0 {
		conditions = append(conditions, search.Status(worked(r)))
		if r.Action != entity.RedriveMap { // RedriveMap also reports messages whose original topic a header names
			conditions = append(conditions, "("+takes+" OR m.status = 'RETRYING')")
		}
	}
	for i, walk := range walks {
		walks[i] = []string{"SELECT " + columns(r.Action, takes) + "\n\tFROM dlq.dlq_messages m WHERE " + search.And(append(walk, conditions...)...)}
	}
	q.query = search.Join(walks, "\n\tUNION ALL\n\t")
}

// indexed returns the SQL condition that the message m meets the filter's conditions on documents of the search index.
// When a search engine has found the messages already, the condition lists their ids. Otherwise the function ask
// returns the condition.
func (q *selection) indexed(r repository.NewRedrive, ask func(entity.Filter) []string) []string {
	switch {
	case !r.Selection.NeedsSearchIndex():
		return nil
	case r.Found != nil:
		return []string{"m.id = ANY (" + q.Arg(codec.UUIDArray(*r.Found)) + "::uuid[])"}
	}
	return ask(r.Selection.Filter)
}

// byID makes q select messages by their ids. An id counts as gone when its message does not exist or the caller may not
// see it. A message that does not match the filter is left out.
func (q *selection) byID(r repository.NewRedrive, n search.Scope, takes string) {
	s := r.Selection
	q.first, q.order = "ord", "ord"
	sight := "m.id = w.id"
	for _, seen := range q.Seen(n) {
		sight += " AND (" + seen + ") IS TRUE" // IS TRUE keeps PostgreSQL from using an index for it
	}
	n.Visible = nil
	conditions := q.Conditions(s.Filter)
	conditions = append(conditions, q.Named(s.Filter, n)...)
	conditions = append(conditions, q.indexed(r, func(f entity.Filter) []string { return []string{q.DocumentMatches(f)} })...)
	q.query = "SELECT w.ord, w.id, m.created_at, coalesce(m.original_topic, '') AS original_topic, m.dlq_topic_id,\n" +
		"	CASE WHEN m.id IS NOT NULL THEN v.confidence ELSE '' END AS confidence,\n" +
		"	CASE WHEN m.id IS NULL THEN '" + repository.SkippedGone + "' ELSE v.reason END AS reason\n" +
		"	FROM unnest(" + q.Arg(codec.UUIDArray(codec.Unique(s.IDs))) + "::uuid[]) WITH ORDINALITY AS w (id, ord)\n" +
		"	LEFT JOIN dlq.dlq_messages m ON " + sight + "\n" +
		"	LEFT JOIN LATERAL (SELECT " + columns(r.Action, takes) + ") v ON true\n" +
		"	WHERE m.id IS NULL OR (" + search.And(conditions...) + ")"
}

// Within returns a statement with the query of the selection in place of %SELECTION% and its order in place of %ORDER%.
func (q *selection) Within(statement string) string {
	return strings.NewReplacer("%SELECTION%", q.query, "%ORDER%", q.order).Replace(statement)
}

// keyOrder is the query of a selection in which messages with the same key keep their order; %s is the query of the
// selection. place numbers the messages in the order of their dead letters' timestamps. turn is the place after which
// all messages of the lane with lower original offsets have had theirs: comparing some messages by their offsets and
// others by their timestamps would not be an order, because a message could then come both before and after another.
//
// lane is the same for messages with the same key that failed in the same partition; a message of which the offset or
// the key is not known has a lane of its own. The statement reads the keys of all selected messages; PostgreSQL sorts on
// disk what does not fit into its memory.
const keyOrder = `
	WITH chosen AS (
	%s
	), laned AS (
		SELECT c.id, c.reason, c.original_topic, m.original_offset,
			row_number() OVER (ORDER BY coalesce(m.dlq_timestamp, m.created_at), m.dlq_partition, m.dlq_offset, c.id) AS place,
			CASE WHEN c.reason IS NULL AND m.original_topic <> '' AND m.original_partition >= 0 AND m.original_offset >= 0 AND octet_length(m.key) > 0
			     THEN md5(convert_to(m.original_topic || '/' || m.original_partition || '/', 'UTF8') || m.key)::uuid ELSE c.id END AS lane
		FROM chosen c LEFT JOIN dlq.messages m ON m.id = c.id
	)
	SELECT id, reason, original_topic, original_offset, place,
		max(place) OVER (PARTITION BY lane ORDER BY original_offset, place ROWS UNBOUNDED PRECEDING) AS turn
	FROM laned`

// inKeyOrder makes the messages of q with the same key keep their order.
func (q *selection) inKeyOrder() {
	q.query, q.first, q.order = fmt.Sprintf(keyOrder, q.query), "turn", "turn, original_offset, place"
}
