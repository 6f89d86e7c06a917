package memory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Delete implements repository.Repository.
func (s *Store) Delete(ctx context.Context, id uuid.UUID) error {
	return s.step(ctx, "delete message", func(time.Time) error {
		r, err := s.row(id)
		if err != nil {
			return err
		}
		if r.message.Claimed() {
			return &entity.ClaimedError{ID: id, Unsettled: r.message.Unsettled}
		}
		delete(s.rows, id)
		return nil
	})
}

// Requeue implements repository.Repository. The message comes without its bytes.
func (s *Store) Requeue(ctx context.Context, id uuid.UUID) (entity.Message, error) {
	return s.change(ctx, "requeue message", id, (*row).requeue)
}

// GiveUp implements repository.Repository. The message comes without its bytes.
func (s *Store) GiveUp(ctx context.Context, id uuid.UUID, actor string) (entity.Message, error) {
	return s.change(ctx, "give message up", id, func(r *row, now time.Time) error { return r.giveUp(now, actor) })
}

func (s *Store) change(ctx context.Context, where string, id uuid.UUID, do func(*row, time.Time) error) (entity.Message, error) {
	var m entity.Message
	err := s.step(ctx, where, func(now time.Time) error {
		r, err := s.row(id)
		if err != nil {
			return err
		}
		if err := do(r, now); err != nil {
			return err
		}
		m = r.bare()
		return nil
	})
	return m, err
}

// requeue asks for DEAD itself: RETRYING has an arrow to PENDING too, but only
// the attempt's own result may follow that one.
func (r *row) requeue(now time.Time) error {
	m := &r.message
	if m.Status != entity.Dead {
		return &entity.TransitionError{From: m.Status, To: entity.Pending}
	}
	m.RetryCount, r.rescues = 0, 0
	m.NextAttemptAt, m.Outcome = time.Time{}, ""
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
