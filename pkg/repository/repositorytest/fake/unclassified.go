package fake

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// groupLimit is how many error groups a dead-letter topic created in an hour.
type groupLimit struct {
	hour    time.Time
	created int
	refused bool // messages may be unclassified
}

// AdmitFingerprints implements repository.Groups.
func (s *Store) AdmitFingerprints(ctx context.Context, failures []repository.TopicFailure) ([]repository.TopicFailure, error) {
	var admitted []entity.Fingerprint
	var refused []repository.TopicFailure
	err := s.step(ctx, "admit error groups", func(now time.Time) error {
		admits := map[uuid.UUID]bool{}
		for _, f := range failures {
			id := f.ID()
			if s.errorGroups[id] == nil && !admits[id] && !s.groupLimit(f.DLQTopic, now).take() {
				refused = append(refused, f)
				continue
			}
			admits[id] = true
			admitted = append(admitted, f.Fingerprint)
		}
		refused = slices.DeleteFunc(refused, func(f repository.TopicFailure) bool { return admits[f.ID()] })
		for _, f := range refused {
			admitted = append(admitted, entity.Unclassified(f.DLQTopic))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return refused, s.NoteFingerprints(ctx, admitted)
}

// groupLimit is the limit of a topic in the hour of now.
func (s *Store) groupLimit(topic string, now time.Time) *groupLimit {
	l := s.groupLimits[topic]
	if l == nil {
		l = &groupLimit{}
		s.groupLimits[topic] = l
	}
	if hour := now.Truncate(time.Hour); !l.hour.Equal(hour) {
		l.hour, l.created = hour, 0
	}
	return l
}

// take counts one group more, or notes that it is one too many.
func (l *groupLimit) take() bool {
	if l.created >= repository.MaxNewGroups {
		l.refused = true
		return false
	}
	l.created++
	return true
}

// Unclassified implements repository.Catalogue.
func (s *Store) Unclassified(ctx context.Context, limit int, maxBytes int64) ([]entity.Message, error) {
	var messages []entity.Message
	err := s.step(ctx, "find unclassified messages", func(now time.Time) error {
		for _, topic := range slices.Sorted(maps.Keys(s.groupLimits)) {
			l := s.groupLimit(topic, now)
			if !l.refused || l.created >= repository.MaxNewGroups {
				continue
			}
			group := entity.Unclassified(topic).ID()
			for _, r := range s.oldestFirst(func(m *entity.Message) bool { return m.Group == group }) {
				m := r.loaded(0)
				maxBytes -= size(&m.Record) + int64(len(m.ErrorMessage))
				if len(messages) >= limit || maxBytes < 0 && len(messages) > 0 {
					return nil
				}
				messages = append(messages, m)
			}
		}
		return nil
	})
	return messages, err
}

// Classify implements repository.Catalogue.
func (s *Store) Classify(ctx context.Context, moves []repository.Classification) error {
	return s.step(ctx, "classify messages", func(time.Time) error {
		for _, move := range moves {
			r := s.rows[move.MessageID]
			if r == nil || r.message.Group != entity.Unclassified(move.DLQTopic).ID() {
				continue
			}
			r.message.Group = move.Group
			s.arrived(r)
		}
		return nil
	})
}
