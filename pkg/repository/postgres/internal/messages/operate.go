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

// Each action of an operator has one statement, for one message and for many. The statement locks the rows in the order
// of their ids, changes them, and writes audit entries. PostgreSQL must find the rows by the primary key; see the
// comment above claimQuery.

// leaseFrom8 and leaseFrom10 are SQL conditions that a redrive's batch is still leased to the caller; an expired lease
// counts until another owner leases the batch. The lease is in the three parameters from $8 or $10 on; see leaseArgs.
// The condition is also true when the caller has no lease. It locks the row of the batch until the statement ends.
const (
	leaseFrom8 = `($8::uuid IS NULL OR EXISTS (
		SELECT FROM dlq.redrive_batches WHERE redrive_id = $8::uuid AND batch_no = $9::int AND owner = $10::uuid FOR SHARE))`
	leaseFrom10 = `($10::uuid IS NULL OR EXISTS (
		SELECT FROM dlq.redrive_batches WHERE redrive_id = $10::uuid AND batch_no = $11::int AND owner = $12::uuid FOR SHARE))`
)

func leaseArgs(l repository.Lease) []any {
	return []any{uuid.NullUUID{UUID: l.RedriveID, Valid: l != (repository.Lease{})}, l.Number, l.Owner}
}

// deleteQuery deletes messages, together with their attempts and the edits and returns of these attempts. Without the
// message, these rows would prove nothing, and nothing would delete them.
const deleteQuery = `
	WITH held AS MATERIALIZED (
		SELECT id FROM dlq.dlq_messages WHERE id = ANY ($1::uuid[]) AND (status <> 'RETRYING') IS TRUE AND ` + leaseFrom8 + `
		ORDER BY id FOR UPDATE
	), gone AS (
		DELETE FROM dlq.dlq_messages m USING held WHERE m.id = held.id AND (m.status <> 'RETRYING') IS TRUE
		RETURNING m.*
	), history AS (
		DELETE FROM dlq.attempts a USING gone WHERE a.message_id = gone.id RETURNING a.attempt_id
	), edited AS (
		DELETE FROM dlq.edits e USING gone WHERE e.message_id = gone.id
	), returned AS (
		DELETE FROM dlq.returns r USING history WHERE r.attempt_id = history.attempt_id
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
			actor, reason, request_id, trace_id, operation_id, call_id, redrive_id)
		SELECT coalesce($2::timestamptz, clock_timestamp()), 'delete', 'message', id, status, NULL, retry_count,
			last_publish_error_class, last_publish_error, ` + audit.CauseFrom3 + `, $8::uuid
		FROM gone
	)
	SELECT ` + codec.StateColumns + ` FROM gone m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`

