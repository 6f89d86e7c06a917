package ingest

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/topics"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Option configures an Ingester.
type Option func(*Ingester)

// WithFingerprints assigns each message to the error group of the fingerprint that f computes. Without this option,
// messages have no error group.
func WithFingerprints(f Fingerprinter) Option { return func(i *Ingester) { i.fingerprinter = f } }

// WithOrigins sets the declarations of kafka.origins. With these declarations, a return is also confirmed in each
// dead-letter topic that is declared for the topic to which the replay was sent.
func WithOrigins(origins deadletter.Origins) Option { return func(i *Ingester) { i.origins = origins } }

// ShareGroups says in which topics dead letters of share groups are. It is safe for concurrent use.
type ShareGroups interface {
	// IsRead reports whether the topic may contain dead letters of share groups.
	IsRead(topic string) bool
	// Answered returns a channel that is closed when the share groups have been read once, or when the permission to
	// read them is missing.
	Answered() <-chan struct{}
}

// WithShareGroups makes the ingester also read the dead-letter topics of share groups, and store their dead letters so
// that package completion completes them.
func WithShareGroups(groups ShareGroups) Option {
	return func(i *Ingester) {
		i.shareGroups = groups
		i.topics = i.topics.Or(groups.IsRead)
	}
}

// WithTracing creates a span for every stored batch, with links to the traces of its records. While the ingester is
// idle, it creates no spans.
func WithTracing(provider trace.TracerProvider) Option {
	return func(i *Ingester) { i.tracer = traces.Tracer(provider, "github.com/dlq-manager/dlq-manager/pkg/ingest") }
}

// WithTopicLabels restricts the names of topics in metrics to those that the given labels allow. Without this option,
// metrics name every topic.
func WithTopicLabels(labels TopicLabels) Option {
	return func(i *Ingester) { i.metrics.labels = labels }
}

// New returns an ingester that reads the topics that patterns match, as a member of consumerGroup. It decodes records
// with the given decoder and with the operators' rules, which it reads from the store. The configuration must be valid.
func New(cfg Config, consumerGroup string, patterns deadletter.Patterns, cluster Cluster, decoder *deadletter.Decoder,
	stores Stores, registry prometheus.Registerer, log *zap.Logger, options ...Option,
) *Ingester {
	i := &Ingester{
		cfg: cfg, consumerGroup: consumerGroup, topics: patterns, cluster: cluster, stores: stores,
		metrics: newMetrics(registry), log: log, heavy: semaphore.NewWeighted(1),
		described: topics.Described{},
	}
	i.decoder.Store(decoder)
	for _, change := range options {
		change(i)
	}
	return i
}

// Run reads and stores records until ctx ends, and then returns nil. While Kafka or the store is unavailable, it waits.
func (i *Ingester) Run(ctx context.Context) error {
	defer i.watchdog.Idle(discoveryLoop)
	var trying sync.WaitGroup
	defer trying.Wait()
	trying.Go(func() { i.tryQuarantined(ctx) })
	i.waitForShareGroups(ctx)
	var current topics.Set
	defer func() { i.reading.end() }()
	for ctx.Err() == nil {
		if len(current) == 0 {
			current = i.waitForTopics(ctx)
			continue
		}
		i.log.Info("reading dead-letter topics", zap.Int("topics", len(current)), zap.Strings("names", current.Names(20)))
		current = i.readUntilChange(ctx, current)
	}
	return nil
}

// shareGroupsTimeout limits the wait for the first list of share groups.
const shareGroupsTimeout = 10 * time.Second

// waitForShareGroups waits until the share groups are known, or for shareGroupsTimeout, so that the first membership
// includes their dead-letter topics and no second one is needed.
func (i *Ingester) waitForShareGroups(ctx context.Context) {
	if i.shareGroups == nil {
		return
	}
	timeout := time.NewTimer(shareGroupsTimeout)
	defer timeout.Stop()
	select {
	case <-i.shareGroups.Answered():
	case <-timeout.C:
	case <-ctx.Done():
	}
}

// readUntilChange joins the consumer group for a fixed set of topics, and returns the next set when the topics change.
func (i *Ingester) readUntilChange(ctx context.Context, current topics.Set) topics.Set {
	memberCtx, leave := context.WithCancel(ctx)
	left := make(chan struct{})
	go func() {
		defer close(left)
		i.member(memberCtx, ctx, current)
	}()
	next := i.waitForChange(ctx, current)
	leave()
	<-left
	return next
}

// CheckKafka returns the last error of reading records, or nil when reading works. It sends no request.
func (i *Ingester) CheckKafka() error {
	return i.health.Get(topicsHealth, consumerGroupHealth, fetchHealth)
}

// CheckDatabase returns the last error of storing records, or nil when storing works. It sends no request.
func (i *Ingester) CheckDatabase() error { return i.health.Get(databaseHealth) }

// Alive returns an error when only a restart can help, for a liveness probe: when a loop that finds topics or reads
// records hangs longer than its timeouts allow. It returns nil while the database or Kafka is unavailable, because a
// restart does not help then.
func (i *Ingester) Alive() error { return i.watchdog.Check(time.Now()) }
