package rest

import (
	"context"
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Inspector tells what the cluster knows of topics. What it cannot tell now it
// leaves open, and it never takes longer than some seconds.
type Inspector interface {
	// Inspect says whether messages can be sent back to topics, and who reads them
	// there, in the order of the questions.
	Inspect(ctx context.Context, questions []entity.ReplayQuestion) []entity.ReplayHealth

	// IngestLag is how many records of each dead-letter topic are not stored yet. A
	// topic that cannot be asked now is left out.
	IngestLag(ctx context.Context, positions []repository.IngestPosition) map[string]int64
}

type topicJSON struct {
	Topic         string                  `json:"topic"` // "" for unknown origin
	DLQTopics     []string                `json:"dlq_topics"`
	Counts        map[entity.Status]int64 `json:"counts"`
	Total         int64                   `json:"total"`
	OldestPending *string                 `json:"oldest_pending_at"`
	LastSeen      *string                 `json:"last_seen_at"`
	IngestLag     *int64                  `json:"ingest_lag"`
	Replay        replayJSON              `json:"replay"`
}

type replayJSON struct {
	Possible       bool              `json:"possible"`
	Reason         *string           `json:"reason"`
	Class          *string           `json:"class"`
	Exists         *bool             `json:"exists"`
	Allowed        bool              `json:"allowed"`
	ConsumerGroups []groupHealthJSON `json:"consumer_groups"`
}

type groupHealthJSON struct {
	Group string            `json:"group"`
	State entity.GroupState `json:"state"`
	Lag   *int64            `json:"lag"`
}

// listTopics answers also when the cluster does not: what the store knows does
// not depend on it.
func (s *Server) listTopics(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	l, err := s.listingWith(r, anySize, maxLimit)
	if err != nil {
		return err
	}
	q := repository.TopicQuery{Visible: principalOf(r).Scope(auth.Viewer), Limit: l.limit + 1}
	if l.place != nil {
		q.After = new(string(l.place))
	}
	topics, err := s.db.TopicSummaries(ctx, q)
	if err != nil {
		return err
	}
	topics, next := part(l, topics, func(last repository.TopicSummary) []byte { return []byte(last.Topic) })
	lag, err := s.ingestLag(ctx)
	if err != nil {
		return err
	}
	health := s.inspect(ctx, topics)
	list := make([]topicJSON, 0, len(topics))
	for i, t := range topics {
		list = append(list, s.showTopic(t, health[i], lag))
	}
	writeJSON(w, http.StatusOK, struct {
		Topics     []topicJSON `json:"topics"`
		NextCursor *string     `json:"next_cursor"`
	}{list, next})
	return nil
}

func (s *Server) inspect(ctx context.Context, topics []repository.TopicSummary) []entity.ReplayHealth {
	questions, unknown := make([]entity.ReplayQuestion, len(topics)), make([]entity.ReplayHealth, len(topics))
	for i, t := range topics {
		questions[i] = entity.ReplayQuestion{Topic: t.Topic, Groups: t.ConsumerGroups}
		unknown[i] = nobodyKnows(t)
	}
	if s.inspector == nil || len(topics) == 0 {
		return unknown
	}
	return s.inspector.Inspect(ctx, questions)
}

func nobodyKnows(t repository.TopicSummary) entity.ReplayHealth {
	health := entity.ReplayHealth{
		Topic: t.Topic, Class: string(entity.UnknownClass), Reason: "nobody can tell: Kafka is not configured",
	}
	for _, group := range t.ConsumerGroups {
		health.Groups = append(health.Groups, entity.GroupHealth{Group: group, State: entity.GroupUnknown})
	}
	return health
}

// ingestLag is nil when nobody can tell.
func (s *Server) ingestLag(ctx context.Context) (map[string]int64, error) {
	if s.inspector == nil {
		return nil, nil
	}
	positions, err := s.db.IngestPositions(ctx)
	if err != nil {
		return nil, err
	}
	return s.inspector.IngestLag(ctx, positions), nil
}

func (s *Server) showTopic(t repository.TopicSummary, health entity.ReplayHealth, lag map[string]int64) topicJSON {
	shown := topicJSON{
		Topic:         t.Topic,
		DLQTopics:     listOf(t.DLQTopics),
		Counts:        showCounts(t.Counts),
		OldestPending: stamp(t.OldestPending),
		LastSeen:      stamp(t.LastSeen),
		IngestLag:     lagOf(t.DLQTopics, lag),
		Replay:        showReplay(health),
	}
	for _, n := range t.Counts {
		shown.Total += n
	}
	for i := range shown.Replay.ConsumerGroups {
		if s.derived.Fields().ConsumerGroup {
			shown.Replay.ConsumerGroups[i].Group = maskedText
		}
	}
	return shown
}

// showCounts names every status, those without messages too.
func showCounts(counts map[entity.Status]int64) map[entity.Status]int64 {
	all := map[entity.Status]int64{}
	for _, status := range entity.Statuses() {
		all[status] = counts[status]
	}
	return all
}

// lagOf is that of all the topics together, and null when one cannot be told.
func lagOf(topics []string, lag map[string]int64) *int64 {
	var sum int64
	for _, topic := range topics {
		n, known := lag[topic]
		if !known {
			return nil
		}
		sum += n
	}
	if len(topics) == 0 {
		return nil
	}
	return &sum
}

func showReplay(h entity.ReplayHealth) replayJSON {
	shown := replayJSON{
		Possible: h.Class == "", Reason: orNull(h.Reason), Class: orNull(h.Class), Exists: h.Exists, Allowed: h.Allowed,
		ConsumerGroups: []groupHealthJSON{},
	}
	for _, g := range h.Groups {
		shown.ConsumerGroups = append(shown.ConsumerGroups, groupHealthJSON{g.Group, g.State, g.Lag})
	}
	return shown
}

// listOf is never null, because clients iterate over it.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
