package fake

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Mapping implements repository.Mappings.
func (s *Store) Mapping(ctx context.Context) (entity.Mapping, error) {
	var m entity.Mapping
	err := s.step(ctx, "read the mapping", func(time.Time) error {
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
func (s *Store) ReplaceMapping(ctx context.Context, rules []entity.TopicRule, expected int64, cause entity.Cause) (entity.Mapping, error) {
	var m entity.Mapping
	err := s.step(ctx, "replace the mapping", func(now time.Time) error {
		switch {
		case s.mapping.Version == expected:
			s.replaceMapping(now, rules, cause)
		case !s.performedOn(cause.Operation, entity.ActionReplace)[uuid.Nil]:
			return &entity.MappingConflictError{Version: s.mapping.Version}
		}
		m = s.shownMapping()
		return nil
	})
	return m, err
}

func (s *Store) replaceMapping(now time.Time, rules []entity.TopicRule, cause entity.Cause) {
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

// Unmapped implements repository.Mappings, ties by name.
func (s *Store) Unmapped(ctx context.Context, visible *entity.TopicPatterns) ([]repository.UnmappedTopic, error) {
	var topics []repository.UnmappedTopic
	err := s.step(ctx, "list topics without an original", func(time.Time) error {
		counts := map[string]int64{}
		for _, r := range s.rows {
			if m := &r.message; m.OriginalTopic == "" && (visible == nil || visible.Sees(m)) {
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
