package wire

import (
	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Topic is an original topic with its messages and the state of its consumers.
type Topic struct {
	Topic         string                  `json:"topic"` // "" for unknown origin
	DLQTopics     []string                `json:"dlq_topics"`
	Counts        map[entity.Status]int64 `json:"counts"`
	Total         int64                   `json:"total"`
	OldestPending *string                 `json:"oldest_pending_at"`
	LastSeen      *string                 `json:"last_seen_at"`
	IngestLag     *int64                  `json:"ingest_lag"`
	Replay        Replay                  `json:"replay"`
}

// Replay says whether messages can be sent back to a topic.
type Replay struct {
	Possible       bool            `json:"possible"`
	Reason         *string         `json:"reason"`
	Class          *string         `json:"class"`
	Exists         *bool           `json:"exists"`
	Allowed        bool            `json:"allowed"`
	ConsumerGroups []ConsumerGroup `json:"consumer_groups"`
}

// ConsumerGroup is a consumer group that reads a topic.
type ConsumerGroup struct {
	Group string            `json:"group"`
	State entity.GroupState `json:"state"`
	Lag   *int64            `json:"lag"`
}

// NewTopic shows a topic. lag has the number of records of dead-letter topics that are not stored yet, as far as known;
// masked hides the names of consumer groups.
func NewTopic(t repository.TopicSummary, health entity.ReplayHealth, lag map[string]int64, masked bool) Topic {
	shown := Topic{
		Topic: t.Topic, DLQTopics: ListOf(t.DLQTopics), Counts: statusCounts(t.Counts),
		OldestPending: Stamp(t.OldestPending), LastSeen: Stamp(t.LastSeen), IngestLag: lagOf(t.DLQTopics, lag),
		Replay: newReplay(health, masked),
	}
	for _, n := range t.Counts {
		shown.Total += n
	}
	return shown
}

// statusCounts names every status, including those without messages.
func statusCounts(counts map[entity.Status]int64) map[entity.Status]int64 {
	all := map[entity.Status]int64{}
	for _, status := range entity.Statuses() {
		all[status] = counts[status]
	}
	return all
}

// lagOf returns the sum of the topics' lags, nil when one is unknown.
func lagOf(topics []string, lag map[string]int64) (sum *int64) {
	for _, topic := range topics {
		n, known := lag[topic]
		if !known {
			return nil
		}
		if sum == nil {
			sum = new(int64)
		}
		*sum += n
	}
	return sum
}

func newReplay(h entity.ReplayHealth, masked bool) Replay {
	return Replay{
		Possible: h.Class == "", Reason: OrNull(h.Reason), Class: OrNull(h.Class), Exists: h.Exists, Allowed: h.Allowed,
		ConsumerGroups: Each(h.Groups, func(g entity.GroupHealth) ConsumerGroup {
			if masked {
				g.Group = MaskedText
			}
			return ConsumerGroup{g.Group, g.State, g.Lag}
		}),
	}
}

// MappingRule maps dead-letter topics to an original topic.
type MappingRule struct {
	Pattern  string `json:"pattern"`
	Original string `json:"original"`
}

// UnmappedTopic is a dead-letter topic with messages of unknown origin, and the topic to which the rules map it.
type UnmappedTopic struct {
	DLQTopic string  `json:"dlq_topic"`
	Messages int64   `json:"messages"`
	Original *string `json:"original"`
}

// Mapping is the topic mapping. Redrives is given after a change only.
type Mapping struct {
	Version    int64           `json:"version"`
	UpdatedAt  *string         `json:"updated_at"`
	UpdatedBy  *string         `json:"updated_by"`
	Rules      []MappingRule   `json:"rules"`
	Configured []MappingRule   `json:"configured"`
	Unmapped   []UnmappedTopic `json:"unmapped"`
	Redrives   *[]uuid.UUID    `json:"redrives,omitempty"`
}
