package sharegroup

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// The settings and the feature that decide whether the broker can write dead letters (KIP-1191), and the setting for
// the retention of a topic.
const (
	topicPrefix = "errors.deadletterqueue.topic.name.prefix"
	autoCreate  = "errors.deadletterqueue.auto.create.topics.enable"

	topicEnabled    = "errors.deadletterqueue.group.enable"
	cleanupPolicy   = "cleanup.policy"
	maxMessageBytes = "max.message.bytes"
	retentionMs     = "retention.ms"

	shareFeature = "share.version"
	// deadLetterLevel is the level of the feature share.version from which the broker writes dead letters.
	deadLetterLevel = 2
)

const (
	// pointerBytes is an upper limit for the size of a dead letter without key and value, as long as its topic and group
	// names are not unusually long.
	pointerBytes = 1024
	// headerBytes is an upper limit for the bytes that the broker's headers add to a dead letter with a copy of its
	// record.
	headerBytes = 2048
)

// The values of entity.ShareProblem.Code, which problems returns.
const (
	FeatureOff   = "feature_off"
	BadName      = "bad_name"
	WrongPrefix  = "wrong_prefix"
	TopicMissing = "topic_missing"
	NotEnabled   = "not_enabled"
	Compacted    = "compacted"
	TooSmall     = "too_small"
	OwnTopic     = "own_topic"
)

// topicSettings are the names of the topic settings that a Watcher reads.
var topicSettings = []string{topicEnabled, cleanupPolicy, maxMessageBytes, retentionMs}

// settings are the configurations of the brokers and topics as they were last read.
type settings struct {
	level   int16               // level of the cluster's feature for share groups; 0 when the cluster has no share groups
	brokers []map[string]string // the settings of each broker, by name; one map for each broker
	topics  map[string]map[string]string
}

// enabled returns the topics that allow dead letters of share groups.
func (s settings) enabled() map[string]bool {
	enabled := map[string]bool{}
	for topic, config := range s.topics {
		if config[topicEnabled] == "true" {
			enabled[topic] = true
		}
	}
	return enabled
}

// guardedPrefixes returns the prefixes by which the brokers recognise dead-letter topics. It leaves out the empty
// prefix, because every topic would then count as a dead-letter topic.
func (s settings) guardedPrefixes() []string {
	var prefixes []string
	for _, b := range s.brokers {
		if prefix := b[topicPrefix]; prefix != "" && !slices.Contains(prefixes, prefix) {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// refuses reports whether the topic's configuration is known and does not allow dead letters of share groups, and its
// name has no prefix that a broker requires. A topic that refuses dead letters is not a dead-letter topic, even if the
// configuration of a group names it.
func (s settings) refuses(topic string) bool {
	config, known := s.topics[topic]
	return known && config[topicEnabled] != "true" &&
		!slices.ContainsFunc(s.guardedPrefixes(), func(prefix string) bool { return strings.HasPrefix(topic, prefix) })
}

func (s settings) retention(topic string) time.Duration {
	ms, err := strconv.ParseInt(s.topics[topic][retentionMs], 10, 64)
	if err != nil || ms <= 0 || ms > int64(math.MaxInt64/time.Millisecond) {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// problems returns the reasons why the broker would lose dead letters of the group. It returns nil until the settings
// have been read, and for a cluster without share groups.
func (s settings) problems(g *Group) []entity.ShareProblem {
	topic := g.DeadLetterTopic
	var found []entity.ShareProblem
	add := func(code, command, format string, args ...any) {
		found = append(found, entity.ShareProblem{Code: code, Text: fmt.Sprintf(format, args...), Command: command})
	}
	if s.level == 0 {
		return nil
	}
	if s.level < deadLetterLevel {
		add(FeatureOff, "kafka-features.sh --bootstrap-server BROKER upgrade --feature share.version=2",
			"feature share.version has level %d; the broker writes dead letters from level %d on", s.level, deadLetterLevel)
	}
	if _, own := slices.BinarySearch(g.Topics, topic); own {
		add(OwnTopic, "", "the group consumes its own dead-letter topic %s: each dead letter that fails again makes another one, without end", topic)
	}
	if !entity.ValidTopic(topic) {
		add(BadName, groupCommand(g.Name, topicSetting+"=NAME"), "%q cannot be the name of a topic", topic)
		return found
	}
	for _, b := range s.brokers {
		if prefix := b[topicPrefix]; !strings.HasPrefix(topic, prefix) {
			add(WrongPrefix, groupCommand(g.Name, topicSetting+"="+prefix+topic),
				"the name of dead-letter topic %s does not begin with %q, as the broker requires (%s)", topic, prefix, topicPrefix)
			break
		}
	}
	config, exists := s.topics[topic]
	if !exists {
		if !s.createsTopics() {
			add(TopicMissing, "kafka-topics.sh --bootstrap-server BROKER --create --topic "+topic+" --config "+topicEnabled+"=true",
				"dead-letter topic %s does not exist", topic)
		}
		return found
	}
	if config[topicEnabled] != "true" {
		add(NotEnabled, topicCommand(topic, topicEnabled+"=true"), "dead-letter topic %s does not allow dead letters of share groups (%s)", topic, topicEnabled)
	}
	if strings.Contains(config[cleanupPolicy], "compact") {
		add(Compacted, topicCommand(topic, cleanupPolicy+"=delete"), "dead-letter topic %s is compacted and refuses dead letters without a key", topic)
	}
	if needs := s.bytesNeeded(g); needs > 0 && bytesOf(config) > 0 && bytesOf(config) < needs {
		add(TooSmall, topicCommand(topic, maxMessageBytes+"="+strconv.FormatInt(needs, 10)),
			"dead-letter topic %s takes records of at most %d bytes, and dead letters of the group may have %d (%s)",
			topic, bytesOf(config), needs, maxMessageBytes)
	}
	return found
}

const topicSetting = "errors.deadletterqueue.topic.name"

// bytesNeeded returns an upper limit for the size in bytes of a dead letter that the broker may write for the group; 0
// when it is not known.
func (s settings) bytesNeeded(g *Group) int64 {
	if !g.CopiesRecords {
		return pointerBytes
	}
	needs := int64(0)
	for _, topic := range g.Topics {
		needs = max(needs, bytesOf(s.topics[topic]))
	}
	if needs > 0 {
		needs += headerBytes
	}
	return needs
}

// bytesOf returns the maximum size in bytes of a record of the topic with this configuration; 0 when it is not known.
func bytesOf(config map[string]string) int64 {
	n, err := strconv.ParseInt(config[maxMessageBytes], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// createsTopics reports whether every broker creates missing dead-letter topics.
func (s settings) createsTopics() bool {
	return len(s.brokers) > 0 && !slices.ContainsFunc(s.brokers, func(b map[string]string) bool { return b[autoCreate] != "true" })
}

func topicCommand(topic, setting string) string {
	return "kafka-configs.sh --bootstrap-server BROKER --alter --entity-type topics --entity-name " + topic + " --add-config " + setting
}

func groupCommand(group, setting string) string {
	return "kafka-configs.sh --bootstrap-server BROKER --alter --entity-type groups --entity-name " + quoted(group) + " --add-config " + quoted(setting)
}

// quoted returns the text in single quotes, as one word of a shell command.
func quoted(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
