package messages

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// mapQuery sets the original topic of messages to $8. It has the same steps as the statements in operate.go. When an
// operator has already given this topic to a message, the query returns the message, but does not change it. The
// consumer groups of the messages are stored as consumer groups of the topic, because their committed offsets show the
// outcomes of records that are sent to this topic.
var mapQuery = `
	WITH held AS MATERIALIZED (
		SELECT id, original_topic AS was, (original_topic = $8::text AND origin_confidence = 'operator') IS TRUE AS same,
			(original_topic <> $8::text AND origin_confidence = 'header') IS TRUE AS elsewhere
		FROM dlq.dlq_messages
		WHERE id = ANY ($1::uuid[])
		  AND (status IN ('PENDING', 'DEAD') AND ($9::bool OR origin_confidence IS DISTINCT FROM 'header')) IS TRUE
		  AND ` + leaseFrom10 + `
		ORDER BY id FOR NO KEY UPDATE
	), changed AS (
		UPDATE dlq.dlq_messages m SET original_topic = $8, origin_confidence = 'operator',
			original_partition = CASE WHEN NOT held.elsewhere THEN m.original_partition END,
			original_offset = CASE WHEN NOT held.elsewhere THEN m.original_offset END,
			updated_at = coalesce($2::timestamptz, clock_timestamp())
		FROM held WHERE m.id = held.id AND NOT held.same
		RETURNING m.*
	), given AS MATERIALIZED (
		SELECT DISTINCT $8::text AS topic, consumer_group FROM changed WHERE consumer_group <> ''
	), noted AS (` + saveGivenGroups + `
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
			actor, reason, request_id, trace_id, operation_id, call_id, redrive_id)
		SELECT m.updated_at, 'map', 'message', m.id, h.was, m.original_topic, m.retry_count,
			m.last_publish_error_class, m.last_publish_error, ` + audit.CauseFrom3 + `, $10::uuid
		FROM changed m JOIN held h ON h.id = m.id
	)
	SELECT id FROM held`

// mapMessages implements repository.Selections.Change for the action entity.RedriveMap.
func (s *Messages) mapMessages(ctx context.Context, c repository.Change, cause entity.AuditInfo) ([]uuid.UUID, error) {
	if !entity.ValidTopic(c.OriginalTopic) {
		return nil, fmt.Errorf("map messages: original topic %q: %w", c.OriginalTopic, entity.ErrInvalid)
	}
	cause = audit.WithOperation(cause)
	var changed []codec.Row
	args := slices.Concat([]any{codec.UUIDArray(c.IDs), s.db.Clock()}, audit.CauseArgs(cause), []any{c.OriginalTopic, c.OverHeader}, leaseArgs(c.Lease))
	if err := s.db.Select(ctx, &changed, mapQuery, args...); err != nil {
		return nil, conn.Translate("map messages", err)
	}
	found := make([]uuid.UUID, len(changed))
	for i, f := range changed {
		found[i] = f.ID.UUID
	}
	if rest := without(c.IDs, changed); len(rest) > 0 {
		again, err := audit.ChangedBy(ctx, s.db, cause.Operation, entity.ActionMap, rest)
		if err != nil {
			return nil, conn.Translate("map messages", err)
		}
		found = append(found, again...)
	}
	return found, nil
}
