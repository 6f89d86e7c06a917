package groups

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/access"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/respond"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
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

// Topics answers with the original topics and the state of their consumers.
type Topics struct {
	Database  TopicDatabase
	Inspector Inspector // nil: the cluster is unknown
	Derived   wire.DerivedMasks
	Cursors   request.Cursors
}

// TopicDatabase has the topics with their messages, and the positions of ingest.
type TopicDatabase interface {
	TopicSummaries(ctx context.Context, q repository.TopicQuery) ([]repository.TopicSummary, error)
	IngestPositions(ctx context.Context) ([]repository.IngestPosition, error)
}

// List also answers when the cluster cannot be reached.
func (h Topics) List(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	l, err := h.Cursors.List(r, request.AnySize, request.MaxLimit)
	if err != nil {
		return err
	}
	q := repository.TopicQuery{Visible: access.Principal(r).Scope(auth.Viewer), Limit: l.Limit + 1}
	if l.Position != nil {
		q.After = new(string(l.Position))
	}
	topics, err := h.Database.TopicSummaries(ctx, q)
	if err != nil {
		return err
	}
	topics, next := request.Part(l, topics, func(last repository.TopicSummary) []byte { return []byte(last.Topic) })
	lag, err := h.ingestLag(ctx)
	if err != nil {
		return err
	}
	health := h.inspect(ctx, topics)
	list := make([]wire.Topic, 0, len(topics))
	for i, t := range topics {
		list = append(list, wire.NewTopic(t, health[i], lag, h.Derived.Fields().ConsumerGroup))
	}
	respond.List(w, "topics", list, next)
	return nil
}

func (h Topics) inspect(ctx context.Context, topics []repository.TopicSummary) []entity.ReplayHealth {
	if h.Inspector == nil || len(topics) == 0 {
		return wire.Each(topics, unknownHealth)
	}
	return h.Inspector.Inspect(ctx, wire.Each(topics, func(t repository.TopicSummary) entity.ReplayQuestion {
		return entity.ReplayQuestion{Topic: t.Topic, Groups: t.ConsumerGroups}
	}))
}

func unknownHealth(t repository.TopicSummary) entity.ReplayHealth {
	return entity.ReplayHealth{
		Topic: t.Topic, Class: string(entity.UnknownClass), Reason: "not known: Kafka is not configured",
		Groups: wire.Each(t.ConsumerGroups, func(group string) entity.GroupHealth {
			return entity.GroupHealth{Group: group, State: entity.GroupUnknown}
		}),
	}
}

// ingestLag returns nil when it is unknown.
func (h Topics) ingestLag(ctx context.Context) (map[string]int64, error) {
	if h.Inspector == nil {
		return nil, nil
	}
	positions, err := h.Database.IngestPositions(ctx)
	if err != nil {
		return nil, err
	}
	return h.Inspector.IngestLag(ctx, positions), nil
}

type timeRange struct{ whole, step time.Duration }

var (
	timeRanges = map[string]timeRange{
		"hour": {time.Hour, repository.FineArrivalsStep},
		"day":  {24 * time.Hour, repository.ArrivalsStep},
		"week": {7 * 24 * time.Hour, repository.ArrivalsStep},
	}
	timeRangeNames = []string{"hour", "day", "week"}
)

const defaultTimeRange = "day"

// Activity answers with the number of arrivals.
type Activity struct {
	Database repository.Activity
	Now      func() time.Time
}

// Get sends the number of arrivals over a range of time.
func (h Activity) Get(w http.ResponseWriter, r *http.Request) error {
	name, q, err := h.read(r.URL.Query())
	if err != nil {
		return err
	}
	q.Visible = access.Principal(r).Scope(auth.Viewer)
	arrivals, err := h.Database.Arrivals(r.Context(), q)
	if err != nil {
		return err
	}
	respond.JSON(w, http.StatusOK, wire.NewActivity(name, q.Step, arrivals))
	return nil
}

// read reads the query, and reports every problem. The last step is the current one.
func (h Activity) read(query url.Values) (name string, q repository.ArrivalsQuery, err error) {
	var p request.Problems
	name, err = request.Word(query, "span", timeRangeNames)
	p.Add(err)
	q.Topic, err = request.Text(query, "topic")
	p.Add(err)
	if err == nil && query.Has("topic") && (q.Topic == "" || !request.PossibleTopic(q.Topic)) {
		p.Add(&entity.FieldError{Field: "topic", Reason: "must be the name of an original topic"})
	}
	if name == "" {
		name = defaultTimeRange
	}
	asked := timeRanges[name]
	q.Step = asked.step
	q.Until = h.Now().UTC().Truncate(q.Step).Add(q.Step)
	q.Since = q.Until.Add(-asked.whole)
	return name, q, p.Err()
}
