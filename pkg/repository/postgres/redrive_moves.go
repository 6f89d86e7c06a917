package postgres

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// moveRedriveQuery locks the redrive first: of several callers each sees what the
// one before it left. Whether batches are open is seen as the statement began,
// and a batch that is done stays so; the process that saved the last one asks
// after that and sees it.
const moveRedriveQuery = `
	WITH held AS MATERIALIZED (
		SELECT id, state FROM dlq.redrives WHERE id = $1 FOR NO KEY UPDATE
	), moved AS (
		UPDATE dlq.redrives r SET
			state = $8, note = $9, updated_at = c.moment, waiting_since = NULL,
			ended_at = CASE WHEN $8 IN ('cancelled', 'finished') THEN c.moment END,
			canary_passed = r.canary_passed OR $10 OR held.state = 'stopped' AND $8 = 'running',
			forgiven_sent = CASE WHEN held.state = 'stopped' AND $8 = 'running' THEN t.sent ELSE r.forgiven_sent END,
			forgiven_failed = CASE WHEN held.state = 'stopped' AND $8 = 'running' THEN t.failed ELSE r.forgiven_failed END,
			forgiven_returned = CASE WHEN held.state = 'stopped' AND $8 = 'running' THEN t.returned ELSE r.forgiven_returned END
		FROM held, (SELECT coalesce($2::timestamptz, clock_timestamp()) AS moment) c, (
			SELECT coalesce(sum(succeeded + failed + in_doubt), 0) AS sent, coalesce(sum(failed), 0) AS failed,
			       (SELECT count(*) FROM dlq.returns WHERE redrive_id = $1) AS returned
			FROM dlq.redrive_batches WHERE redrive_id = $1
		) t
		WHERE r.id = held.id AND held.state = ANY ($11::text[])
		  AND ($8 <> 'finished' OR NOT EXISTS (SELECT FROM dlq.redrive_batches WHERE redrive_id = $1 AND NOT done))
		RETURNING r.id, held.state AS from_state, r.state, r.updated_at
	), audit AS (
		INSERT INTO dlq.audit (at, action, kind, object_id, from_state, to_state, actor, reason, request_id, trace_id, operation_id)
		SELECT updated_at, $12, 'redrive', id, from_state, state, ` + causeFrom3 + ` FROM moved
	)
	SELECT held.state, EXISTS (SELECT FROM moved) AS moved FROM held`

// MoveRedrive implements repository.Redrives.
func (s *Store) MoveRedrive(ctx context.Context, id uuid.UUID, m repository.RedriveMove) (entity.Redrive, error) {
	from := arrows(m)
	m.Cause = withOperation(m.Cause)
	args := append([]any{id, s.clock()}, causeArgs(m.Cause)...)
	args = append(args, string(m.To), clean(m.Note), m.PassCanary, redriveStates(from), string(m.Action))
	var found []struct {
		State string `db:"state"`
		Moved bool   `db:"moved"`
	}
	if err := s.selectRows(ctx, &found, moveRedriveQuery, args...); err != nil {
		return entity.Redrive{}, translate("move redrive", err)
	}
	if len(found) == 0 {
		return entity.Redrive{}, &entity.RedriveNotFoundError{ID: id}
	}
	if before := entity.RedriveState(found[0].State); !found[0].Moved && !slices.Contains(from, before) {
		// The driver may have sent the statement twice, and the first time it moved it.
		again, err := s.performedOn(ctx, m.Cause.Operation, m.Action, []uuid.UUID{id})
		if err != nil {
			return entity.Redrive{}, translate("move redrive", err)
		}
		if len(again) > 0 {
			return s.Redrive(ctx, id)
		}
		return entity.Redrive{}, &entity.RedriveStateError{ID: id, From: before, To: m.To}
	}
	return s.Redrive(ctx, id)
}

// arrows returns the states that the move may start from.
func arrows(m repository.RedriveMove) []entity.RedriveState {
	var from []entity.RedriveState
	for _, s := range entity.RedriveStates() {
		if s.CanMoveTo(m.To) && (len(m.From) == 0 || slices.Contains(m.From, s)) {
			from = append(from, s)
		}
	}
	return from
}

// noteWaitingQuery leaves a redrive alone that nobody works on any more: its note
// says why.
const noteWaitingQuery = `
	UPDATE dlq.redrives SET note = $4,
		waiting_since = CASE WHEN $3 THEN coalesce(waiting_since, $2::timestamptz, clock_timestamp()) END
	WHERE id = $1 AND state IN ('canary', 'running')
	RETURNING true`

// NoteWaiting implements repository.Redrives.
func (s *Store) NoteWaiting(ctx context.Context, id uuid.UUID, waiting bool, note string) error {
	var noted []bool
	if err := s.selectRows(ctx, &noted, noteWaitingQuery, id, s.clock(), waiting, clean(note)); err != nil {
		return translate("note that a redrive waits", err)
	}
	if len(noted) > 0 {
		return nil
	}
	return s.mustExist(ctx, "note that a redrive waits", id)
}
