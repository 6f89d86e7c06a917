package fake

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// trailLimit is how many entries are kept, the newest: the memory of a process
// must not grow with everything that ever happened in it.
const trailLimit = 100_000

// Trail implements repository.Audit.
func (s *Store) Trail(ctx context.Context, q repository.TrailQuery) ([]entity.AuditEntry, error) {
	var entries []entity.AuditEntry
	err := s.step(ctx, "read the audit trail", func(time.Time) error {
		for _, e := range slices.Backward(s.trail) {
			if len(entries) >= q.Limit {
				return nil
			}
			if asked(e, q) {
				entries = append(entries, e)
			}
		}
		return nil
	})
	return entries, err
}

// asked reports whether everything that q names is true of e.
func asked(e entity.AuditEntry, q repository.TrailQuery) bool {
	return (q.ObjectID == uuid.Nil || e.ObjectID == q.ObjectID) &&
		(q.Kind == "" || e.Kind == q.Kind) &&
		(q.Actor == "" || e.Cause.Actor == q.Actor) &&
		(q.Action == "" || e.Action == q.Action) &&
		(q.RequestID == "" || e.Cause.RequestID == q.RequestID) &&
		(q.After.IsZero() || !e.At.Before(entity.Moment(q.After))) &&
		(q.Before == 0 || e.ID < q.Before) &&
		(q.Visible == nil || e.Topics == "" || slices.ContainsFunc(strings.Split(e.Topics, ","), q.Visible.Match))
}

// Performed implements repository.Operations.
func (s *Store) Performed(ctx context.Context, operation uuid.UUID) (bool, error) {
	found := false
	err := s.step(ctx, "look for an operation", func(time.Time) error {
		found = operation != uuid.Nil && slices.ContainsFunc(s.trail, func(e entity.AuditEntry) bool {
			return e.Cause.Operation == operation
		})
		return nil
	})
	return found, err
}

// PerformedOn implements repository.Selections, in the order of ids.
func (s *Store) PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error) {
	var found []uuid.UUID
	err := s.step(ctx, "look for changes of an operation", func(time.Time) error {
		performed := s.performedOn(operation, action)
		for _, id := range unique(ids) {
			if performed[id] {
				found = append(found, id)
			}
		}
		return nil
	})
	return found, err
}

// Record implements repository.Operations.
func (s *Store) Record(ctx context.Context, e entity.AuditEntry) error {
	return s.step(ctx, "record in the audit trail", func(now time.Time) error {
		again := e.Cause.Operation != uuid.Nil && slices.ContainsFunc(s.trail, func(known entity.AuditEntry) bool {
			return known.Cause.Operation == e.Cause.Operation && known.Action == e.Action && known.Kind == e.Kind &&
				known.ObjectID == e.ObjectID
		})
		if !again {
			e.At = now
			s.record(e)
		}
		return nil
	})
}

// performedOn returns the objects to which an operation has done what action says,
// as far as the trail goes back.
func (s *Store) performedOn(operation uuid.UUID, action entity.Action) map[uuid.UUID]bool {
	objects := map[uuid.UUID]bool{}
	if operation == uuid.Nil {
		return objects
	}
	for _, e := range s.trail {
		if e.Cause.Operation == operation && e.Action == action {
			objects[e.ObjectID] = true
		}
	}
	return objects
}

// note appends what happened to a message to the trail. before is the message as
// it was, with the error that the entry is to show.
func (s *Store) note(now time.Time, action entity.Action, before entity.Message, to entity.Status, count int, cause entity.Cause) {
	s.record(entity.AuditEntry{
		At: now, Action: action, Kind: entity.KindMessage, ObjectID: before.ID,
		From: string(before.Status), To: string(to), RetryCount: count,
		Class: before.LastPublishErrorClass, LastError: before.LastPublishError, Cause: cause,
	})
}

// record appends an entry and gives it its number.
func (s *Store) record(e entity.AuditEntry) {
	e.ID = 1
	if n := len(s.trail); n > 0 {
		e.ID = s.trail[n-1].ID + 1
	}
	s.trail = append(s.trail, e)
	if len(s.trail) > trailLimit {
		s.trail[0] = entity.AuditEntry{} // lets go of its texts before the array moves
		s.trail = s.trail[1:]
	}
}
