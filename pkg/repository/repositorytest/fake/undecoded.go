package fake

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

type undecoded struct {
	tries int
	due   time.Time
}

// Undecoded implements repository.SearchIndex.
func (s *Store) Undecoded(ctx context.Context, limit int, maxBytes, maxValue int64) ([]entity.Message, error) {
	var messages []entity.Message
	err := s.Step(ctx, "find messages to decode", func(now time.Time) error {
		var due []uuid.UUID
		for id, u := range s.undecoded {
			if !u.due.After(now) {
				due = append(due, id)
			}
		}
		slices.SortFunc(due, func(a, b uuid.UUID) int { return s.undecoded[a].due.Compare(s.undecoded[b].due) })
		left := maxBytes
		for _, id := range due {
			row := s.Rows[id]
			if row == nil {
				row = s.Archived[id]
			}
			if row == nil {
				delete(s.undecoded, id)
				continue
			}
			m := row.WithFirstHeaders(maxValue)
			left -= int64(len(m.Record.Value))
			if len(messages) < limit && (left >= 0 || len(messages) == 0) {
				messages = append(messages, m)
			}
		}
		return nil
	})
	return messages, err
}

// DeferDecoding implements repository.SearchIndex.
func (s *Store) DeferDecoding(ctx context.Context, deferred []repository.DeferredDecoding) error {
	return s.Step(ctx, "defer the decoding of messages", func(now time.Time) error {
		if s.undecoded == nil {
			s.undecoded = map[uuid.UUID]undecoded{}
		}
		for _, d := range deferred {
			u := s.undecoded[d.MessageID]
			u.due = now.Add(min(d.Longest, d.First<<min(u.tries, 20)))
			u.tries++
			s.undecoded[d.MessageID] = u
		}
		return nil
	})
}

// ForgetUndecoded implements repository.SearchIndex.
func (s *Store) ForgetUndecoded(ctx context.Context, ids []uuid.UUID) error {
	return s.Step(ctx, "forget decoded messages", func(time.Time) error {
		for _, id := range ids {
			delete(s.undecoded, id)
		}
		return nil
	})
}

// CountUndecoded implements repository.SearchIndex.
func (s *Store) CountUndecoded(ctx context.Context) (count int, err error) {
	err = s.Step(ctx, "count undecoded messages", func(time.Time) error {
		count = len(s.undecoded)
		return nil
	})
	return count, err
}
