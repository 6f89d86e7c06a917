package fake

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Delete implements repository.Core.
func (s *Store) Delete(ctx context.Context, id uuid.UUID, cause entity.Cause) error {
	return s.step(ctx, "delete message", func(now time.Time) error {
		err := s.remove(now, id, cause)
		if err != nil && s.performedOn(cause.Operation, entity.ActionDelete)[id] {
			return nil
		}
		return err
	})
}

func (s *Store) remove(now time.Time, id uuid.UUID, cause entity.Cause) error {
	r, err := s.row(id)
	if err != nil {
		return err
	}
	if r.message.Claimed() {
		return &entity.ClaimedError{ID: id, Unsettled: r.message.Unsettled}
	}
	s.follow(r)
	delete(s.rows, id)
	s.note(now, entity.ActionDelete, r.message, "", r.message.RetryCount, cause)
	return nil
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

// Change implements repository.Selections.
func (s *Store) Change(ctx context.Context, c repository.Change, cause entity.Cause) ([]uuid.UUID, error) {
	if c.Action == entity.RedriveMap {
		return s.mapMessages(ctx, c, cause)
	}
	as := map[entity.RedriveAction]entity.Action{
		entity.RedriveRequeue: entity.ActionRequeue,
		entity.RedriveDead:    entity.ActionDead,
		entity.RedriveDelete:  entity.ActionDelete,
	}[c.Action]
	if as == "" {
		return nil, fmt.Errorf("change messages: action %q: %w", c.Action, entity.ErrInvalid)
	}
	var changed []uuid.UUID
	err := s.step(ctx, "change messages", func(now time.Time) error {
		if !s.leased(c.Lease) {
			return nil
		}
		performed := s.performedOn(cause.Operation, as)
		for _, id := range c.IDs {
			// What it says is that the message is gone, or in a state that forbids it.
			if s.change(now, as, id, cause) == nil || performed[id] {
				changed = append(changed, id)
				delete(performed, id)
			}
		}
		return nil
	})
	return changed, err
}

// leased reports whether a lease is none, or still holds.
func (s *Store) leased(l repository.Lease) bool {
	if l == (repository.Lease{}) {
		return true
	}
	r, ok := s.redrives[l.RedriveID]
	return ok && l.Number < len(r.batches) && r.batches[l.Number].owner == l.Owner
}

// change does to one message what action says, and notes it. It fails only with
// errors of the kinds ErrNotFound and ErrConflict.
func (s *Store) change(now time.Time, action entity.Action, id uuid.UUID, cause entity.Cause) error {
	if action == entity.ActionDelete {
		return s.remove(now, id, cause)
	}
	r, err := s.row(id)
	if err != nil {
		return err
	}
	before := r.message
	if action == entity.ActionRequeue {
		err = r.requeue(now)
	} else {
		err = r.giveUp(now, cause.Actor)
	}
	if err == nil {
		s.note(now, action, before, r.message.Status, r.message.RetryCount, cause)
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
