package fake

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Views implements repository.Views.
func (s *Store) Views(ctx context.Context, owner string) ([]entity.View, error) {
	var views []entity.View
	err := s.Step(ctx, "list views", func(time.Time) error {
		for _, v := range s.views {
			if v.Shared || v.Owner == owner {
				views = append(views, v)
			}
		}
		slices.SortFunc(views, func(a, b entity.View) int {
			if a.Shared != b.Shared {
				return cmp.Compare(order(a), order(b))
			}
			return strings.Compare(a.Name, b.Name)
		})
		return nil
	})
	return views, err
}

// order returns a sort key with which the owner's views come first and the shared ones after them.
func order(v entity.View) int {
	if v.Shared {
		return 1
	}
	return 0
}

// SaveView implements repository.Views.
func (s *Store) SaveView(ctx context.Context, v entity.View, cause entity.AuditInfo) (entity.View, error) {
	err := s.Step(ctx, "save a view", func(now time.Time) error {
		known, there := s.views[v.ID]
		for _, other := range s.views {
			taken := other.Name == v.Name && other.Shared == v.Shared && (v.Shared || other.Owner == v.Owner)
			there = there || v.Version == 0 && taken
		}
		if there != (v.Version > 0) || known.Version != v.Version {
			return &entity.ViewConflictError{Name: v.Name}
		}
		if there {
			known.List, known.Query = v.List, v.Query
			v = known
		}
		v.Version, v.UpdatedAt = v.Version+1, now
		s.views[v.ID] = v
		s.recordView(now, entity.ActionSave, v, cause)
		return nil
	})
	if err != nil {
		return entity.View{}, err
	}
	return v, nil
}

// DeleteView implements repository.Views.
func (s *Store) DeleteView(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error {
	return s.Step(ctx, "delete a view", func(now time.Time) error {
		if v, there := s.views[id]; there {
			delete(s.views, id)
			s.recordView(now, entity.ActionDelete, v, cause)
		}
		return nil
	})
}

func (s *Store) recordView(now time.Time, action entity.Action, v entity.View, cause entity.AuditInfo) {
	if v.Shared {
		s.record(entity.AuditEntry{
			At: now, Action: action, Kind: entity.KindView, ObjectID: v.ID, LastError: v.Name + ": " + v.Query, Cause: cause,
		})
	}
}
