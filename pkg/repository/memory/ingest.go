package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// OpenTopics implements repository.Ingest.
func (s *Store) OpenTopics(ctx context.Context, topics []repository.Topic) ([]repository.TopicRef, error) {
	refs := make([]repository.TopicRef, 0, len(topics))
	err := s.step(ctx, "open topics", func(time.Time) error {
		for _, t := range topics {
			refs = append(refs, s.ref(t))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return refs, nil
}

// ref returns the numbers of a topic and makes those that are new. They count
// from 1, so that 0 stays "none".
func (s *Store) ref(t repository.Topic) repository.TopicRef {
	id, ok := s.topicIDs[t.Name]
	if !ok {
		id = int32(len(s.topicIDs) + 1)
		s.topicIDs[t.Name], s.topicNames[id] = id, t.Name
	}
	life, ok := s.incarnations[t]
	if !ok {
		life = int32(len(s.incarnations) + 1)
		s.incarnations[t] = life
	}
	return repository.TopicRef{TopicID: id, Incarnation: life}
}

// OpenPosition implements repository.Ingest.
func (s *Store) OpenPosition(ctx context.Context, starts []repository.Position) ([]repository.Position, error) {
	positions := make([]repository.Position, 0, len(starts))
	err := s.step(ctx, "open positions", func(time.Time) error {
		for _, start := range starts {
			next, ok := s.positions[start.Partition]
			if !ok {
				next = start.Next
				s.positions[start.Partition] = next
			}
			positions = append(positions, repository.Position{Partition: start.Partition, Next: next})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return positions, nil
}

// Mark implements repository.Ingest.
func (s *Store) Mark(ctx context.Context, p repository.Partition) (mark *repository.Mark, err error) {
	err = s.step(ctx, "read mark", func(time.Time) error {
		if m, ok := s.marks[p]; ok {
			mark = &m
		}
		return nil
	})
	return mark, err
}

// NoteMark implements repository.Ingest.
func (s *Store) NoteMark(ctx context.Context, p repository.Partition, m repository.Mark) error {
	return s.step(ctx, "note mark", func(time.Time) error {
		if _, ok := s.positions[p]; ok {
			s.marks[p] = m
		}
		return nil
	})
}

// Store implements repository.Ingest. It knows returns by their headers only, whatever
// the batch's window. An id that exists already is entity.ErrConflict, and nothing of
// the batch is stored.
func (s *Store) Store(ctx context.Context, batch repository.Batch) (repository.Stored, error) {
	var stored repository.Stored
	err := s.step(ctx, "store messages", func(now time.Time) error {
		steps := s.matching(batch.Ranges)
		messages, err := s.counting(batch.Messages, steps)
		if err != nil {
			return err
		}
		for p, to := range steps {
			s.positions[p] = to
			stored.Ranges = append(stored.Ranges, p)
		}
		for _, m := range messages {
			if parent, attempt, ok := s.parentOf(m); ok {
				stored.Returns = append(stored.Returns, arrive(m, parent, attempt, batch))
			}
		}
		for _, m := range messages {
			m.CreatedAt, m.UpdatedAt, m.Return = now, now, nil
			s.rows[m.ID] = s.newRow(*m)
		}
		return nil
	})
	return stored, err
}

// matching returns where the ranges lead that begin exactly at their partition's
// position.
func (s *Store) matching(ranges []repository.Range) map[repository.Partition]int64 {
	steps := make(map[repository.Partition]int64, len(ranges))
	for _, r := range ranges {
		if next, ok := s.positions[r.Partition]; ok && next == r.From {
			steps[r.Partition] = r.To
		}
	}
	return steps
}

// counting returns copies of the messages whose ranges count.
func (s *Store) counting(messages []entity.Message, steps map[repository.Partition]int64) ([]*entity.Message, error) {
	var out []*entity.Message
	for _, m := range messages {
		p := repository.Partition{Incarnation: m.Source.Incarnation, Partition: m.Source.Partition}
		if _, counts := steps[p]; !counts {
			continue
		}
		if _, exists := s.rows[m.ID]; exists {
			return nil, fmt.Errorf("message %s exists: %w", m.ID, entity.ErrConflict)
		}
		out = append(out, &m)
	}
	return out, nil
}

// newRow keeps the topic's name under its number, as every reader sees it.
func (s *Store) newRow(m entity.Message) *row {
	if name, ok := s.topicNames[m.Source.TopicID]; ok {
		m.Source.Topic = name
	}
	return &row{message: kept(m)}
}

// Insert puts a message in as it is, in any state, over one with the same id.
// It is for tests and development and not part of the contract. A source that
// has a topic's name and no numbers gets them.
func (s *Store) Insert(m entity.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Source.Topic != "" && m.Source.TopicID == 0 {
		ref := s.ref(repository.Topic{Name: m.Source.Topic})
		m.Source.TopicID, m.Source.Incarnation = ref.TopicID, ref.Incarnation
	}
	s.rows[m.ID] = s.newRow(m)
}
