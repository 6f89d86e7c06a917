package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// itemsOfBatch are the messages of b, a row of dlq.redrive_batches, with their outcomes. The committed offsets are
// read once for each of the batch's few partitions. A message without a consumer group uses the groups that are
// configured for its topic, and of them the one that has read furthest.
const itemsOfBatch = `
	SELECT b.first_item + o.i::int - 1 AS number, o.id AS message_id, coalesce(o.result, 0) AS result, coalesce(o.reason, '') AS reason,
	       coalesce(p.topic, '') AS topic, coalesce(p.topic_id, '') AS topic_id, coalesce(p.partition, 0) AS partition,
	       coalesce(p.consumer_group, '') AS consumer_group, coalesce(o.log_offset, -1) AS log_offset,
	       CASE WHEN EXISTS (SELECT FROM dlq.returns t WHERE t.redrive_id = $1 AND t.parent_id = o.id) THEN 'returned'
	            WHEN o.result = 1 AND p.committed > o.log_offset THEN 'consumed'
	            WHEN o.result = 1 AND o.target IS NOT NULL THEN 'published' ELSE '' END AS outcome
	FROM unnest(b.message_ids, b.results, b.reasons, b.target, b.offsets) WITH ORDINALITY
		AS o (id, result, reason, target, log_offset, i)
	LEFT JOIN (
		SELECT x.no - 1 AS no, x.topic, x.topic_id, x.partition, g.consumer_group, g.committed
		FROM ROWS FROM (jsonb_to_recordset(b.targets) AS (topic text, topic_id text, partition int, consumer_group text))
			WITH ORDINALITY AS x (topic, topic_id, partition, consumer_group, no)
		LEFT JOIN LATERAL (
			SELECT g.consumer_group, c.committed
			FROM (
				SELECT x.consumer_group WHERE x.consumer_group <> ''
				UNION ALL
				SELECT t.consumer_group FROM dlq.topic_groups t
				WHERE x.consumer_group = '' AND t.topic = x.topic AND t.configured
			) g
			LEFT JOIN dlq.committed_offsets c ON c.consumer_group = g.consumer_group
				AND c.topic = x.topic AND c.topic_id = x.topic_id AND c.partition = x.partition
			ORDER BY c.committed DESC NULLS LAST, g.consumer_group LIMIT 1
		) g ON true
		OFFSET 0
	) p ON p.no = o.target`

// redriveItemsQuery expands only those batches that the page is in, and with a filter only those that have such
// results or returns.
const redriveItemsQuery = `
	SELECT i.* FROM (
		SELECT * FROM dlq.redrive_batches
		WHERE redrive_id = $1
		  AND batch_no >= (SELECT coalesce(max(batch_no), 0) FROM dlq.redrive_batches WHERE redrive_id = $1 AND first_item <= $2)
		  AND (cardinality($4::int4[]) = 0
		       OR NOT done AND 0 = ANY ($4) OR succeeded > 0 AND 1 = ANY ($4) OR failed > dead AND 2 = ANY ($4)
		       OR dead > 0 AND 3 = ANY ($4) OR in_doubt > 0 AND 4 = ANY ($4) OR skipped > 0 AND 5 = ANY ($4))
		  AND CASE $5 WHEN '' THEN true
		              WHEN 'returned' THEN message_ids && ARRAY(SELECT parent_id FROM dlq.returns WHERE redrive_id = $1)
		              ELSE succeeded > 0 END
		ORDER BY batch_no OFFSET 0
	) b
	CROSS JOIN LATERAL (` + itemsOfBatch + `) i
	WHERE i.number >= $2 AND (cardinality($4) = 0 OR i.result = ANY ($4)) AND ($5 = '' OR i.outcome = $5)
	ORDER BY b.batch_no, i.number LIMIT $3`

type itemRow struct {
	Number    int       `db:"number"`
	MessageID uuid.UUID `db:"message_id"`
	Result    int       `db:"result"`
	Reason    string    `db:"reason"`
	Topic     string    `db:"topic"`
	TopicID   string    `db:"topic_id"`
	Partition int32     `db:"partition"`
	Group     string    `db:"consumer_group"`
	Offset    int64     `db:"log_offset"`
	Outcome   string    `db:"outcome"`
}