// Delete implements repository.Core.
func (s *Messages) Delete(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error {
	gone, again, err := s.operate(ctx, entity.ActionDelete, []uuid.UUID{id}, repository.Lease{}, cause)
	if err != nil {
		return conn.Translate("delete message", err)
	}
	if len(gone)+len(again) > 0 {
		return nil
	}
	m, err := s.Get(ctx, id, 0)
	if err != nil {
		return err
	}
	return &entity.ClaimedError{ID: id, Unsettled: m.Unsettled}
}

var requeueQuery = `
	WITH held AS MATERIALIZED (
		SELECT id, last_publish_error_class, last_publish_error FROM dlq.dlq_messages
		WHERE id = ANY ($1::uuid[]) AND (status = 'DEAD') IS TRUE AND ` + leaseFrom8 + `
		ORDER BY id FOR NO KEY UPDATE
	), changed AS (
		UPDATE dlq.dlq_messages m SET status = 'PENDING', retry_count = 0, rescues = 0, outcome = NULL,
			next_attempt_at = ` + codec.NextAttempt("m", "c.moment") + `, updated_at = c.moment
		FROM held, (SELECT coalesce($2::timestamptz, clock_timestamp()) AS moment) c
		WHERE m.id = held.id AND (m.status = 'DEAD') IS TRUE
		RETURNING m.*
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
			actor, reason, request_id, trace_id, operation_id, call_id, redrive_id)
		SELECT m.updated_at, 'requeue', 'message', m.id, 'DEAD', m.status, m.retry_count,
			h.last_publish_error_class, h.last_publish_error, ` + audit.CauseFrom3 + `, $8::uuid
		FROM changed m JOIN held h ON h.id = m.id
	)
	SELECT ` + codec.StateColumns + ` FROM changed m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`

// Requeue implements repository.Core.
func (s *Messages) Requeue(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	return s.move(ctx, "requeue message", entity.ActionRequeue, entity.Pending, id, cause)
}

// giveUpQuery marks messages DEAD. When a message has a claim, the claim is appended to the history as an abandoned
// attempt, because its record may have been sent and must be recognised when it comes back.
var giveUpQuery = `
	WITH held AS MATERIALIZED (
		SELECT * FROM dlq.dlq_messages
		WHERE id = ANY ($1::uuid[]) AND (status = 'PENDING' OR status = 'RETRYING' AND unsettled) IS TRUE AND ` + leaseFrom8 + `
		ORDER BY id FOR NO KEY UPDATE
	), changed AS (
		UPDATE dlq.dlq_messages m SET status = 'DEAD', next_attempt_at = NULL, unsettled = false,
			claim_id = NULL, claim_expires_at = NULL, claim_topic = NULL, claim_topic_id = NULL,
			claim_partition = NULL, claim_end_offset = NULL, claim_redrive_id = NULL,
			updated_at = coalesce($2::timestamptz, clock_timestamp())
		FROM held WHERE m.id = held.id
		RETURNING m.*
	), history AS (
		INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, redrive_id, retry_count, verdict, actor, started_at, ended_at,
			from_status, to_status, error_class, error, target_topic, target_topic_id, target_partition, record_hash)
		SELECT h.id, h.attempt_no, h.claim_id, h.claim_redrive_id, h.retry_count, 'abandoned', $3, h.last_retry_at, c.updated_at,
			'RETRYING', 'DEAD', 'UNKNOWN', h.last_publish_error, coalesce(h.claim_topic, h.original_topic), h.claim_topic_id,
			h.claim_partition, ` + SentHashOf("h", "id", "claim_id") + `
		FROM held h JOIN changed c ON c.id = h.id WHERE h.claim_id IS NOT NULL
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, retry_count, error_class, last_error,
			actor, reason, request_id, trace_id, operation_id, call_id, redrive_id)
		SELECT m.updated_at, 'dead', 'message', m.id, h.status, m.status, m.retry_count,
			m.last_publish_error_class, m.last_publish_error, ` + audit.CauseFrom3 + `, $8::uuid
		FROM changed m JOIN held h ON h.id = m.id
	)
	SELECT ` + codec.StateColumns + ` FROM changed m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`

// MarkDead implements repository.Core.
func (s *Messages) MarkDead(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	return s.move(ctx, "give message up", entity.ActionDead, entity.Dead, id, cause)
}

// Change implements repository.Selections.
func (s *Messages) Change(ctx context.Context, c repository.Change, cause entity.AuditInfo) ([]uuid.UUID, error) {
	if c.Action == entity.RedriveMap {
		return s.mapMessages(ctx, c, cause)
	}
	as := map[entity.RedriveAction]entity.Action{
		entity.RedriveRequeue: entity.ActionRequeue, entity.RedriveDead: entity.ActionDead, entity.RedriveDelete: entity.ActionDelete,
	}[c.Action]
	if as == "" {
		return nil, fmt.Errorf("change messages: action %q: %w", c.Action, entity.ErrInvalid)
	}
	found, again, err := s.operate(ctx, as, c.IDs, c.Lease, cause)
	if err != nil {
		return nil, conn.Translate("change messages", err)
	}
	changed := make([]uuid.UUID, len(found), len(found)+len(again))
	for i, f := range found {
		changed[i] = f.ID.UUID
	}
	return append(changed, again...), nil
}

// operate runs the statement of an action: requeueQuery, giveUpQuery or deleteQuery. It returns as changed the rows
// that the statement changed. It returns as again the ids of messages that the same operation has changed before,
// because the driver sends a statement twice when its connection ends before the answer arrives.
func (s *Messages) operate(
	ctx context.Context, action entity.Action, ids []uuid.UUID, lease repository.Lease, cause entity.AuditInfo,
) (changed []codec.Row, again []uuid.UUID, err error) {
	query := map[entity.Action]string{
		entity.ActionRequeue: requeueQuery, entity.ActionDead: giveUpQuery, entity.ActionDelete: deleteQuery,
	}[action]
	cause = audit.WithOperation(cause)
	args := slices.Concat([]any{codec.UUIDArray(ids), s.db.Clock()}, audit.CauseArgs(cause), leaseArgs(lease))
	if err := s.db.Select(ctx, &changed, query, args...); err != nil {
		return nil, nil, err
	}
	if rest := without(ids, changed); len(rest) > 0 {
		again, err = audit.ChangedBy(ctx, s.db, cause.Operation, action, rest)
	}
	return changed, again, err
}

// without returns those of the ids that no row in rows has, each id once.
func without(ids []uuid.UUID, rows []codec.Row) []uuid.UUID {
	seen := make(map[uuid.UUID]bool, len(ids))
	for _, r := range rows {
		seen[r.ID.UUID] = true
	}
	var rest []uuid.UUID
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			rest = append(rest, id)
		}
	}
	return rest
}

// move changes the status of one message if the message's present status allows the action. Otherwise it returns an
// error that says why the action is not allowed.
func (s *Messages) move(
	ctx context.Context, where string, action entity.Action, to entity.Status, id uuid.UUID, cause entity.AuditInfo,
) (entity.Message, error) {
	found, again, err := s.operate(ctx, action, []uuid.UUID{id}, repository.Lease{}, cause)
	if err != nil {
		return entity.Message{}, conn.Translate(where, err)
	}
	if len(found) > 0 {
		return found[0].Message(), nil
	}
	m, err := s.Get(ctx, id, 0)
	if err != nil {
		return entity.Message{}, err
	}
	if len(again) > 0 {
		return m, nil
	}
	if m.Status == entity.Retrying && to == entity.Dead {
		return entity.Message{}, &entity.ClaimedError{ID: id, Unsettled: m.Unsettled}
	}
	return entity.Message{}, &entity.TransitionError{From: m.Status, To: to}
}
