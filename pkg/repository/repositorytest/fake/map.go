package fake

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// mapMessages is Change with entity.RedriveMap.
func (s *Store) mapMessages(ctx context.Context, c repository.Change, cause entity.Cause) ([]uuid.UUID, error) {
	if !entity.ValidTopic(c.OriginalTopic) {
		return nil, fmt.Errorf("map messages: original topic %q: %w", c.OriginalTopic, entity.ErrInvalid)
	}
	var changed []uuid.UUID
	err := s.step(ctx, "map messages", func(now time.Time) error {
		if !s.leased(c.Lease) {
			return nil
		}
		performed := s.performedOn(cause.Operation, entity.ActionMap)
		for _, id := range unique(c.IDs) {
			if s.mapTo(now, id, c, cause) || performed[id] {
				changed = append(changed, id)
			}
		}
		return nil
	})
	return changed, err
}

// mapTo sets the original topic of one message, and reports whether it has it now
// from an operator. The consumer group that failed on it is noted for the topic.
func (s *Store) mapTo(now time.Time, id uuid.UUID, c repository.Change, cause entity.Cause) bool {
	r, ok := s.rows[id]
	if !ok || !mappable(&r.message) || r.message.Origin.Confidence == entity.FromHeader && !c.OverHeader {
		return false
	}
	m, topic := &r.message, c.OriginalTopic
	if m.OriginalTopic == topic && m.Origin.Confidence == entity.FromOperator {
		return true
	}
	s.record(entity.AuditEntry{
		At: now, Action: entity.ActionMap, Kind: entity.KindMessage, ObjectID: id,
		From: m.OriginalTopic, To: topic, RetryCount: m.RetryCount,
		Class: m.LastPublishErrorClass, LastError: m.LastPublishError, Cause: cause,
	})
	if m.Origin.Confidence == entity.FromHeader && m.OriginalTopic != topic {
		m.Origin.Partition, m.Origin.Offset = nil, nil
	}
	m.OriginalTopic, m.Origin.Confidence, m.UpdatedAt = topic, entity.FromOperator, now
	if group := m.Failure.ConsumerGroup; group != "" {
		s.noteGroup(repository.TopicGroup{Topic: topic, Group: group})
	}
	return true
}
