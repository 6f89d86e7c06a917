package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
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
	// AutoPause is only in the answer while automatic retry of the topic pauses.
	AutoPause *AutoPause `json:"automatic_retry_pause,omitempty"`
}

// AutoPause says until when, and why, automatic retry does not send the messages of a topic.
type AutoPause struct {
	Until  *string `json:"until"`
	Reason string  `json:"reason"`
}

// Topics is a page of the topics. Missing names the fields that Kafka did not answer in time.
type Topics struct {
	Topics  []Topic  `json:"topics"`
	Next    *string  `json:"next_cursor"`
	Missing []string `json:"missing"`
}

// Replay says whether messages can be sent back to a topic.
type Replay struct {
	Possible       bool            `json:"possible"`
	Reason         *string         `json:"reason"`
	Class          *string         `json:"class"`
	Exists         *bool           `json:"exists"`
	Allowed        bool            `json:"allowed"`
	RedirectedTo   *string         `json:"redirected_to"`
	ConsumerGroups []ConsumerGroup `json:"consumer_groups"`
}

// ConsumerGroup is a consumer group that reads a topic.
type ConsumerGroup struct {
	Group string            `json:"group"`
	State entity.GroupState `json:"state"`
	Lag   *int64            `json:"lag"`
}

// OneTopic is a topic with the offsets of its consumer groups. Missing names the fields that Kafka did not answer in
// time.
type OneTopic struct {
	Topic          Topic          `json:"topic"`
	ConsumerGroups []GroupOffsets `json:"consumer_groups"`
	Missing        []string       `json:"missing"`
}

// GroupOffsets is a consumer group with its offsets in each partition of a topic.
type GroupOffsets struct {
	ConsumerGroup
	Partitions []PartitionOffsets `json:"partitions"`
}

// PartitionOffsets contains the offsets of a consumer group in one partition. A member is null where Kafka has no such
// offset, or has not answered.
type PartitionOffsets struct {
	Partition int32  `json:"partition"`
	Committed *int64 `json:"committed"`
	End       *int64 `json:"end"`
	Lag       *int64 `json:"lag"`
}

// NewGroupOffsets shows the offsets of consumer groups. With masked, it hides the names of the groups.
func NewGroupOffsets(groups []entity.GroupHealth, masked bool) []GroupOffsets {
	return Each(groups, func(g entity.GroupHealth) GroupOffsets {
		return GroupOffsets{newConsumerGroup(g, masked), Each(g.Partitions, func(p entity.GroupPartition) PartitionOffsets {
			shown := PartitionOffsets{Partition: p.Partition, Committed: p.Committed, End: p.End}
			if p.Committed != nil && p.End != nil {
				shown.Lag = new(max(0, *p.End-*p.Committed))
			}
			return shown
		})}
	})
}

func newConsumerGroup(g entity.GroupHealth, masked bool) ConsumerGroup {
	if masked {
		g.Group = MaskedText
	}
	return ConsumerGroup{g.Group, g.State, g.Lag}
}

// NewTopic shows a topic. lag contains the number of records of each dead-letter topic that are not stored yet, as far
// as it is known. With masked, the names of consumer groups are hidden.
func NewTopic(t repository.TopicSummary, health entity.ReplayHealth, redirect string, lag map[string]int64, masked bool) Topic {
	shown := Topic{
		Topic: t.Topic, DLQTopics: ListOf(t.DLQTopics), Counts: statusCounts(t.Counts),
		OldestPending: Stamp(t.OldestPending), LastSeen: Stamp(t.LastSeen), IngestLag: lagOf(t.DLQTopics, lag),
		Replay: newReplay(health, redirect, masked),
	}
	if p := t.AutoPause; !p.Until.IsZero() {
		shown.AutoPause = &AutoPause{Stamp(p.Until), p.Reason}
	}
	for _, n := range t.Counts {
		shown.Total += n
	}
	return shown
}

// statusCounts returns a count for every status, including those without messages.
func statusCounts(counts map[entity.Status]int64) map[entity.Status]int64 {
	all := map[entity.Status]int64{}
	for _, status := range entity.Statuses() {
		all[status] = counts[status]
	}
	return all
}

