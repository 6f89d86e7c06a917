package memory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Delete implements repository.Core.
func (s *Store) Delete(ctx context.Context, id uuid.UUID, cause entity.Cause) error {
	return s.step(ctx, "delete message", func(time.Time) error {
		r, err := s.row(id)
		switch {
		case err != nil && s.performedOn(cause.Operation, entity.ActionDelete)[id]:
			return nil
		case err != nil:
			return err
		case r.message.Claimed():
			return &entity.ClaimedError{ID: id, Unsettled: r.message.Unsettled}
		}
		delete(s.rows, id)
		s.note(entity.ActionDelete, id, cause)
		return nil
	})
}

// Requeue implements repository.Core. The message comes without its bytes.
func (s *Store) Requeue(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error) {
	return s.move(ctx, "requeue message", entity.ActionRequeue, id, cause)
}

// GiveUp implements repository.Core. The message comes without its bytes.
func (s *Store) GiveUp(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error) {
	return s.move(ctx, "give message up", entity.ActionDead, id, cause)
}

func (s *Store) move(ctx context.Context, where string, action entity.Action, id uuid.UUID, cause entity.Cause) (entity.Message, error) {
	var m entity.Message
	err := s.step(ctx, where, func(now time.Time) error {
		err := s.change(now, action, id, cause)
		r, ok := s.rows[id]
		if err != nil && !(ok && s.performedOn(cause.Operation, action)[id]) {
			return err
		}
		m = r.bare()
		return nil
	})
	return m, err
}

// change does to one message what action says, and notes it.
func (s *Store) change(now time.Time, action entity.Action, id uuid.UUID, cause entity.Cause) error {
	r, err := s.row(id)
	if err != nil {
		return err
	}
	if action == entity.ActionRequeue {
		err = r.requeue(now)
	} else {
		err = r.giveUp(now, cause.Actor)
	}
	if err == nil {
		s.note(action, id, cause)
	}
	return err
}

// requeue asks for DEAD itself: RETRYING has an arrow to PENDING too, but only
// the attempt's own result may follow that one.
func (r *row) requeue(now time.Time) error {
	m := &r.message
	if m.Status != entity.Dead {
		return &entity.TransitionError{From: m.Status, To: entity.Pending}
	}
	m.RetryCount, r.rescues = 0, 0
	m.NextAttemptAt, m.Outcome = now, ""
	return m.MarkPending(now)
}

func (r *row) giveUp(now time.Time, actor string) error {
	m := &r.message
	if m.Claimed() && !m.Unsettled {
		return &entity.ClaimedError{ID: m.ID}
	}
	claimed := m.Claimed()
	if err := m.MarkDead(now); err != nil {
		return err
	}
	if claimed {
		r.abandon(now, actor, entity.Dead)
	}
	m.Claim, m.Unsettled = entity.Claim{}, false
	m.NextAttemptAt = time.Time{}
	return nil
}