// RedriveItems implements repository.Selections.
func (s *Store) RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error) {
	results := newColumn(oidInt4, len(q.Results), 4)
	for _, r := range q.Results {
		results.int32(resultNumber(r))
	}
	var found []itemRow
	if err := s.selectRows(ctx, &found, redriveItemsQuery, id, q.From, q.Limit, results.arg(), string(q.Outcome)); err != nil {
		return nil, translate("list messages of a redrive", err)
	}
	if len(found) == 0 {
		return nil, s.mustExist(ctx, "list messages of a redrive", id)
	}
	items := make([]entity.RedriveItem, len(found))
	for i, f := range found {
		items[i] = entity.RedriveItem{
			Number: f.Number, MessageID: f.MessageID, Result: itemResult(f.Result), Reason: f.Reason,
			Topic: f.Topic, TopicID: f.TopicID, Partition: f.Partition, Offset: f.Offset, Group: f.Group,
			Outcome: entity.Outcome(f.Outcome),
		}
	}
	return items, nil
}

// redriveOutcomesQuery counts the outcomes of itemsOfBatch. Returns are counted from their own table, whatever the
// item's result; only when there are returns are message ids read, to exclude these messages from the other counts. A
// full join is never a nested loop, which the planner would choose for few items.
const redriveOutcomesQuery = `
	WITH returned AS MATERIALIZED (
		SELECT DISTINCT parent_id FROM dlq.returns WHERE redrive_id = $1
	), batch AS (
		SELECT b.*, EXISTS (SELECT FROM returned) AS some_returned
		FROM dlq.redrive_batches b WHERE b.redrive_id = $1 AND (b.canary OR NOT $2)
	), sent AS (
		SELECT o.id, coalesce(p.committed[o.target + 1] > o.log_offset, false) AS consumed
		FROM batch b
		CROSS JOIN LATERAL (
			SELECT array_agg((
				SELECT max(c.committed) FROM dlq.committed_offsets c
				WHERE c.topic = x.topic AND c.topic_id = x.topic_id AND c.partition = x.partition
				  AND c.consumer_group = ANY (CASE WHEN x.consumer_group <> '' THEN ARRAY[x.consumer_group] ELSE ARRAY(
					SELECT t.consumer_group FROM dlq.topic_groups t WHERE t.topic = x.topic AND t.configured) END)
			) ORDER BY x.no) AS committed
			FROM ROWS FROM (jsonb_to_recordset(b.targets) AS (topic text, topic_id text, partition int, consumer_group text))
				WITH ORDINALITY AS x (topic, topic_id, partition, consumer_group, no)
		) p
		CROSS JOIN LATERAL unnest(CASE WHEN b.some_returned THEN b.message_ids END, b.results, b.target, b.offsets)
			AS o (id, result, target, log_offset)
		WHERE b.succeeded > 0 AND o.result = 1 AND o.target IS NOT NULL
	), counted AS (
		SELECT count(*) FILTER (WHERE r.parent_id IS NULL AND NOT consumed) AS published,
		       count(*) FILTER (WHERE r.parent_id IS NULL AND consumed) AS consumed
		FROM sent FULL JOIN returned r ON r.parent_id = sent.id
	)
	SELECT published, consumed, (
		SELECT count(*) FROM returned WHERE NOT $2 OR parent_id IN (SELECT unnest(message_ids) FROM batch)
	) AS returned
	FROM counted`

// RedriveOutcomes implements repository.Selections.
func (s *Store) RedriveOutcomes(ctx context.Context, id uuid.UUID, canary bool) (entity.OutcomeCounts, error) {
	var found []struct {
		Published int `db:"published"`
		Consumed  int `db:"consumed"`
		Returned  int `db:"returned"`
	}
	if err := s.selectRows(ctx, &found, redriveOutcomesQuery, id, canary); err != nil {
		return entity.OutcomeCounts{}, translate("count outcomes", err)
	}
	counts := entity.OutcomeCounts(found[0])
	if counts == (entity.OutcomeCounts{}) {
		return counts, s.mustExist(ctx, "count outcomes", id)
	}
	return counts, nil
}

