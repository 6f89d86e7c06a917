// Package sharegroup follows the share groups of the cluster for which the broker writes dead letters (KIP-1191): which
// dead-letter topics their configurations name, in which partitions they have state, and which configurations would
// make the broker lose dead letters. The broker reports none of this to consumers, so a Watcher asks for it every few
// seconds.
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
	// Offsets are the partitions in which the group has state, each with the group's progress; nil until they have been
	// read, and when a permission to read them is missing.
	Offsets map[broker.TopicPartition]broker.ShareOffset
	// Topics are the names of the topics in Offsets, sorted.
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

// Snapshot is what a Watcher knew of the cluster at one moment. It never changes. The zero value contains no groups.
type Snapshot struct {
	groups   []Group
	named    map[string][]int // indexes in groups, by the dead-letter topic that the groups name
	read     map[string]bool  // dead-letter topics that this installation reads, even if no configuration of a group names them
	enabled  map[string]bool  // topics whose configuration allows dead letters of share groups, and topics that groups of other installations name and that do not refuse them
	prefixes []string         // prefixes by which the brokers recognise dead-letter topics; none when the cluster has no share groups
	settings settings
}

// Retention returns how long the topic keeps records; 0 when the time is not known or has no limit.
func (s *Snapshot) Retention(topic string) time.Duration { return s.settings.retention(topic) }

// Groups returns the groups in the order of their names. The caller must not modify the returned groups.
func (s *Snapshot) Groups() []Group { return s.groups }

// Group returns a group by its name; nil when the snapshot has no such group, for example because the group has no
// dead-letter topic.
func (s *Snapshot) Group(name string) *Group {
	i, found := slices.BinarySearchFunc(s.groups, name, func(g Group, name string) int { return strings.Compare(g.Name, name) })
	if !found {
		return nil
	}
	return &s.groups[i]
}

// IsDeadLetterTopic reports whether the configuration of a group in the snapshot names the topic, and the topic does
// not refuse dead letters.
func (s *Snapshot) IsDeadLetterTopic(topic string) bool { return len(s.named[topic]) > 0 }

// IsRead reports whether the topic may contain dead letters of share groups that this installation reads. Either
// IsDeadLetterTopic is true for the topic, or the topic matches the Watcher's patterns and its own configuration allows
// such dead letters. The topic's own configuration matters after a group was given another dead-letter topic, because
// the former topic may still contain dead letters.
func (s *Snapshot) IsRead(topic string) bool { return s.read[topic] }

// ReadTopics returns the topics for which IsRead returns true, sorted.
func (s *Snapshot) ReadTopics() []string { return slices.Sorted(maps.Keys(s.read)) }

// IsReserved reports whether the broker may write dead letters of share groups to the topic: the configuration of a
// group names the topic, and the topic does not refuse dead letters; its own configuration allows dead letters; or its
// name begins with a prefix that a broker requires. dlq-manager sends no record to such a topic and does not accept it
// as an original topic.
func (s *Snapshot) IsReserved(topic string) bool {
	return s.IsDeadLetterTopic(topic) || s.enabled[topic] ||
		slices.ContainsFunc(s.prefixes, func(prefix string) bool { return strings.HasPrefix(topic, prefix) })
}

// Declaration says whether an original topic that records of the dead-letter topic name is declared. The groups that
// name the dead-letter topic declare the topics in which they have state. The result is entity.Declared when one of these
// groups declares the topic. Otherwise it is entity.NotDeclared when there is no such group or the state of one is not
// known, and else entity.Contradicted.
func (s *Snapshot) Declaration(dlqTopic, original string) entity.Declaration {
	groups := s.named[dlqTopic]
	unknown := len(groups) == 0
	for _, i := range groups {
		if _, consumed := slices.BinarySearch(s.groups[i].Topics, original); consumed {
			return entity.Declared
		}
		unknown = unknown || s.groups[i].Offsets == nil
	}
	if unknown {
		return entity.NotDeclared
	}
	return entity.Contradicted
}

// noStateError says in its text that a share group has no state for a partition. It has the kinds ErrNotKnown and
// entity.ErrNoShareState.
type noStateError string

func (e noStateError) Error() string { return string(e) }

func (noStateError) Is(target error) bool {
	return target == ErrNotKnown || target == entity.ErrNoShareState
}

// CheckPointer returns nil when a dead letter of the group in the dead-letter topic may point to a record of the given
// partition. When the dead letter may not point there, CheckPointer returns the reason. Two conditions must hold: the
// group's configuration names the dead-letter topic, and the group has state for the partition. Each reason is an error
// of the kind ErrNotKnown, which may disappear within seconds.
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
