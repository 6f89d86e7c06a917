package groups

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
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
	// Inspect says for each question whether messages can be sent back to the topic, and which consumer groups read the
	// topic. The results have the order of the questions.
	Inspect(ctx context.Context, questions []entity.ReplayQuestion) []entity.ReplayHealth

	// IngestLag returns the number of records of each dead-letter topic that are not stored yet, without topics whose
	// number is unknown.
	IngestLag(ctx context.Context, positions []repository.IngestPosition) map[string]int64
}

// Topics answers with the original topics and the state of their consumers.
type Topics struct {
	Database  TopicDatabase
	Inspector Inspector // nil: Kafka is not asked, so the state of the cluster is unknown
	Derived   wire.DerivedMasks
	Cursors   request.Cursors
}

// TopicDatabase counts the messages of topics, and reads the positions of ingest and the targets of redirects.
type TopicDatabase interface {
	TopicSummaries(ctx context.Context, q repository.TopicQuery) ([]repository.TopicSummary, error)
	IngestPositions(ctx context.Context) ([]repository.IngestPosition, error)
	RedirectTargets(ctx context.Context, topics []string) (map[string]string, error)
}

// brokerTimeout limits how long an answer about topics waits for Kafka. The counts of messages come from the database,
// and must not be delayed by Kafka.
const brokerTimeout = 2 * time.Second

// List sends a page of the topics, even when the cluster cannot be reached.
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
	cluster, err := h.ask(ctx, topics)
	if err != nil {
		return err
	}
	list := make([]wire.Topic, 0, len(topics))
	for i, t := range topics {
		list = append(list, wire.NewTopic(t, cluster.health[i], cluster.redirects[t.Topic], cluster.lag, h.Derived.Fields().ConsumerGroup))
	}
	respond.JSON(w, http.StatusOK, wire.Topics{Topics: list, Next: next, Missing: cluster.missing})
	return nil
}

// Get sends one topic. If the caller may see no message of the topic, all counts are zero. Kafka is not asked about a
// topic that the caller may not see.
func (h Topics) Get(w http.ResponseWriter, r *http.Request) error {
	name, p := request.Topic(r), access.Principal(r)
	t := repository.TopicSummary{Topic: name}
	c := cluster{health: wire.Each([]repository.TopicSummary{t}, unknownHealth("not known", entity.UnknownClass)), missing: []string{}}
	if p.May(auth.Viewer, name) {
		var err error
		if t, err = h.summary(r.Context(), name, p.Scope(auth.Viewer)); err != nil {
			return err
		}
		if c, err = h.ask(r.Context(), []repository.TopicSummary{t}); err != nil {
			return err
		}
	}
	masked := h.Derived.Fields().ConsumerGroup
	respond.JSON(w, http.StatusOK, wire.OneTopic{
		Topic: wire.NewTopic(t, c.health[0], c.redirects[t.Topic], c.lag, masked), ConsumerGroups: wire.NewGroupOffsets(c.health[0].Groups, masked), Missing: c.missing,
	})
	return nil
}

func (h Topics) summary(ctx context.Context, name string, visible *entity.TopicPatterns) (repository.TopicSummary, error) {
	if entity.ValidTopic(name) {
		only, err := entity.ParseTopicPatterns("topic", name)
		if err != nil {
			return repository.TopicSummary{}, err
		}
		visible = access.InBoth(visible, &only)
	}
	topics, err := h.Database.TopicSummaries(ctx, repository.TopicQuery{Visible: visible})
	for _, t := range topics {
		if t.Topic == name {
			return t, err
		}
	}
	return repository.TopicSummary{Topic: name}, err
}

// cluster holds what Kafka answered about topics, and the redirects of the topics.
type cluster struct {
	health    []entity.ReplayHealth
	lag       map[string]int64  // records that are not stored yet, by topic; nil: not known
	redirects map[string]string // targets of redirects by topic, from the database
	missing   []string          // names of the fields of the answer for which Kafka did not answer in time
}