// attemptsOfQuery finds the last attempt of a redrive on each message: the present claim, if it is the redrive's,
// else the last in the history.
const attemptsOfQuery = `
	WITH made AS (
		SELECT ` + attemptColumns + `
		FROM dlq.attempts a WHERE a.message_id = ANY ($2::uuid[]) AND a.redrive_id = $1
		UNION ALL
		SELECT m.id, m.attempt_no, m.claim_id, m.claim_redrive_id, m.retry_count, 'in_doubt', '', m.last_retry_at, NULL,
			'RETRYING', 'RETRYING', coalesce(m.last_publish_error_class, ''), coalesce(m.last_publish_error, ''),
			coalesce(m.claim_topic, m.original_topic), coalesce(m.claim_topic_id, ''), coalesce(m.claim_partition, 0), -1
		FROM dlq.dlq_messages m
		WHERE m.id = ANY ($2) AND m.claim_redrive_id = $1 AND (m.status = 'RETRYING') IS NOT FALSE
	)
	SELECT a.*, coalesce((SELECT m.consumer_group FROM dlq.dlq_messages m WHERE m.id = a.message_id), '') AS consumer_group
	FROM (SELECT DISTINCT ON (message_id) * FROM made ORDER BY message_id, attempt_no DESC) a ORDER BY a.message_id`

// AttemptsOf implements repository.Attempts, in order of the messages' ids. The actor of an attempt that is still
// claimed is not known.
func (s *Store) AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error) {
	if len(ids) == 0 || redrive == uuid.Nil {
		return nil, nil
	}
	var found []attemptRow
	if err := s.selectRows(ctx, &found, attemptsOfQuery, redrive, uuids(ids)); err != nil {
		return nil, translate("find attempts of a redrive", err)
	}
	attempts := make([]entity.Attempt, len(found))
	for i := range found {
		attempts[i] = found[i].attempt()
	}
	return attempts, nil
}

// selectionJSON is a stored selection. The ids are in the batches and only counted here. A field for which empty
// differs from unset (a key, a header's value, patterns) is a pointer.
type selectionJSON struct {
	IDs           int             `json:"ids,omitempty"`
	Topic         string          `json:"topic,omitempty"`
	Topics        []string        `json:"topics,omitempty"`
	Statuses      []entity.Status `json:"statuses,omitempty"`
	ErrorClass    string          `json:"error_class,omitempty"`
	ConsumerGroup string          `json:"consumer_group,omitempty"`
	Dialect       string          `json:"dialect,omitempty"`
	Group         uuid.UUID       `json:"group_id,omitzero"`
	UnknownOrigin bool            `json:"unknown_origin,omitempty"`
	CreatedAfter  time.Time       `json:"created_after,omitzero"`
	CreatedBefore time.Time       `json:"created_before,omitzero"`
	RetriedAfter  time.Time       `json:"retried_after,omitzero"`
	RetriedBefore time.Time       `json:"retried_before,omitzero"`
	Key           *[]byte         `json:"key,omitempty"`
	Headers       []headerJSON    `json:"headers,omitempty"`
	Fields        []fieldJSON     `json:"fields,omitempty"`
	Words         []string        `json:"words,omitempty"`
	Visible       *[]string       `json:"visible,omitempty"`
	VisibleAlso   [][]string      `json:"visible_also,omitempty"` // the message must be visible for each of these too
}

type headerJSON struct {
	Name  string  `json:"name"`
	Value *[]byte `json:"value,omitempty"`
}

type fieldJSON struct {
	Path   string   `json:"path"`
	Values []string `json:"values,omitempty"`
}

// optionsJSON are the stored options; durations are nanoseconds.
type optionsJSON struct {
	Canary          int           `json:"canary,omitempty"`
	CanaryWait      time.Duration `json:"canary_wait,omitempty"`
	Rate            float64       `json:"rate,omitempty"`
	MaxFailureShare float64       `json:"max_failure_share,omitempty"`
	MaxReturnShare  float64       `json:"max_return_share,omitempty"`
	MinSample       int           `json:"min_sample,omitempty"`
	KeepKeyOrder    bool          `json:"keep_key_order,omitempty"`
	Requeue         bool          `json:"requeue,omitempty"`
	OriginalTopic   string        `json:"original_topic,omitempty"`
	Patch           []byte        `json:"patch,omitempty"`
}

// targetJSON is a partition to which records of a batch were sent, and the consumer group that reads it.
type targetJSON struct {
	Topic     string `json:"topic"`
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
	Group     string `json:"consumer_group"`
}

