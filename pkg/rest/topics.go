package rest

import (
	"context"
	"net/http"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Inspector describes the topics of the cluster, as far as it can within a few seconds.
type Inspector interface {
	// Inspect returns whether messages can be sent back to topics, and which consumer groups read them, in the order
	// of the questions.
	Inspect(ctx context.Context, questions []entity.ReplayQuestion) []entity.ReplayHealth

	// IngestLag returns the number of records of each dead-letter topic that are not stored yet, without topics whose
	// number is unknown.
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

// listTopics also answers when the cluster cannot be reached.
func (s *Server) listTopics(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	l, err := s.listingOf(r, anySize, maxLimit)
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
	writeList(w, "topics", list, next)
	return nil
}

func (s *Server) inspect(ctx context.Context, topics []repository.TopicSummary) []entity.ReplayHealth {
	if s.inspector == nil || len(topics) == 0 {
		return each(topics, unknownHealth)
	}
	return s.inspector.Inspect(ctx, each(topics, func(t repository.TopicSummary) entity.ReplayQuestion {
		return entity.ReplayQuestion{Topic: t.Topic, Groups: t.ConsumerGroups}
	}))
}

func unknownHealth(t repository.TopicSummary) entity.ReplayHealth {
	return entity.ReplayHealth{
		Topic: t.Topic, Class: string(entity.UnknownClass), Reason: "not known: Kafka is not configured",
		Groups: each(t.ConsumerGroups, func(group string) entity.GroupHealth {
			return entity.GroupHealth{Group: group, State: entity.GroupUnknown}
		}),
	}
}

// ingestLag returns nil when it is unknown.
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
		Topic: t.Topic, DLQTopics: listOf(t.DLQTopics), Counts: showCounts(t.Counts),
		OldestPending: stamp(t.OldestPending), LastSeen: stamp(t.LastSeen), IngestLag: lagOf(t.DLQTopics, lag),
		Replay: showReplay(health, s.derived.Fields().ConsumerGroup),
	}
	for _, n := range t.Counts {
		shown.Total += n
	}
	return shown
}

// showCounts names every status, including those without messages.
func showCounts(counts map[entity.Status]int64) map[entity.Status]int64 {
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

func showReplay(h entity.ReplayHealth, masked bool) replayJSON {
	return replayJSON{
		Possible: h.Class == "", Reason: orNull(h.Reason), Class: orNull(h.Class), Exists: h.Exists, Allowed: h.Allowed,
		ConsumerGroups: each(h.Groups, func(g entity.GroupHealth) groupHealthJSON {
			if masked {
				g.Group = maskedText
			}
			return groupHealthJSON{g.Group, g.State, g.Lag}
		}),
	}
}

// listOf never returns nil, because clients iterate over it.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
