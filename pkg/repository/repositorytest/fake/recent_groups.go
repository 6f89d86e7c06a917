package fake

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// CountRecentGroups implements repository.RecentGroups.
func (s *Store) CountRecentGroups(ctx context.Context, within time.Duration, except []uuid.UUID) (repository.RecentCount, error) {
	var n repository.RecentCount
	err := s.step(ctx, "count recent groups", func(now time.Time) error {
		since := now.Add(-within)
		for id, g := range s.errorGroups {
			if g.mutedIn(s.arrivedIn(id, time.Time{})) || slices.Contains(except, id) {
				continue
			}
			if g.firstSeen.After(since) {
				n.New++
			}
			if g.regressedAt.After(since) {
				n.Regressed++
			}
		}
		return nil
	})
	return n, err
}