func packSelection(s entity.Selection) (string, error) {
	packed := selectionJSON{
		IDs: len(s.IDs), Topic: clean(s.Topic), Topics: cleanAll(s.Topics.Texts()), Statuses: s.Statuses,
		ErrorClass: clean(s.ErrorClass), ConsumerGroup: clean(s.ConsumerGroup), Dialect: clean(s.Dialect),
		Group: s.Group, UnknownOrigin: s.UnknownOrigin,
		CreatedAfter: entity.Moment(s.CreatedAfter), CreatedBefore: entity.Moment(s.CreatedBefore),
		RetriedAfter: entity.Moment(s.RetriedAfter), RetriedBefore: entity.Moment(s.RetriedBefore),
		Key: optionalBytes(s.Key), Words: cleanAll(s.Words),
	}
	for _, h := range s.Headers {
		packed.Headers = append(packed.Headers, headerJSON{Name: clean(h.Name), Value: optionalBytes(h.Value)})
	}
	for _, f := range s.Fields {
		packed.Fields = append(packed.Fields, fieldJSON{Path: clean(f.Path), Values: cleanAll(f.Values)})
	}
	if s.Visible != nil {
		parts := s.Visible.Parts()
		texts := cleanAll(parts[0].Texts())
		packed.Visible = &texts
		for _, part := range parts[1:] {
			packed.VisibleAlso = append(packed.VisibleAlso, cleanAll(part.Texts()))
		}
	}
	return pack(packed)
}

func unpackSelection(text []byte) (entity.Selection, error) {
	var s selectionJSON
	if err := json.Unmarshal(text, &s); err != nil {
		return entity.Selection{}, fmt.Errorf("selection: %w", err)
	}
	f := entity.Filter{
		Topic: s.Topic, Statuses: s.Statuses, ErrorClass: s.ErrorClass, ConsumerGroup: s.ConsumerGroup, Dialect: s.Dialect,
		Group: s.Group, UnknownOrigin: s.UnknownOrigin,
		CreatedAfter: entity.Moment(s.CreatedAfter), CreatedBefore: entity.Moment(s.CreatedBefore),
		RetriedAfter: entity.Moment(s.RetriedAfter), RetriedBefore: entity.Moment(s.RetriedBefore),
		Words: s.Words,
	}
	if s.Key != nil {
		f.Key = *s.Key
	}
	for _, h := range s.Headers {
		match := entity.HeaderMatch{Name: h.Name}
		if h.Value != nil {
			match.Value = *h.Value
		}
		f.Headers = append(f.Headers, match)
	}
	for _, m := range s.Fields {
		f.Fields = append(f.Fields, entity.FieldMatch(m))
	}
	var err error
	if f.Topics, err = patterns("topics", s.Topics); err != nil {
		return entity.Selection{}, fmt.Errorf("selection: %w", err)
	}
	if s.Visible != nil {
		visible, err := patterns("visible", *s.Visible)
		if err != nil {
			return entity.Selection{}, fmt.Errorf("selection: %w", err)
		}
		for _, texts := range s.VisibleAlso {
			also, err := patterns("visible", texts)
			if err != nil {
				return entity.Selection{}, fmt.Errorf("selection: %w", err)
			}
			visible = visible.And(also)
		}
		f.Visible = &visible
	}
	return entity.Selection{Filter: f}, nil
}

// patterns parses patterns; an empty list matches nothing.
func patterns(field string, texts []string) (entity.TopicPatterns, error) {
	if len(texts) == 0 {
		return entity.TopicPatterns{}, nil
	}
	return entity.ParseTopicPatterns(field, texts...)
}

// optionalBytes returns nil for nil, else a pointer to b, which may be empty.
func optionalBytes(b []byte) *[]byte {
	if b == nil {
		return nil
	}
	return &b
}

// cleanAll returns nil only for nil, not for an empty list.
func cleanAll(texts []string) []string {
	if texts == nil {
		return nil
	}
	cleaned := make([]string, len(texts))
	for i, t := range texts {
		cleaned[i] = clean(t)
	}
	return cleaned
}

func packOptions(o entity.RedriveOptions) (string, error) { return pack(optionsJSON(o)) }

func unpackOptions(text []byte) (entity.RedriveOptions, error) {
	var o optionsJSON
	if err := json.Unmarshal(text, &o); err != nil {
		return entity.RedriveOptions{}, fmt.Errorf("options: %w", err)
	}
	return entity.RedriveOptions(o), nil
}

func unpackReasons(counts map[string]int, text []byte) error {
	var found map[string]int
	if err := json.Unmarshal(text, &found); err != nil {
		return fmt.Errorf("reasons: %w", err)
	}
	for reason, n := range found {
		counts[reason] += n
	}
	return nil
}

// pack returns JSON as text: bytes would be sent in the binary form of jsonb.
func pack(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}
