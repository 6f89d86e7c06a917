package fake

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Change implements repository.Selections.
func (s *Store) Change(ctx context.Context, c repository.Change, cause entity.AuditInfo) ([]uuid.UUID, error) {
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
	err := s.Step(ctx, "change messages", func(now time.Time) error {
		if !s.leased(c.Lease) {
			return nil
		}
		performed := s.Did(cause.Operation, as)
		for _, id := range c.IDs {
			// When ChangeOne returns an error, the message was deleted or its status forbids the change. The message
			// counts as changed only if the same operation has changed it before.
			if s.ChangeOne(now, as, id, cause) == nil || performed[id] {
				changed = append(changed, id)
				delete(performed, id)
			}
		}
		return nil
	})
	return changed, err
}

// leased reports whether the parameter l is the zero Lease, or the lease of a batch that the owner in l still holds.
func (s *Store) leased(l repository.Lease) bool {
	if l == (repository.Lease{}) {
		return true
	}
	r, ok := s.core.Redrives[l.RedriveID]
	return ok && l.Number < len(r.Batches) && r.Batches[l.Number].Owner == l.Owner
}
