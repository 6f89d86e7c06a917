package fake

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// groupOrigin says how the store knows that a consumer group reads a topic: from messages (noted), from the
// configuration, or from both.
type groupOrigin struct{ noted, configured bool }

// partitionOfGroup is the key of a committed offset: the consumer group, the topic with its id, and the partition.
type partitionOfGroup struct {
	repository.TopicGroup
	topicID   string
	partition int32
}

type commit struct {
	offset int64
	seenAt time.Time
}

// SaveConsumerGroups implements repository.Outcomes.
func (s *Store) SaveConsumerGroups(ctx context.Context, groups []repository.TopicGroup) error {
	return s.Step(ctx, "store consumer groups", func(time.Time) error {
		for _, g := range groups {
			s.saveGroup(g)
		}
		return nil
	})
}

// saveGroup stores that a consumer group named by a message reads a topic. It stores no further group when the topic
// already has repository.MaxTopicGroups.
func (s *Store) saveGroup(g repository.TopicGroup) {
	known, there := s.groups[g]
	if !there && s.topicGroups(g.Topic) >= repository.MaxTopicGroups {
		return
	}
	known.noted = true
	s.groups[g] = known
}

func (s *Store) topicGroups(topic string) (n int) {
	for g := range s.groups {
		if g.Topic == topic {
			n++
		}
	}
	return n
}

// ConfigureGroups implements repository.Outcomes.
func (s *Store) ConfigureGroups(ctx context.Context, groups []repository.TopicGroup) error {
	return s.Step(ctx, "configure consumer groups", func(time.Time) error {
		for g, known := range s.groups {
			known.configured = false
			s.groups[g] = known
			if !known.noted {
				delete(s.groups, g)
			}
		}
		for _, g := range groups {
			known := s.groups[g]
			known.configured = true
			s.groups[g] = known
		}
		return nil
	})
}

// WatchedGroups implements repository.Outcomes. The consumer groups are ordered by topic and name.
func (s *Store) WatchedGroups(ctx context.Context) ([]repository.TopicGroup, error) {
	var watched []repository.TopicGroup
	err := s.Step(ctx, "list consumer groups", func(time.Time) error {
		sent := map[string]bool{}
		for _, r := range s.Rows {
			if r.Message.Status == entity.Resolved {
				sent[r.Message.OriginalTopic] = true
			}
		}
		for g := range s.groups {
			if sent[g.Topic] {
				watched = append(watched, g)
			}
		}
		slices.SortFunc(watched, compareGroups)
		return nil
	})
	return watched, err
}

func compareGroups(a, b repository.TopicGroup) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Group, b.Group))
}

// SaveCommitted implements repository.Outcomes.
func (s *Store) SaveCommitted(ctx context.Context, offsets []repository.Committed) error {
	return s.Step(ctx, "store committed offsets", func(now time.Time) error {
		for _, o := range offsets {
			at := partitionOfGroup{o.TopicGroup, o.TopicID, o.Partition}
			if known, ok := s.committed[at]; !ok || o.Offset > known.offset {
				s.committed[at] = commit{o.Offset, now}
			}
		}
		return nil
	})
}

// observed returns m, the message of r, with the outcome that the committed offsets show. When several consumer groups
// read the topic, the highest offset counts.
func (s *Store) observed(r *row, m entity.Message) entity.Message {
	if m.Status != entity.Resolved || m.Outcome != entity.Published || len(r.Attempts) == 0 {
		return m
	}
	last := r.Attempts[len(r.Attempts)-1]
	if last.Number != r.Number || last.Offset < 0 {
		return m
	}
	for _, group := range s.groupsOf(m.Failure.ConsumerGroup, last.Topic, last.Topic != m.OriginalTopic) {
		at := partitionOfGroup{repository.TopicGroup{Topic: last.Topic, Group: group}, last.TopicID, last.Partition}
		known := s.committed[at]
		if known.offset <= last.Offset || m.Consumption != nil && known.offset <= m.Consumption.Offset {
			continue
		}
		m.Outcome = entity.Consumed
		m.Consumption = &entity.Consumption{Group: group, Offset: known.offset, SeenAt: known.seenAt}
	}
	return m
}

// groupsOf returns the consumer groups whose committed offsets show the outcome of a message that was sent to the
// topic, preferred ones first. This is the consumer group of the message. When it is not known, these are the groups
// that are configured for the topic. When the message was sent elsewhere than to its original topic, to a topic in
// which its consumer group has committed nothing, those that are known for the topic come first.
func (s *Store) groupsOf(own, topic string, elsewhere bool) []string {
	if own != "" && !elsewhere {
		return []string{own}
	}
	for at := range s.committed {
		if own != "" && at.Topic == topic && at.Group == own {
			return []string{own}
		}
	}
	var groups []string
	for g, known := range s.groups {
		if (known.configured || own != "") && g.Topic == topic {
			groups = append(groups, g.Group)
		}
	}
	if slices.Sort(groups); own != "" {
		groups = append(groups, own)
	}
	return groups
}
