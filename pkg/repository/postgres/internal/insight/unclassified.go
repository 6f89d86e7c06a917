package insight

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

const admitQuery = `
	SELECT dlq_topic, group_id FROM dlq.admit_error_groups($6::text[], $1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $7::int, $8::timestamptz)`

// AdmitFingerprints implements repository.Groups.
func (s *Groups) AdmitFingerprints(ctx context.Context, failures []repository.TopicFailure) ([]repository.TopicFailure, error) {
	if len(failures) == 0 {
		return nil, nil
	}
	columns, err := newFingerprintColumns(failures, func(f repository.TopicFailure) entity.Fingerprint { return f.Fingerprint })
	if err != nil {
		return nil, fmt.Errorf("admit error groups: %w", err)
	}
	topics := codec.NewArray(codec.OIDText, len(failures), 24)
	for _, f := range failures {
		topics.Text(f.DLQTopic)
	}
	type key struct {
		Topic string    `db:"dlq_topic"`
		Group uuid.UUID `db:"group_id"`
	}
	var found []key
	args := append(columns.args(), topics.Arg(), repository.MaxNewGroups, s.db.Clock())
	if err := s.db.Select(ctx, &found, admitQuery, args...); err != nil || len(found) == 0 {
		return nil, conn.Translate("admit error groups", err)
	}
	isRefused, noted := map[key]bool{}, map[string]bool{}
	var unclassified []entity.Fingerprint
	for _, k := range found {
		isRefused[k] = true
		if !noted[k.Topic] {
			noted[k.Topic] = true
			unclassified = append(unclassified, entity.Unclassified(k.Topic))
		}
	}
	var refused []repository.TopicFailure
	for _, f := range failures {
		if isRefused[key{f.DLQTopic, f.ID()}] {
			refused = append(refused, f)
		}
	}
	return refused, s.SaveFingerprints(ctx, unclassified)
}

// unclassifiedTopicsQuery finds the dead-letter topics that have unclassified messages and may get further error
// groups, because their limit for this hour is not reached.
const unclassifiedTopicsQuery = `
	SELECT dlq_topic FROM dlq.error_group_limits
	WHERE refused_at IS NOT NULL
	  AND (created < $1::int OR hour < date_trunc('hour', coalesce($2::timestamptz, clock_timestamp()), 'UTC'))
	ORDER BY dlq_topic`

// unclassifiedQuery reads the oldest messages in each topic's error group for unclassified messages, along the index of
// error groups.
var unclassifiedQuery = `
	WITH oldest AS MATERIALIZED (
		SELECT m.id, row_number() OVER (ORDER BY g.ord, m.created_at, m.id) AS ord,
			sum(coalesce(octet_length(m.headers), 0) + coalesce(octet_length(m.key), 0) + octet_length(m.error_message)) OVER (ORDER BY g.ord, m.created_at, m.id) AS bytes
		FROM unnest($1::uuid[]) WITH ORDINALITY AS g (id, ord) CROSS JOIN LATERAL (
			SELECT k.id, k.created_at, k.headers, k.key, k.error_message FROM dlq.messages k
			WHERE k.group_id = g.id ORDER BY k.created_at, k.id LIMIT $2
		) m
	)
	SELECT ` + codec.StateColumns + `, ` + codec.ByteColumns("0::bigint", "-1") + `
	FROM oldest o JOIN dlq.messages m ON m.id = o.id LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id
	WHERE o.ord <= $2 AND (o.bytes <= $3 OR o.ord = 1)
	ORDER BY o.ord`

// classifiedQuery stores that topics have no unclassified messages any more, but only an hour after new error groups of
// the topic were last refused. An ingester whose error groups were refused stores its unclassified messages after the
// refusal, but never an hour after it.
const classifiedQuery = `
	UPDATE dlq.error_group_limits SET refused_at = NULL
	WHERE dlq_topic = ANY ($1::text[]) AND refused_at < coalesce($2::timestamptz, clock_timestamp()) - $3::bigint * interval '1 microsecond'`

// Unclassified implements repository.SearchIndex.
func (s *Groups) Unclassified(ctx context.Context, limit int, maxBytes int64) ([]entity.Message, error) {
	var topics []string
	if err := s.db.Select(ctx, &topics, unclassifiedTopicsQuery, repository.MaxNewGroups, s.db.Clock()); err != nil || len(topics) == 0 {
		return nil, conn.Translate("find unclassified messages", err)
	}
	groups := codec.NewArray(codec.OIDUUID, len(topics), 16)
	for _, topic := range topics {
		groups.UUID(entity.Unclassified(topic).ID())
	}
	var rows []codec.Row
	if err := s.db.Select(ctx, &rows, unclassifiedQuery, groups.Arg(), limit, maxBytes); err != nil {
		return nil, conn.Translate("find unclassified messages", err)
	}
	messages := make([]entity.Message, len(rows))
	for i := range rows {
		var err error
		if messages[i], err = rows[i].MessageWithBytes(); err != nil {
			return nil, fmt.Errorf("find unclassified messages: %w", err)
		}
	}
	if len(messages) > 0 {
		return messages, nil
	}
	return nil, conn.Translate("find unclassified messages",
		s.db.Exec(ctx, classifiedQuery, codec.TextArray(topics), s.db.Clock(), time.Hour.Microseconds()))
}

// classifyQuery moves messages from one error group to another. It locks the messages in the order of their ids, like
// every statement that changes many messages. It also moves their arrivals in group_minutes to the new group, but only
// of messages that have a document, because an arrival is counted when the first document is stored.
const classifyQuery = `
	WITH moves AS MATERIALIZED (
		SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[]) AS x (id, from_group, to_group)
	), changing AS MATERIALIZED (
		SELECT m.id FROM dlq.dlq_messages m JOIN moves x ON x.id = m.id
		WHERE m.group_id = x.from_group ORDER BY m.id FOR NO KEY UPDATE OF m
	), moved AS (
		UPDATE dlq.dlq_messages m SET group_id = x.to_group
		FROM changing c JOIN moves x ON x.id = c.id
		WHERE m.id = c.id AND m.group_id = x.from_group
		RETURNING m.id, m.created_at, m.original_topic, x.from_group, x.to_group
	)
	INSERT INTO dlq.group_minutes AS g (group_id, at, original_topic, messages)
	SELECT n.group_id, date_bin('1 minute', m.created_at, 'epoch'), m.original_topic, sum(n.change)
	FROM moved m CROSS JOIN LATERAL (VALUES (m.from_group, -1), (m.to_group, 1)) AS n (group_id, change)
	WHERE m.created_at >= coalesce($4::timestamptz, clock_timestamp()) - $5::bigint * interval '1 microsecond'
	  AND EXISTS (SELECT FROM dlq.message_documents d WHERE d.message_id = m.id AND d.created_at = m.created_at)
	GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
	ON CONFLICT (group_id, at, original_topic) DO UPDATE SET messages = g.messages + excluded.messages`

// Classify implements repository.SearchIndex.
func (s *Groups) Classify(ctx context.Context, moves []repository.Classification) error {
	if len(moves) == 0 {
		return nil
	}
	n := len(moves)
	ids, from, to := codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16), codec.NewArray(codec.OIDUUID, n, 16)
	for _, move := range moves {
		ids.UUID(move.MessageID)
		from.UUID(entity.Unclassified(move.DLQTopic).ID())
		to.UUID(move.Group)
	}
	return conn.Translate("classify messages", s.db.Exec(ctx, classifyQuery, ids.Arg(), from.Arg(), to.Arg(),
		s.db.Clock(), repository.ArrivalsMinuteLife.Microseconds()))
}
