package postgres

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func withLock(query, lock string) string { return strings.Replace(query, "%LOCK%", lock, 1) }

// deleteQuery takes the attempts along: without their message they would prove
// nothing and never be purged.
const deleteQuery = `
	WITH gone AS (
		DELETE FROM dlq.dlq_messages WHERE id = $1 AND status <> 'RETRYING' RETURNING id
	), history AS (
		DELETE FROM dlq.attempts a USING gone WHERE a.message_id = gone.id
	)
	SELECT id FROM gone`

// Delete implements repository.Repository.
func (s *Store) Delete(ctx context.Context, id uuid.UUID) error {
	var gone []uuid.UUID
	if err := s.selectRows(ctx, &gone, deleteQuery, id); err != nil {
		return translate("delete message", err)
	}
	if len(gone) > 0 {
		return nil
	}
	m, err := s.Get(ctx, id, 0)
	if err != nil {
		return err
	}
	return &entity.ClaimedError{ID: id, Unsettled: m.Unsettled}
}

const requeueQuery = `
	WITH changed AS (
		UPDATE dlq.dlq_messages SET status = 'PENDING', retry_count = 0, rescues = 0, next_attempt_at = NULL, outcome = NULL,
			updated_at = coalesce($2::timestamptz, clock_timestamp())
		WHERE id = $1 AND status = 'DEAD'
		RETURNING *
	)
	SELECT ` + stateColumns + ` FROM changed m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`

// Requeue implements repository.Repository.
func (s *Store) Requeue(ctx context.Context, id uuid.UUID) (entity.Message, error) {
	return s.move(ctx, "requeue message", requeueQuery, entity.Pending, id, s.clock())
}

// giveUpQuery keeps the attempt that ends so in the history: its record may come
// back one day, and must be known then.
const giveUpQuery = `
	WITH held AS MATERIALIZED (
		SELECT * FROM dlq.dlq_messages
		WHERE id = $1 AND (status = 'PENDING' OR status = 'RETRYING' AND unsettled)
		FOR NO KEY UPDATE
	), changed AS (
		UPDATE dlq.dlq_messages m SET status = 'DEAD', next_attempt_at = NULL, unsettled = false,
			claim_id = NULL, claim_expires_at = NULL, claim_topic = NULL, claim_topic_id = NULL,
			claim_partition = NULL, claim_end_offset = NULL,
			updated_at = coalesce($2::timestamptz, clock_timestamp())
		FROM held WHERE m.id = held.id
		RETURNING m.*
	), history AS (
		INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, retry_count, actor, started_at, ended_at,
			from_status, to_status, error_class, error, target_topic, target_partition)
		SELECT h.id, h.attempt_no, h.claim_id, h.retry_count, $3, h.last_retry_at, c.updated_at,
			'RETRYING', 'DEAD', 'UNKNOWN', h.last_publish_error, coalesce(h.claim_topic, h.original_topic), h.claim_partition
		FROM held h JOIN changed c ON c.id = h.id WHERE h.claim_id IS NOT NULL
	)
	SELECT ` + stateColumns + ` FROM changed m LEFT JOIN dlq.topics t ON t.id = m.dlq_topic_id`

// GiveUp implements repository.Repository.
func (s *Store) GiveUp(ctx context.Context, id uuid.UUID, actor string) (entity.Message, error) {
	return s.move(ctx, "give message up", giveUpQuery, entity.Dead, id, s.clock(), clean(actor))
}

// move runs a guarded change of one message's status; where the guard holds it
// back, the message as it is says why.
func (s *Store) move(ctx context.Context, where, query string, to entity.Status, id uuid.UUID, args ...any) (entity.Message, error) {
	var found []row
	if err := s.selectRows(ctx, &found, query, append([]any{id}, args...)...); err != nil {
		return entity.Message{}, translate(where, err)
	}
	if len(found) > 0 {
		return found[0].message(), nil
	}
	m, err := s.Get(ctx, id, 0)
	if err != nil {
		return entity.Message{}, err
	}
	if m.Status == entity.Retrying && to == entity.Dead {
		return entity.Message{}, &entity.ClaimedError{ID: id, Unsettled: m.Unsettled}
	}
	return entity.Message{}, &entity.TransitionError{From: m.Status, To: to}
}
