// Package sharegroup knows the share groups of the cluster whose dead letters the broker writes (KIP-1191): which topics
// their configurations name, in which partitions they have state, and which configuration would lose dead letters.
// The broker reports none of this to consumers, so a Watcher asks for it every few seconds.
package sharegroup

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Group is a share group whose configuration names a dead-letter topic.
type Group struct {
	broker.ShareGroup
	// Offsets are the partitions in which the group has state, and how far it has come there; nil while they could not
	// be read.
	Offsets map[broker.TopicPartition]broker.ShareOffset
	// Topics are the topics of Offsets, in order.
	Topics []string
	// Problems are the reasons why the broker would lose dead letters of the group.
	Problems []entity.ShareProblem
}

func topicsOf(offsets map[broker.TopicPartition]broker.ShareOffset) []string {
	var topics []string
	for tp := range offsets {
		topics = append(topics, tp.Topic)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// Snapshot is what was known of the cluster at one moment. It never changes. The zero value has no groups.
type Snapshot struct {
	groups   []Group
	named    map[string][]int // dead-letter topic to the indexes of its groups
	read     map[string]bool  // dead-letter topics of this installation, named by a configuration or not
	enabled  map[string]bool  // topics that allow dead letters of share groups, and those of groups not followed
	prefixes []string         // prefixes of the names of dead-letter topics; none where the feature is off
	settings settings
}

// Retention returns how long a topic keeps records; 0 when that is not known or has no limit.
func (s *Snapshot) Retention(topic string) time.Duration { return s.settings.retention(topic) }

// Groups returns the groups in the order of their names. It must not be modified.
func (s *Snapshot) Groups() []Group { return s.groups }

// Group returns a group by its name; nil when it has no dead-letter topic.
func (s *Snapshot) Group(name string) *Group {
	i, found := slices.BinarySearchFunc(s.groups, name, func(g Group, name string) int { return strings.Compare(g.Name, name) })
	if !found {
		return nil
	}
	return &s.groups[i]
}

// IsDeadLetterTopic reports whether a group's configuration names the topic.
func (s *Snapshot) IsDeadLetterTopic(topic string) bool { return len(s.named[topic]) > 0 }

// IsRead reports whether the topic may have dead letters of share groups that this installation reads: a group's
// configuration names it, or its own configuration allows them. A group that got another dead-letter topic may have left
// some in the former one.
func (s *Snapshot) IsRead(topic string) bool { return s.read[topic] }

// ReadTopics returns the topics of IsRead, in order.
func (s *Snapshot) ReadTopics() []string { return slices.Sorted(maps.Keys(s.read)) }

// IsReserved reports whether the broker may write dead letters of share groups to the topic: a configuration names it,
// the topic allows it, or its name has the broker's prefix. Such a topic is no target and no original topic.
func (s *Snapshot) IsReserved(topic string) bool {
	return s.IsDeadLetterTopic(topic) || s.enabled[topic] ||
		slices.ContainsFunc(s.prefixes, func(prefix string) bool { return strings.HasPrefix(topic, prefix) })
}

// Declaration says whether the records of a dead-letter topic may name an original topic: a group's configuration
// declares the topics in which the group has state. It is entity.NotDeclared for topics that no configuration names,
// and while the state of one of their groups is not known.
func (s *Snapshot) Declaration(dlqTopic, original string) entity.Declaration {
	found := entity.NotDeclared
	for _, i := range s.named[dlqTopic] {
		g := &s.groups[i]
		if g.Offsets == nil {
			return entity.NotDeclared
		}
		if _, consumed := slices.BinarySearch(g.Topics, original); consumed {
			return entity.Declared
		}
		found = entity.Contradicted
	}
	return found
}

// noStateError is the text of an error of the kinds ErrNotKnown and entity.ErrNoShareState.
type noStateError string

func (e noStateError) Error() string { return string(e) }

func (noStateError) Is(target error) bool {
	return target == ErrNotKnown || target == entity.ErrNoShareState
}

// CheckPointer returns why a record of a dead-letter topic that names a group and a position must not be followed, nil
// when it may be: the group's configuration must name the dead-letter topic, and the group must have state for the
// partition. ErrNotKnown means that the answer may change within seconds.
func (s *Snapshot) CheckPointer(dlqTopic, group string, at broker.TopicPartition) error {
	g := s.Group(group)
	switch {
	case g == nil || g.DeadLetterTopic != dlqTopic:
		return fmt.Errorf("the configuration of share group %q does not name topic %s: %w", group, dlqTopic, ErrNotKnown)
	case g.Offsets == nil:
		return fmt.Errorf("the state of share group %q cannot be read: %w", group, ErrNotKnown)
	}
	if _, known := g.Offsets[at]; !known {
		return noStateError(fmt.Sprintf("share group %q has no state for partition %d of topic %s, or dlq-manager may not describe that topic: %v",
			group, at.Partition, at.Topic, ErrNotKnown))
	}
	return nil
}
