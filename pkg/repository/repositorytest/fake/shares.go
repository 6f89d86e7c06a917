package fake

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// CountPointers implements repository.Shares.
func (s *Store) CountPointers(ctx context.Context, removed map[string]time.Time) ([]repository.PointerCount, error) {
	var counts []repository.PointerCount
	err := s.Step(ctx, "count pointers", func(time.Time) error {
		for _, r := range s.Rows {
			m := &r.Message
			if m.Share == nil || m.Share.State != entity.CompletionWaiting && m.Share.State != entity.CompletionRefused {
				continue
			}
			i := slices.IndexFunc(counts, func(c repository.PointerCount) bool { return c.Topic == m.OriginalTopic && c.State == m.Share.State })
			if i < 0 {
				i = len(counts)
				counts = append(counts, repository.PointerCount{Topic: m.OriginalTopic, State: m.Share.State})
			}
			c := &counts[i]
			c.Count++
			dead := m.Source.Timestamp
			if m.Share.State == entity.CompletionRefused && !dead.After(removed[m.OriginalTopic]) {
				continue
			}
			if c.OldestDeath.IsZero() || dead.Before(c.OldestDeath) {
				c.OldestDeath = dead
			}
		}
		return nil
	})
	slices.SortFunc(counts, func(a, b repository.PointerCount) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), strings.Compare(string(a.State), string(b.State)))
	})
	return counts, err
}