// ask reads the redirects from the database, and then asks Kafka two things at the same time: whether replays to the
// topics are possible, and the ingest lag. It waits no longer than brokerTimeout for Kafka. The Inspector continues
// after that time, and caches what Kafka answers.
func (h Topics) ask(ctx context.Context, topics []repository.TopicSummary) (cluster, error) {
	c := cluster{health: wire.Each(topics, unknownHealth("not known: Kafka is not configured", entity.UnknownClass)), missing: []string{}}
	var err error
	if c.redirects, err = h.Database.RedirectTargets(ctx, wire.Each(topics, func(t repository.TopicSummary) string { return t.Topic })); err != nil {
		return c, err
	}
	if h.Inspector == nil || len(topics) == 0 {
		return c, nil
	}
	positions, err := h.Database.IngestPositions(ctx)
	if err != nil {
		return c, err
	}
	health, lag := make(chan []entity.ReplayHealth, 1), make(chan map[string]int64, 1)
	ctx, cancel := context.WithTimeout(ctx, brokerTimeout)
	defer cancel()
	redirects := c.redirects
	go func() { health <- h.inspect(ctx, topics, redirects) }()
	go func() { lag <- h.Inspector.IngestLag(ctx, positions) }()
	select {
	case c.health = <-health:
	case <-ctx.Done():
		c.health = wire.Each(topics, unknownHealth("Kafka has not answered in time", entity.BrokerUnavailable))
	}
	select {
	case c.lag = <-lag:
	case <-ctx.Done():
	}
	if slices.ContainsFunc(c.health, func(h entity.ReplayHealth) bool { return h.Class == string(entity.BrokerUnavailable) }) {
		c.missing = append(c.missing, "replay")
	}
	if len(c.lag) == 0 && len(positions) > 0 {
		c.missing = append(c.missing, "ingest_lag")
	}
	return c, nil
}

// inspect returns whether messages can be sent back to topics. For a redirected topic it asks about the target of the
// redirect, but the field Exists is always about the topic itself.
func (h Topics) inspect(ctx context.Context, topics []repository.TopicSummary, redirects map[string]string) []entity.ReplayHealth {
	questions := wire.Each(topics, func(t repository.TopicSummary) entity.ReplayQuestion {
		return entity.ReplayQuestion{Topic: cmp.Or(redirects[t.Topic], t.Topic), Groups: t.ConsumerGroups}
	})
	var redirected []int
	for i, t := range topics {
		if redirects[t.Topic] != "" {
			redirected = append(redirected, i)
			questions = append(questions, entity.ReplayQuestion{Topic: t.Topic})
		}
	}
	health := h.Inspector.Inspect(ctx, questions)
	if len(health) < len(questions) { // the Inspector stopped before it had asked Kafka all questions
		return wire.Each(topics, unknownHealth("Kafka has not answered in time", entity.BrokerUnavailable))
	}
	for n, i := range redirected {
		health[i].Topic, health[i].Exists = topics[i].Topic, health[len(topics)+n].Exists
	}
	return health[:len(topics)]
}

func unknownHealth(reason string, class entity.ErrorClass) func(repository.TopicSummary) entity.ReplayHealth {
	return func(t repository.TopicSummary) entity.ReplayHealth {
		return entity.ReplayHealth{
			Topic: t.Topic, Class: string(class), Reason: reason,
			Groups: wire.Each(t.ConsumerGroups, func(group string) entity.GroupHealth {
				return entity.GroupHealth{Group: group, State: entity.GroupUnknown}
			}),
		}
	}
}

type timeRange struct{ whole, step time.Duration }

// minuteRange is the only range of time for which arrivals are also counted by the minute.
const minuteRange = "hour"

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

// read reads the query, and reports every problem. The last step of the range is the current one.
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
	step, err := request.Word(query, "step", []string{"minute"})
	p.Add(err)
	p.Refuse(step != "" && name != minuteRange, "step", "must be given with span=%s only", minuteRange)
	asked := timeRanges[name]
	if q.Step = asked.step; step != "" {
		q.Step = repository.ArrivalsMinute
	}
	q.Until = h.Now().UTC().Truncate(q.Step).Add(q.Step)
	q.Since = q.Until.Add(-asked.whole)
	return name, q, p.Err()
}
