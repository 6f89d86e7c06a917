package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// mapQuery sets the original topic of messages, $8, as the statements of operate
// change their status. What has it already from an operator is told of and left
// alone. The consumer groups that failed on the messages are noted for the topic,
// as those of records that come in are: their offsets tell what becomes of what is
// sent there.
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
	), noted AS (` + noteGiven + `
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
			actor, reason, request_id, trace_id, operation_id)
		SELECT m.updated_at, 'map', 'message', m.id, h.was, m.original_topic, m.retry_count,
			m.last_publish_error_class, m.last_publish_error, ` + causeFrom3 + `
		FROM changed m JOIN held h ON h.id = m.id
	)
	SELECT id FROM held`

// mapMessages is Change with entity.RedriveMap.
func (s *Store) mapMessages(ctx context.Context, c repository.Change, cause entity.Cause) ([]uuid.UUID, error) {
	if !entity.ValidTopic(c.OriginalTopic) {
		return nil, fmt.Errorf("map messages: original topic %q: %w", c.OriginalTopic, entity.ErrInvalid)
	}
	cause = withOperation(cause)
	var changed []row
	args := slices.Concat([]any{uuids(c.IDs), s.clock()}, causeArgs(cause), []any{c.OriginalTopic, c.OverHeader}, leaseArgs(c.Lease))
	if err := s.selectRows(ctx, &changed, mapQuery, args...); err != nil {
		return nil, translate("map messages", err)
	}
	found := make([]uuid.UUID, len(changed))
	for i, f := range changed {
		found[i] = f.ID.UUID
	}
	if rest := without(c.IDs, changed); len(rest) > 0 {
		again, err := s.performedOn(ctx, cause.Operation, entity.ActionMap, rest)
		if err != nil {
			return nil, translate("map messages", err)
		}
		found = append(found, again...)
	}
	return found, nil
}
