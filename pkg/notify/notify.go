package notify

import (
	"cmp"
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	eventLimit = 500
	// chores is the interval at which a process searches for spikes, ends notifications that are too old, and counts
	// waiting notifications.
	chores      = time.Minute
	callTimeout = 10 * time.Second
)

// Notifier sends notifications about events to the configured receivers, which it calls sinks.
type Notifier struct {
	cfg     Config
	store   repository.Notifications
	sinks   []*sink
	metrics *metrics
	log     *zap.Logger
	now     func() time.Time
	random  func() float64
	quiet   Quiet
	masked  bool // hides the texts of error groups in notifications

	outage outage.Log // logs one line when the store stops answering, and one when it answers again
}

type sink struct {
	name   string
	kinds  []string              // none: all
	topics *entity.TopicPatterns // nil: all topics
	pace   time.Duration
	sender sender

	failures int // consecutive failures of the receiver itself in this process; used only in the goroutine of serve
}

// Quiet lists the error groups and topics about which no notifications are sent. An event is quiet if its error group
// is in Groups, or if all of its topics are in Topics.
type Quiet struct {
	Groups []uuid.UUID
	Topics []string
}

// Option changes a Notifier.
type Option func(*Notifier)

// WithQuiet sends no notifications about the error groups and topics of q, because the program itself causes their
// events.
func WithQuiet(q Quiet) Option { return func(n *Notifier) { n.quiet = q } }

// WithMaskedGroups hides the texts of error groups in notifications if masked is true. These texts may contain masked
// values, and a receiver has no role that permits it to see them.
func WithMaskedGroups(masked bool) Option { return func(n *Notifier) { n.masked = masked } }

// New returns a Notifier and registers its metrics. cfg must be valid.
func New(cfg Config, store repository.Notifications, registry prometheus.Registerer, log *zap.Logger, options ...Option) (*Notifier, error) {
	n := &Notifier{
		cfg: cfg, store: store, log: log, now: time.Now, random: rand.Float64, //nolint:gosec // jitter is no secret
	}
	for _, o := range options {
		o(n)
	}
	client := newClient(cfg.Timeout)
	var names []string
	for _, s := range cfg.Sinks {
		made, err := newSink(s, cfg, client, n.masked)
		if err != nil {
			return nil, err
		}
		n.sinks = append(n.sinks, made)
		names = append(names, s.Name)
	}
	n.metrics = newMetrics(registry, names)
	return n, nil
}

func newSink(s SinkConfig, cfg Config, client *http.Client, masked bool) (*sink, error) {
	perMinute := cmp.Or(s.PerMinute, defaultPerMinute)
	made := &sink{name: s.Name, kinds: s.Kinds, pace: time.Minute / time.Duration(perMinute)}
	if len(s.Topics) > 0 {
		patterns, err := entity.ParseTopicPatterns("notify.sinks.topics", s.Topics...)
		if err != nil {
			return nil, err
		}
		made.topics = &patterns
	}
	words := words{source: cfg.Source, console: cfg.ConsoleURL, masked: masked}
	target := target{client: client, url: s.URL, urlFile: s.URLFile}
	if s.Type == TypeSlack {
		made.sender = &slack{target: target, words: words}
	} else {
		made.sender = &webhook{target: target, words: words, secretFile: s.SecretFile, now: time.Now}
	}
	return made, nil
}

// hear returns what the sink may know of an event, and reports whether the sink wants it. A sink with topics hears
// nothing of other topics: of an event that also concerns these, it gets neither the title of the error group, which is
// that of its first message, nor the note of the redrive. It gets the counts of a redrive only if they are certain to
// count no messages of other topics.
func (s *sink) hear(e repository.Event) (repository.Event, bool) {
	if len(s.kinds) > 0 && !slices.Contains(s.kinds, string(e.Kind)) {
		return e, false
	}
	if s.topics == nil {
		return e, true
	}
	of := len(e.Topics)
	e.Topics = slices.DeleteFunc(slices.Clone(e.Topics), func(topic string) bool { return !s.topics.Match(topic) })
	r := &e.Redrive
	if len(e.Topics) < of {
		e.Title, r.Note = "", ""
	}
	allSent := len(e.Topics) == of && r.Action == string(entity.RedriveRetry) && r.Succeeded == r.Selected // the topics are those to which it sent
	if !s.topics.Match(r.Topic) && !allSent {
		*r = repository.RedriveEnd{Action: r.Action, Partial: true}
	}
	return e, len(e.Topics) > 0
}

// Run sends notifications until ctx ends, and returns when no request to a receiver is in progress. Without sinks, it
// returns at once. When the store is unavailable, Run logs this once and tries again until the store answers. A
// receiver that does not answer does not delay notifications to other receivers.
func (n *Notifier) Run(ctx context.Context) {
	if len(n.sinks) == 0 {
		return
	}
	var all sync.WaitGroup
	for _, s := range n.sinks {
		all.Go(func() { n.serve(ctx, s) })
	}
	var last time.Time // when chores were last due and done
	for ctx.Err() == nil {
		due := n.now().Sub(last) >= chores
		more, err := n.collect(ctx, due)
		if err == nil && due {
			err = n.chores(ctx)
		}
		if err == nil && due {
			last = n.now()
		}
		n.outage.Report(ctx, n.log, err, "notifications wait: the store does not answer", "notifications are sent again")
		if !more || err != nil {
			wait.Sleep(ctx, n.cfg.Interval)
		}
	}
	all.Wait()
}

func (n *Notifier) chores(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ended, err := n.store.GiveUpNotifications(ctx, n.cfg.GiveUp, eventLimit)
	if err != nil {
		return err
	}
	for _, e := range ended {
		n.metrics.givenUp.WithLabelValues(e.Sink).Inc()
		n.log.Error("a notification was given up", zap.String("sink", e.Sink), zap.String("kind", string(e.Kind)),
			zap.String("object", e.Object), zap.Int64("events", e.Events), zap.Time("since", e.CreatedAt),
			zap.Int("attempts", e.Attempts), zap.String("last_error", e.LastError))
	}
	waiting, err := n.store.WaitingNotifications(ctx)
	if err != nil {
		return err
	}
	n.metrics.wait(waiting)
	return nil
}
