package wire

import (
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// ErrorGroup is a group of messages that failed alike.
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
	Note        *string                 `json:"note"`
	Link        *string                 `json:"link"`
	Muted       bool                    `json:"muted"`
	Annotations []Annotation            `json:"annotations"`
	Annotated   []string                `json:"annotated_topics,omitempty"` // by the request
}

// Annotation is the annotation of a topic; null for all topics without their own.
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

// HourCount is the number of messages that arrived in an hour.
type HourCount struct {
	Hour     *string `json:"hour"`
	Messages int64   `json:"messages"`
}

// NewErrorGroup shows an error group at a time.
func NewErrorGroup(g entity.ErrorGroup, now time.Time, unmasked bool) ErrorGroup {
	if !unmasked {
		g.Title, g.Frames = MaskedText, nil
		if g.Class != "" {
			g.Class = MaskedText
		}
	}
	return ErrorGroup{
		ID: g.ID, Class: OrNull(g.Class), Title: g.Title, Frames: ListOf(g.Frames), Rule: OrNull(g.Rule),
		FirstSeen: Stamp(g.FirstSeen), LastSeen: Stamp(g.LastSeen), RegressedAt: Stamp(g.RegressedAt),
		New: g.New(now), Regressed: g.Regressed(), Counts: statusCounts(g.Counts), Open: g.Open(),
		Arrived: g.Arrived,
		Topics:  Each(g.Topics, func(t entity.TopicShare) TopicShare { return TopicShare(t) }),
		Trend:   Each(g.Trend, func(h entity.HourCount) HourCount { return HourCount{Stamp(h.Hour), h.Messages} }),
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

// ArrivalsPoint counts the arrivals of one step, and those of them that came back after a retry.
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
