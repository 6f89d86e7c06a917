package memory

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Delete implements repository.Core.
func (s *messages) Delete(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error {
	return s.Step(ctx, "delete message", func(now time.Time) error {
		err := s.ChangeOne(now, entity.ActionDelete, id, cause)
		if err != nil && s.Did(cause.Operation, entity.ActionDelete)[id] {
			return nil
		}
		return err
	})
}

// Requeue implements repository.Core. It returns the message without key, headers and value.
func (s *messages) Requeue(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	return s.move(ctx, "requeue message", entity.ActionRequeue, id, cause)
}

// MarkDead implements repository.Core. It returns the message without key, headers and value.
func (s *messages) MarkDead(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	return s.move(ctx, "give message up", entity.ActionDead, id, cause)
}

func (s *messages) move(ctx context.Context, where string, action entity.Action, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	var m entity.Message
	err := s.Step(ctx, where, func(now time.Time) error {
		err := s.ChangeOne(now, action, id, cause)
		r, ok := s.Rows[id]
		if err != nil && !(ok && s.Did(cause.Operation, action)[id]) {
			return err
		}
		m = r.Bare()
		return nil
	})
	return m, err
}

// ChangeOne deletes or requeues one message, or marks it dead. The caller must call it within Step. Its errors are only
// of the kinds ErrNotFound and ErrConflict.
func (s *messages) ChangeOne(now time.Time, action entity.Action, id uuid.UUID, cause entity.AuditInfo) error {
	r, err := s.row(id)
	if err != nil {
		return err
	}
	before := r.Message
	switch {
	case action == entity.ActionRequeue:
		err = r.requeue(now)
	case action == entity.ActionDead:
		err = r.giveUp(now, cause.Actor)
	case r.Message.Claimed():
		err = &entity.ClaimedError{ID: id, Unsettled: r.Message.Unsettled}
	default:
		delete(s.Rows, id)
	}
	if err == nil {
		s.changed(now, action, before, r, cause)
	}
	return err
}

// changed must be called after a message has changed. It remembers the operation that made the change, and calls the
// hook Changed.
func (s *messages) changed(now time.Time, action entity.Action, before entity.Message, r *Row, cause entity.AuditInfo) {
	s.Note(action, before.ID, cause)
	s.Hooks.Changed(now, action, before, r, cause)
}

// requeue makes a DEAD message PENDING. It checks for DEAD itself, because the state machine also allows the change
// from RETRYING, which only the result of an attempt may make.
func (r *Row) requeue(now time.Time) error {
	m := &r.Message
	if m.Status != entity.Dead {
		return &entity.TransitionError{From: m.Status, To: entity.Pending}
	}
	m.RetryCount, r.Rescues = 0, 0
	m.NextAttemptAt, m.Outcome = nextAttempt(m, now), ""
	return m.MarkPending(now)
}

func (r *Row) giveUp(now time.Time, actor string) error {
	m := &r.Message
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

// operationsLimit is the maximum number of changes whose operations are remembered. The oldest changes are forgotten
// first, so that the memory of a process that runs for a long time does not grow without limit. A repetition of a
// forgotten operation is treated like a new operation.
const operationsLimit = 100_000

// operation is a change, with the id of the operation that made it (see entity.AuditInfo).
type operation struct {
	id     uuid.UUID
	action entity.Action
	object uuid.UUID
}

// Performed implements repository.Operations.
func (s *messages) Performed(ctx context.Context, id uuid.UUID) (bool, error) {
	found := false
	err := s.Step(ctx, "find an operation", func(time.Time) error {
		found = id != uuid.Nil && slices.ContainsFunc(s.operations, func(o operation) bool { return o.id == id })
		return nil
	})
	return found, err
}

// Record implements repository.Operations. This store has no audit trail, so of the entry it remembers only the
// operation, the action and the object.
func (s *messages) Record(ctx context.Context, e entity.AuditEntry) error {
	return s.Step(ctx, "record an operation", func(time.Time) error {
		s.Note(e.Action, e.ObjectID, e.Cause)
		return nil
	})
}

// Did returns the messages and redrives on which the operation with the id has performed the action. It knows only the
// last operationsLimit changes.
func (s *messages) Did(id uuid.UUID, action entity.Action) map[uuid.UUID]bool {
	objects := map[uuid.UUID]bool{}
	for _, o := range s.operations {
		if o.id == id && o.action == action {
			objects[o.object] = true
		}
	}
	return objects
}

// Note remembers a change with the operation that made it, if the cause names an operation.
func (s *messages) Note(action entity.Action, object uuid.UUID, cause entity.AuditInfo) {
	if cause.Operation == uuid.Nil {
		return
	}
	s.operations = append(s.operations, operation{cause.Operation, action, object})
	if len(s.operations) > operationsLimit {
		s.operations = s.operations[1:]
	}
}
