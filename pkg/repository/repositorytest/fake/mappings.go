package fake

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

// Mapping implements repository.Mappings.
func (s *Store) Mapping(ctx context.Context) (entity.Mapping, error) {
	var m entity.Mapping
	err := s.Step(ctx, "read the mapping", func(time.Time) error {
		m = s.shownMapping()
		return nil
	})
	return m, err
}

func (s *Store) shownMapping() entity.Mapping {
	m := s.mapping
	m.Rules = slices.Clone(m.Rules)
	return m
}

// ReplaceMapping implements repository.Mappings.
func (s *Store) ReplaceMapping(ctx context.Context, rules []entity.TopicRule, expected int64, cause entity.AuditInfo) (entity.Mapping, error) {
	var m entity.Mapping
	err := s.Step(ctx, "replace the mapping", func(now time.Time) error {
		switch {
		case s.mapping.Version == expected:
			s.replaceMapping(now, rules, cause)
		case !s.Did(cause.Operation, entity.ActionReplace)[uuid.Nil]:
			return &entity.MappingConflictError{Version: s.mapping.Version}
		}
		m = s.shownMapping()
		return nil
	})
	return m, err
}

func (s *Store) replaceMapping(now time.Time, rules []entity.TopicRule, cause entity.AuditInfo) {
	from := s.mapping.Version
	s.mapping = entity.Mapping{Version: from + 1, UpdatedAt: now, UpdatedBy: cause.Actor}
	if len(rules) > 0 {
		s.mapping.Rules = slices.Clone(rules)
	}
	s.record(entity.AuditEntry{
		At: now, Action: entity.ActionReplace, Kind: entity.KindMapping,
		From: strconv.FormatInt(from, 10), To: strconv.FormatInt(from+1, 10),
		LastError: repository.RulesText(rules), Cause: cause,
	})
}

// Unmapped implements repository.Mappings. Topics with equal numbers of messages are ordered by name.
func (s *Store) Unmapped(ctx context.Context, visible *entity.TopicPatterns) ([]repository.UnmappedTopic, error) {
	var topics []repository.UnmappedTopic
	err := s.Step(ctx, "list topics without an original", func(time.Time) error {
		counts := map[string]int64{}
		for _, r := range s.Rows {
			if m := &r.Message; m.OriginalTopic == "" && (visible == nil || visible.Sees(m)) {
				counts[m.Source.Topic]++
			}
		}
		for topic, n := range counts {
			topics = append(topics, repository.UnmappedTopic{DLQTopic: topic, Messages: n})
		}
		slices.SortFunc(topics, func(a, b repository.UnmappedTopic) int {
			return cmp.Or(cmp.Compare(b.Messages, a.Messages), strings.Compare(a.DLQTopic, b.DLQTopic))
		})
		return nil
	})
	return topics, err
}

// mapMessages implements repository.Selections.Change for the action entity.RedriveMap.
func (s *Store) mapMessages(ctx context.Context, c repository.Change, cause entity.AuditInfo) ([]uuid.UUID, error) {
	if !entity.ValidTopic(c.OriginalTopic) {
		return nil, fmt.Errorf("map messages: original topic %q: %w", c.OriginalTopic, entity.ErrInvalid)
	}
	var changed []uuid.UUID
	err := s.Step(ctx, "map messages", func(now time.Time) error {
		if !s.leased(c.Lease) {
			return nil
		}
		performed := s.Did(cause.Operation, entity.ActionMap)
		for _, id := range memory.Unique(c.IDs) {
			if s.mapTo(now, id, c, cause) || performed[id] {
				changed = append(changed, id)
			}
		}
		return nil
	})
	return changed, err
}

// mapTo sets the original topic of one message. It returns true when the message has this topic afterwards, set by an
// operator. The consumer group that failed to process the message is stored as a consumer group of the topic.
func (s *Store) mapTo(now time.Time, id uuid.UUID, c repository.Change, cause entity.AuditInfo) bool {
	r, ok := s.Rows[id]
	if !ok || !mappable(&r.Message) || r.Message.Origin.Confidence == entity.FromHeader && !c.OverHeader {
		return false
	}
	m, topic := &r.Message, c.OriginalTopic
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
		s.saveGroup(repository.TopicGroup{Topic: topic, Group: group})
	}
	return true
}