// lagOf returns the sum of the lags of the given dead-letter topics; nil when one of them is not known, or there is
// none.
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

func newReplay(h entity.ReplayHealth, redirect string, masked bool) Replay {
	return Replay{
		Possible: h.Class == "", Reason: OrNull(h.Reason), Class: OrNull(h.Class), Exists: h.Exists, Allowed: h.Allowed,
		RedirectedTo:   OrNull(redirect),
		ConsumerGroups: Each(h.Groups, func(g entity.GroupHealth) ConsumerGroup { return newConsumerGroup(g, masked) }),
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

// MappingPreview says how many stored messages of a dead-letter topic the rules of the mapping would change, and why
// others would not change.
type MappingPreview struct {
	DLQTopic string         `json:"dlq_topic"`
	Original string         `json:"original"`
	Selected int            `json:"selected"`
	Sendable int            `json:"sendable"`
	Reasons  map[string]int `json:"reasons"`
}

// NewMappingPreview shows the preview p of a redrive that would set the original topic of the messages of a dead-letter
// topic.
func NewMappingPreview(order repository.NewRedrive, p entity.Preview) MappingPreview {
	return MappingPreview{
		DLQTopic: order.Selection.Topic, Original: order.Options.OriginalTopic,
		Selected: p.Selected, Sendable: p.Sendable, Reasons: reasons(p.Reasons),
	}
}

// Mapping is the topic mapping. Redrives is given after a change only, Preview after a dry run only.
type Mapping struct {
	Version    int64           `json:"version"`
	UpdatedAt  *string         `json:"updated_at"`
	UpdatedBy  *string         `json:"updated_by"`
	Rules      []MappingRule   `json:"rules"`
	Configured []MappingRule   `json:"configured"`
	Unmapped   []UnmappedTopic `json:"unmapped"`
	Redrives   *[]uuid.UUID    `json:"redrives,omitempty"`

	Preview *[]MappingPreview `json:"preview,omitempty"`
}

// ErrorGroup is an error group: messages that failed with the same fingerprint.
type ErrorGroup struct {
	ID          uuid.UUID               `json:"id"`
	Class       *string                 `json:"class"`
	Title       string                  `json:"title"`
	Frames      []string                `json:"frames"`
	Rule        *string                 `json:"rule"`
	FirstSeen   *string                 `json:"first_seen_at"`
	LastSeen    *string                 `json:"last_seen_at"`
	RegressedAt *string                 `json:"regressed_at"`
	New         bool                    `json:"new"`
	Regressed   bool                    `json:"regressed"`
	Counts      map[entity.Status]int64 `json:"counts"`
	Open        int64                   `json:"open"`
	Arrived     int64                   `json:"arrived"`
	Topics      []TopicShare            `json:"topics"`
	Trend       []HourCount             `json:"trend"`
	Recent      Recent                  `json:"recent"`
	Note        *string                 `json:"note"`
	Link        *string                 `json:"link"`
	Muted       bool                    `json:"muted"`
	Annotations []Annotation            `json:"annotations"`
	Annotated   []string                `json:"annotated_topics,omitempty"` // topics whose annotation this request has changed
	// Missing lists the topics to which no retry can be sent, because they neither exist nor have a redirect. Only the
	// answer for a single error group has it.
	Missing []string `json:"missing_topics,omitempty"`
}

// Annotation contains the note and the link that operators gave an error group in one topic, and whether the group is
// muted there. With topic null it applies to all topics that have no annotation of their own.
type Annotation struct {
	Topic *string `json:"topic"`
	Note  *string `json:"note"`
	Link  *string `json:"link"`
	Muted bool    `json:"muted"`
}

// TopicShare is the number of messages of a topic.
type TopicShare struct {
	Topic    string `json:"topic"`
	Messages int64  `json:"messages"`
}

// Recent counts the messages of an error group that arrived in the last minutes, from Since on. Arrived is null when
// none of these minutes is counted yet. If the request asked for minutes, Minutes contains the number for each minute
// from MinutesSince on.
type Recent struct {
	Since        *string       `json:"since"`
	Arrived      *int64        `json:"arrived"`
	CountedUntil *string       `json:"counted_until"`
	Minutes      []MinuteCount `json:"minutes"`
}

// MinuteCount is the number of messages that arrived in a minute.
type MinuteCount struct {
	Minute   *string `json:"minute"`
	Messages int64   `json:"messages"`
}

// RecentSince returns the time from which arrivals of an error group count as recent: fifteen minutes before the
// beginning of the current minute.
func RecentSince(now time.Time) time.Time {
	return now.UTC().Truncate(time.Minute).Add(-15 * time.Minute)
}

// MinutesSince returns the time from which arrivals are shown for each minute. These are sixty minutes, the last of
// which is the current one.
func MinutesSince(now time.Time) time.Time {
	return now.UTC().Truncate(time.Minute).Add(-59 * time.Minute)
}

func newRecent(g entity.ErrorGroup, now time.Time) Recent {
	since := RecentSince(now)
	recent := Recent{
		Since: Stamp(since), CountedUntil: Stamp(g.CountedUntil),
		Minutes: Each(g.Minutes, func(m entity.MinuteCount) MinuteCount { return MinuteCount{Stamp(m.Minute), m.Messages} }),
	}
	if !g.CountedUntil.After(since) {
		return recent
	}
	recent.Arrived = new(int64)
	for _, m := range g.Minutes {
		if !m.Minute.Before(since) {
			*recent.Arrived += m.Messages
		}
	}
	return recent
}

// HourCount is the number of messages that arrived in an hour.
type HourCount struct {
	Hour     *string `json:"hour"`
	Messages int64   `json:"messages"`
}

// NewErrorGroup shows an error group at the time now. Unless unmasked, it hides the class, the title and the frames.
func NewErrorGroup(g entity.ErrorGroup, now time.Time, unmasked bool) ErrorGroup {
	if !unmasked {
		g.Title, g.Frames = MaskedText, nil
		if g.Class != "" {
			g.Class = MaskedText
		}
	}
	if g.Rule == "" {
		g.Title = fingerprint.Cause(g.Class, g.Title, "")
	}
	return ErrorGroup{
		ID: g.ID, Class: OrNull(g.Class), Title: g.Title, Frames: ListOf(g.Frames), Rule: OrNull(g.Rule),
		FirstSeen: Stamp(g.FirstSeen), LastSeen: Stamp(g.LastSeen), RegressedAt: Stamp(g.RegressedAt),
		New: g.New(now), Regressed: g.Regressed(), Counts: statusCounts(g.Counts), Open: g.Open(),
		Arrived: g.Arrived,
		Topics:  Each(g.Topics, func(t entity.TopicShare) TopicShare { return TopicShare(t) }),
		Trend:   Each(g.Trend, func(h entity.HourCount) HourCount { return HourCount{Stamp(h.Hour), h.Messages} }),
		Recent:  newRecent(g, now),
		Note:    OrNull(g.Common.Note), Link: OrNull(g.Common.Link), Muted: g.Common.Muted,
		Annotations: Each(g.Annotations, newAnnotation),
	}
}

func newAnnotation(a entity.GroupAnnotation) Annotation {
	shown := Annotation{Note: OrNull(a.Note), Link: OrNull(a.Link), Muted: a.Muted}
	if a.Topic != entity.AllTopics {
		shown.Topic = &a.Topic
	}
	return shown
}

// Activity counts the arrivals of messages over a range of time.
type Activity struct {
	Span         string          `json:"span"`
	StepSeconds  int64           `json:"step_seconds"`
	Points       []ArrivalsPoint `json:"points"`
	CountedUntil *string         `json:"counted_until"`
}

// ArrivalsPoint contains the number of arrivals of one step, and how many of these messages came back after a retry.
type ArrivalsPoint struct {
	At       *string `json:"at"`
	Arrived  int64   `json:"arrived"`
	Returned int64   `json:"returned"`
}

// NewActivity shows counted arrivals in steps of this length.
func NewActivity(name string, step time.Duration, a repository.Arrivals) Activity {
	points := Each(a.Points, func(p repository.ArrivalsPoint) ArrivalsPoint {
		return ArrivalsPoint{Stamp(p.At), p.Arrived, p.Returned}
	})
	return Activity{name, int64(step / time.Second), points, Stamp(a.Until)}
}
