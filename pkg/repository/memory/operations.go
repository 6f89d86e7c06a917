package memory

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// operationsLimit is how many changes are remembered, the newest: the memory of a
// process must not grow with everything that ever happened in it.
const operationsLimit = 100_000

// operation is a change that was made by an operation (entity.Cause).
type operation struct {
	id     uuid.UUID
	action entity.Action
	object uuid.UUID
}

// Performed implements repository.Operations.
func (s *Store) Performed(ctx context.Context, id uuid.UUID) (bool, error) {
	found := false
	err := s.step(ctx, "look for an operation", func(time.Time) error {
		found = id != uuid.Nil && slices.ContainsFunc(s.operations, func(o operation) bool { return o.id == id })
		return nil
	})
	return found, err
}

// Record implements repository.Operations. There is no audit trail to append to.
func (s *Store) Record(ctx context.Context, e entity.AuditEntry) error {
	return s.step(ctx, "record an operation", func(time.Time) error {
		s.note(e.Action, e.ObjectID, e.Cause)
		return nil
	})
}

// performedOn returns the objects to which an operation has done what action says,
// as far as the store remembers.
func (s *Store) performedOn(id uuid.UUID, action entity.Action) map[uuid.UUID]bool {
	objects := map[uuid.UUID]bool{}
	for _, o := range s.operations {
		if o.id == id && o.action == action {
			objects[o.object] = true
		}
	}
	return objects
}

// note remembers a change that was made by an operation.
func (s *Store) note(action entity.Action, object uuid.UUID, cause entity.Cause) {
	if cause.Operation == uuid.Nil {
		return
	}
	s.operations = append(s.operations, operation{cause.Operation, action, object})
	if len(s.operations) > operationsLimit {
		s.operations = s.operations[1:]
	}
}
