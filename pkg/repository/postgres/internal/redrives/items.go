package redrives

import (
	"context"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Results reads the messages of redrives and their results.
type Results struct {
	db        *conn.DB
	lifecycle *Lifecycle
}

// NewResults returns Results that send their statements to db.
func NewResults(db *conn.DB, lifecycle *Lifecycle) *Results { return &Results{db, lifecycle} }

// deadLetterOf returns the SQL of codec.DeadLetterOf for o, an item of the redrive $1. The parameter record lists the
// SQL expressions for the topic, the partition, the offset and the consumer group of the record that was sent.
func deadLetterOf(record string) string {
	return codec.DeadLetterOf(record, `coalesce(
				(SELECT m.dlq_topic_id FROM dlq.dlq_messages m WHERE m.id = o.id),
				(SELECT coalesce(m.dlq_topic_id, k.dlq_topic_id) FROM dlq.archive_ids k
				 LEFT JOIN dlq.dlq_messages_archive m ON m.id = k.id AND m.archived_at = k.archived_at WHERE k.id = o.id))`,
		"(SELECT created_at FROM dlq.redrives WHERE id = $1)")
}

// targetsOfBatch selects the few partitions to which the records of b, a row of dlq.redrive_batches, were sent. For
// each partition it also selects the consumer group of codec.GroupsOf with the highest committed offset, and that offset.
// PostgreSQL expects ten elements of an array that a subquery makes, and a hundred of a set from JSON; the plans are
// better with ten.
var targetsOfBatch = `
		SELECT x.no - 1 AS no, x.topic, x.topic_id, x.partition, g.consumer_group, g.committed
		FROM (
			SELECT e->>'topic' AS topic, e->>'topic_id' AS topic_id, (e->>'partition')::int AS partition, e->>'consumer_group' AS consumer_group, no
			FROM unnest(ARRAY(SELECT jsonb_array_elements(b.targets))) WITH ORDINALITY AS t (e, no)
		) x
		LEFT JOIN LATERAL (
			SELECT g.consumer_group, c.committed
			FROM (` + codec.GroupsOf("x.topic", "x.consumer_group", sentElsewhere) + `
			) g
			LEFT JOIN dlq.committed_offsets c ON c.consumer_group = g.consumer_group
				AND c.topic = x.topic AND c.topic_id = x.topic_id AND c.partition = x.partition
			ORDER BY c.committed DESC NULLS LAST, g.place, g.consumer_group LIMIT 1
		) g ON true
		OFFSET 0`

// sentElsewhere is the condition that the messages of b, a row of dlq.redrive_batches, were sent to the topic of x
// although they failed in another.
const sentElsewhere = `CASE WHEN b.topic IS NOT NULL THEN x.topic <> b.topic
					ELSE x.topic = ANY (ARRAY(SELECT target FROM dlq.redirects)) END`

// itemsOfBatch selects the messages of b, a row of dlq.redrive_batches, with their results and outcomes.
var itemsOfBatch = `
	SELECT b.first_item + o.i::int - 1 AS number, o.id AS message_id, coalesce(o.result, 0) AS result, coalesce(o.reason, '') AS reason,
	       coalesce(p.topic, '') AS topic, coalesce(p.topic_id, '') AS topic_id, coalesce(p.partition, 0) AS partition,
	       coalesce(p.consumer_group, '') AS consumer_group, coalesce(o.log_offset, -1) AS log_offset,
	       CASE WHEN EXISTS (SELECT FROM dlq.returns t WHERE t.redrive_id = $1 AND t.parent_id = o.id) THEN 'returned'
	            WHEN o.result = 1 AND p.committed > o.log_offset
	                AND ` + deadLetterOf("p.topic, p.partition, o.log_offset, p.consumer_group") + ` IS NULL THEN 'consumed'
	            WHEN o.result = 1 AND o.target IS NOT NULL THEN 'published' ELSE '' END AS outcome
	FROM unnest(b.message_ids, b.results, b.reasons, b.target, b.offsets) WITH ORDINALITY
		AS o (id, result, reason, target, log_offset, i)
	LEFT JOIN (` + targetsOfBatch + `
	) p ON p.no = o.target`

// redriveItemsQuery reads the messages of a redrive, batch by batch, from the batch that contains the first message of
// the page. With a filter of results or outcomes, it skips batches in which no message can have such a result or
// outcome.
var redriveItemsQuery = `
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
func (s *Results) RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error) {
	results := codec.NewArray(codec.OIDInt4, len(q.Results), 4)
	for _, r := range q.Results {
		results.Int32(resultNumber(r))
	}
	var found []itemRow
	if err := s.db.Select(ctx, &found, redriveItemsQuery, id, q.From, q.Limit, results.Arg(), string(q.Outcome)); err != nil {
		return nil, conn.Translate("list messages of a redrive", err)
	}
	if len(found) == 0 {
		return nil, s.lifecycle.mustExist(ctx, "list messages of a redrive", id)
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

// redriveOutcomesQuery counts the outcomes that itemsOfBatch would return. Returned messages are counted from the table
// of returns, whatever result their items have. The query reads the ids of a batch's messages only in two cases: when
// there are returned messages, which must be left out of the other counts, and when a share group has a dead letter in
// the range of offsets that the batch has sent. It joins with a FULL JOIN, which PostgreSQL never runs as a nested
// loop; it would choose a nested loop when it expects few items.
var redriveOutcomesQuery = `
	WITH returned AS MATERIALIZED (
		SELECT DISTINCT parent_id FROM dlq.returns WHERE redrive_id = $1
	), batch AS (
		SELECT b.*, EXISTS (SELECT FROM returned) AS some_returned
		FROM dlq.redrive_batches b WHERE b.redrive_id = $1 AND (b.canary OR NOT $2)
	), sent AS (
		SELECT o.id, CASE WHEN p.committed[o.target + 1] > o.log_offset THEN NOT p.some_dead OR ` +
	deadLetterOf("p.topics[o.target + 1], p.partitions[o.target + 1], o.log_offset, p.consumer_groups[o.target + 1]") + ` IS NULL
			ELSE false END AS consumed
		FROM batch b
		CROSS JOIN LATERAL (
			SELECT array_agg(x.topic ORDER BY x.no) AS topics, array_agg(x.partition ORDER BY x.no) AS partitions,
				array_agg(x.consumer_group ORDER BY x.no) AS consumer_groups, array_agg(x.committed ORDER BY x.no) AS committed,
				coalesce(bool_or((SELECT s.position FROM dlq.share_records s WHERE s.topic = x.topic AND s.partition = x.partition
					AND s.position >= r.first ORDER BY s.position LIMIT 1) <= r.last), false) AS some_dead
			FROM (` + targetsOfBatch + `
			) x CROSS JOIN (SELECT min(o) FILTER (WHERE o >= 0) AS first, max(o) AS last FROM unnest(b.offsets) o) r
		) p
		CROSS JOIN LATERAL unnest(CASE WHEN b.some_returned OR p.some_dead THEN b.message_ids END, b.results, b.target, b.offsets)
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
func (s *Results) RedriveOutcomes(ctx context.Context, id uuid.UUID, canary bool) (entity.OutcomeCounts, error) {
	var found []struct {
		Published int `db:"published"`
		Consumed  int `db:"consumed"`
		Returned  int `db:"returned"`
	}
	if err := s.db.Select(ctx, &found, redriveOutcomesQuery, id, canary); err != nil {
		return entity.OutcomeCounts{}, conn.Translate("count outcomes", err)
	}
	counts := entity.OutcomeCounts(found[0])
	if counts == (entity.OutcomeCounts{}) {
		return counts, s.lifecycle.mustExist(ctx, "count outcomes", id)
	}
	return counts, nil
}

// attemptsOfQuery finds the last attempt that a redrive has made on each message: the message's present claim if the
// redrive made it, otherwise the last attempt of the redrive in the history.
const attemptsOfQuery = `
	WITH made AS (
		SELECT ` + codec.AttemptColumns + `
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

// AttemptsOf implements repository.Attempts. The attempts are ordered by the ids of their messages. An attempt that has
// no result yet has no actor.
func (s *Results) AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error) {
	if len(ids) == 0 || redrive == uuid.Nil {
		return nil, nil
	}
	var found []codec.AttemptRow
	if err := s.db.Select(ctx, &found, attemptsOfQuery, redrive, codec.UUIDArray(ids)); err != nil {
		return nil, conn.Translate("find attempts of a redrive", err)
	}
	attempts := make([]entity.Attempt, len(found))
	for i := range found {
		attempts[i] = found[i].Attempt()
	}
	return attempts, nil
}
