package memory

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Due implements repository.Attempts. It goes through everything at once: there
// is a place to go on only when not all that were never attempted fit.
func (s *Store) Due(ctx context.Context, q repository.DueQuery) ([]uuid.UUID, repository.Place, error) {
	var due []uuid.UUID
	var next repository.Place
	err := s.step(ctx, "find due messages", func(now time.Time) error {
		last := q.After
		for _, r := range s.oldestFirst(func(m *entity.Message) bool { return dueNow(m, q, now) }) {
			m := &r.message
			fresh := m.NextAttemptAt.IsZero()
			switch {
			case len(due) < q.Limit:
				due = append(due, m.ID)
				if fresh {
					last = repository.Place{CreatedAt: m.CreatedAt, ID: m.ID}
				}
			case fresh:
				next = last
				return nil
			}
		}
		return nil
	})
	return due, next, err
}

func dueNow(m *entity.Message, q repository.DueQuery, now time.Time) bool {
	switch {
	case m.CanClaim() != nil || !slices.Contains(q.Topics, m.OriginalTopic):
		return false
	case m.Origin.Confidence != entity.FromOperator && slices.Contains(q.Except, repository.TopicPair{Original: m.OriginalTopic, DLQ: m.Source.Topic}):
		return false
	case m.NextAttemptAt.IsZero():
		return behind(m, q.After)
	default:
		return !m.NextAttemptAt.After(now)
	}
}

// behind reports whether m stands behind a place.
func behind(m *entity.Message, p repository.Place) bool {
	if order := m.CreatedAt.Compare(p.CreatedAt); order != 0 {
		return order > 0
	}
	return bytes.Compare(m.ID[:], p.ID[:]) > 0
}

// Stuck implements repository.Attempts.
func (s *Store) Stuck(ctx context.Context, age time.Duration) (int64, error) {
	var n int64
	err := s.step(ctx, "count stuck messages", func(now time.Time) error {
		for _, r := range s.rows {
			if r.message.Claimed() && r.message.LastRetryAt.Before(now.Add(-age)) {
				n++
			}
		}
		return nil
	})
	return n, err
}
