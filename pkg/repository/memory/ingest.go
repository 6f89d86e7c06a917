package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// OpenTopics implements repository.Ingest.
func (s *messages) OpenTopics(ctx context.Context, topics []repository.Topic) ([]repository.TopicRef, error) {
	refs := make([]repository.TopicRef, 0, len(topics))
	err := s.Step(ctx, "open topics", func(time.Time) error {
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

// ref returns the ids of a topic and its incarnation, and assigns ids to new topics. The ids begin at 1, because 0
// means that there is no id.
func (s *messages) ref(t repository.Topic) repository.TopicRef {
	id, ok := s.topicIDs[t.Name]
	if !ok {
		id = int32(len(s.topicIDs) + 1)
		s.topicIDs[t.Name], s.topicNames[id] = id, t.Name
	}
	life, ok := s.Incarnations[t]
	if !ok {
		life = int32(len(s.Incarnations) + 1)
		s.Incarnations[t] = life
	}
	return repository.TopicRef{TopicID: id, Incarnation: life}
}

// OpenPosition implements repository.Ingest.
func (s *messages) OpenPosition(ctx context.Context, starts []repository.Position) ([]repository.Position, error) {
	positions := make([]repository.Position, 0, len(starts))
	err := s.Step(ctx, "open positions", func(time.Time) error {
		for _, start := range starts {
			next, ok := s.Positions[start.Partition]
			if !ok {
				next = start.Next
				s.Positions[start.Partition] = next
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
func (s *messages) Mark(ctx context.Context, p repository.Partition) (mark *repository.Mark, err error) {
	err = s.Step(ctx, "read mark", func(time.Time) error {
		if m, ok := s.marks[p]; ok {
			mark = &m
		}
		return nil
	})
	return mark, err
}

// SaveMark implements repository.Ingest.
func (s *messages) SaveMark(ctx context.Context, p repository.Partition, m repository.Mark) error {
	return s.Step(ctx, "store mark", func(time.Time) error {
		if _, ok := s.Positions[p]; ok {
			s.marks[p] = m
		}
		return nil
	})
}

// Store implements repository.Ingest. It recognises a return only by the record's headers, not by key and value, so
// batch.ReturnWindow has no effect. When a live message has the id of a message that would be stored, nothing of the
// batch is stored, and the error is entity.ErrConflict.
func (s *messages) Store(ctx context.Context, batch repository.Batch) (repository.Stored, error) {
	var stored repository.Stored
	err := s.Step(ctx, "store messages", func(now time.Time) error {
		steps := s.matching(batch.Ranges)
		messages, err := s.counting(batch.Messages, steps)
		if err != nil {
			return err
		}
		for p, to := range steps {
			s.Positions[p] = to
			stored.Ranges = append(stored.Ranges, p)
		}
		messages = s.withoutRepeats(messages, now)
		stored.Returns = s.Hooks.Returns(messages, batch, now)
		rows := make([]*Row, len(messages))
		for i, m := range messages {
			m.CreatedAt, m.UpdatedAt, m.Return, m.Digest = now, now, nil, uuid.Nil
			rows[i] = s.NewRow(*m)
			s.Rows[m.ID] = rows[i]
		}
		s.Hooks.Arrived(rows...)
		return nil
	})
	return stored, err
}

// matching finds the ranges that may be stored, which begin exactly at the position of their partition. It returns the
// new position of each of these partitions.
func (s *messages) matching(ranges []repository.Range) map[repository.Partition]int64 {
	steps := make(map[repository.Partition]int64, len(ranges))
	for _, r := range ranges {
		if next, ok := s.Positions[r.Partition]; ok && next == r.From {
			steps[r.Partition] = r.To
		}
	}
	return steps
}

// counting returns copies of the messages whose partitions are in steps, which contains the partitions whose ranges are
// stored. When such a message exists already, the error is entity.ErrConflict.
func (s *messages) counting(messages []entity.Message, steps map[repository.Partition]int64) ([]*entity.Message, error) {
	var out []*entity.Message
	for _, m := range messages {
		p := repository.Partition{Incarnation: m.Source.Incarnation, Partition: m.Source.Partition}
		if _, counts := steps[p]; !counts {
			continue
		}
		if _, exists := s.Rows[m.ID]; exists {
			return nil, fmt.Errorf("message %s exists: %w", m.ID, entity.ErrConflict)
		}
		out = append(out, &m)
	}
	return out, nil
}

// withoutRepeats counts the repeats among messages that will be stored, and returns the other messages. A repeat of a
// final message becomes a message of its own.
func (s *messages) withoutRepeats(messages []*entity.Message, now time.Time) []*entity.Message {
	stored := map[uuid.UUID]*entity.Message{}
	return slices.DeleteFunc(messages, func(m *entity.Message) bool {
		if m.Digest == uuid.Nil {
			return false
		}
		first := stored[s.recent[m.Digest]]
		if r, ok := s.Rows[s.recent[m.Digest]]; ok && now.Sub(r.Message.CreatedAt) <= entity.RepeatWindow {
			first = &r.Message
		}
		if first != nil && !first.Status.Final() {
			first.Repeats = first.Repeats.With(entity.RepeatPosition{Partition: m.Source.Partition, Offset: m.Source.Offset})
			return true
		}
		if first != nil {
			m.Repeats.Of = first.Repeats.Of
			if m.Repeats.Of == uuid.Nil {
				m.Repeats.Of = first.ID
			}
		}
		s.recent[m.Digest], stored[m.ID] = m.ID, m
		return false
	})
}

// NewRow returns the row of a message. It sets the name of the dead-letter topic to the name that belongs to the
// topic's id.
func (s *messages) NewRow(m entity.Message) *Row {
	if name, ok := s.topicNames[m.Source.TopicID]; ok {
		m.Source.Topic = name
	}
	return &Row{Message: kept(m)}
}

// Insert stores a message in any status, with its own times, and replaces a message with the same id. It is for tests
// and development; repository.Core does not contain it. When the message has the name of its dead-letter topic but no
// topic id, Insert sets the topic id and the incarnation.
func (s *messages) Insert(m entity.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m.Source.Topic != "" && m.Source.TopicID == 0 {
		ref := s.ref(repository.Topic{Name: m.Source.Topic})
		m.Source.TopicID, m.Source.Incarnation = ref.TopicID, ref.Incarnation
	}
	r := s.NewRow(m)
	s.Rows[m.ID] = r
	s.Hooks.Arrived(r)
}

// returns finds the messages that are returns according to ParentOf, and makes each of them the child of its parent.
func (s *messages) returns(messages []*entity.Message, batch repository.Batch, _ time.Time) []repository.Arrival {
	var arrivals []repository.Arrival
	for _, m := range messages {
		if parent, attempt, ok := s.ParentOf(m); ok {
			arrivals = append(arrivals, Arrive(m, parent, attempt, Confirms(m, parent, batch)))
		}
	}
	return arrivals
}

// Confirms reports whether the return m of an attempt on parent is confirmed. It is confirmed if it arrived in the
// parent's dead-letter topic, or in a dead-letter topic that is declared for the original topic of m.
func Confirms(m *entity.Message, parent *Row, batch repository.Batch) bool {
	source := m.Source.TopicID
	return source != 0 && source == parent.Message.Source.TopicID || batch.Declared != nil && batch.Declared(m)
}

// ParentOf returns the message and the attempt that the field Return of m names. It returns false when no such attempt
// exists, or when the attempt went to another topic than the original topic of m.
func (s *messages) ParentOf(m *entity.Message) (*Row, entity.Attempt, bool) {
	if m.Return == nil {
		return nil, entity.Attempt{}, false
	}
	r, ok := s.Rows[m.Return.Parent]
	if !ok {
		return nil, entity.Attempt{}, false
	}
	for _, a := range r.Attempts {
		if a.ID == m.Return.Attempt && a.Topic == m.OriginalTopic {
			return r, a, true
		}
	}
	if claim := r.Message.Claim; claim.ID == m.Return.Attempt && claim.Topic == m.OriginalTopic {
		return r, entity.Attempt{ID: claim.ID, RetryCount: r.Message.RetryCount, RedriveID: claim.RedriveID}, true
	}
	return nil, entity.Attempt{}, false
}

// Arrive makes a message the child of its parent. When the return is confirmed, the parent's outcome becomes returned;
// otherwise the message is marked as an unconfirmed return.
func Arrive(m *entity.Message, parent *Row, attempt entity.Attempt, confirmed bool) repository.Arrival {
	from := parent.Message
	from.RetryCount = attempt.RetryCount
	m.Descend(&from)
	if confirmed {
		parent.Message.Outcome = entity.Returned
		if parent.Returned == nil {
			parent.Returned = map[uuid.UUID]uuid.UUID{}
		}
		parent.Returned[attempt.ID] = attempt.RedriveID
	} else {
		m.UnconfirmedReturn = true
	}
	return repository.Arrival{
		MessageID: m.ID, Parent: m.Parent, Root: m.Root, Topic: m.OriginalTopic,
		RetryCount: m.RetryCount, MaxRetries: m.MaxRetries, Status: m.Status, Confirmed: confirmed,
	}
}

// returnsOf returns the number of attempts of a redrive whose return is confirmed.
func (s *messages) returnsOf(redrive uuid.UUID) int {
	n := 0
	for _, r := range s.Rows {
		for _, made := range r.Returned {
			if made == redrive {
				n++
			}
		}
	}
	return n
}
