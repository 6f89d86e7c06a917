// Package ingest takes every record of every dead-letter topic into the store, exactly once each. It decides which
// topics those are, shares their partitions with other ingesters through a consumer group, and goes on from the
// positions that the store keeps; what Kafka's own offsets say is for lag tools only. How a record is read is left
// to deadletter, how it is kept to the store.
//
//	discovery ──▶ membership ──▶ generation ──▶ fetcher (one a leader)
//	(which topics)  (consumer      (assigned        │ chunks, bounded by bytes
//	                 group)         partitions)     ▼
//	                                            writers ──▶ store, then commit
package ingest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Config says how records are taken in.
type Config struct {
	// MaxRetries is the attempt limit of a new message.
	MaxRetries int `mapstructure:"max_retries"`
	// MaxRecordBytes bounds key and value together; of a larger record position, headers and SHA-256 are stored.
	MaxRecordBytes int64 `mapstructure:"max_record_bytes"`
	// MaxHeaders bounds a record's headers. Of more the first are stored, and the SHA-256.
	MaxHeaders int `mapstructure:"max_headers"`
	// MaxHeaderBytes bounds the headers' names and values. Of more the first are stored, and the SHA-256.
	MaxHeaderBytes int64 `mapstructure:"max_header_bytes"`
	// MaxBatchBytes bounds a batch's inflated size; records after it cannot be read. It bounds work, not memory.
	MaxBatchBytes int64 `mapstructure:"max_batch_bytes"`
	// Payload says when the column payload, which has the JSON of a value for SQL, is
	// filled: "background" is within seconds, "inline" with the message, "never" not.
	Payload string `mapstructure:"payload"`
	// PayloadMaxBytes is the largest value that is also kept as JSON for SQL; 0 is none.
	PayloadMaxBytes int64 `mapstructure:"payload_max_bytes"`
	// DiscoveryInterval is the pause between two lists of topics. A new topic is read within three of them.
	DiscoveryInterval time.Duration `mapstructure:"discovery_interval"`
	// SessionTimeout is how long an ingester that died keeps its partitions.
	SessionTimeout time.Duration `mapstructure:"session_timeout"`
	// BufferBytes bounds the records that are fetched and not stored yet.
	BufferBytes int64 `mapstructure:"buffer_bytes"`
	// Writers is how many batches are stored at the same time.
	Writers int `mapstructure:"writers"`
	// ReturnWindow is how long equal key and value mark a replay's return without our headers; 0 for never.
	ReturnWindow time.Duration `mapstructure:"return_window"`
	// QuarantineMaxRows bounds a topic's records in quarantine: above it, the topic is not read.
	QuarantineMaxRows int64 `mapstructure:"quarantine_max_rows"`
}

// DefaultConfig returns what serves most clusters.
func DefaultConfig() Config {
	limits := broker.DefaultLimits()
	return Config{
		MaxRetries:        entity.DefaultMaxRetries,
		MaxRecordBytes:    limits.RecordBytes,
		MaxHeaders:        limits.Headers,
		MaxHeaderBytes:    limits.HeaderBytes,
		MaxBatchBytes:     limits.BatchBytes,
		Payload:           "background",
		PayloadMaxBytes:   64 << 10,
		DiscoveryInterval: 5 * time.Second,
		SessionTimeout:    15 * time.Second,
		BufferBytes:       24 << 20,
		Writers:           4,
		ReturnWindow:      24 * time.Hour,
		QuarantineMaxRows: 10_000,
	}
}

// Validate reports every value that cannot work.
func (c Config) Validate() error {
	var errs []error
	wrong := func(bad bool, key, reason string) {
		if bad {
			errs = append(errs, &entity.FieldError{Field: "ingest." + key, Reason: reason})
		}
	}
	wrong(c.MaxRetries < 0 || c.MaxRetries > 1000, "max_retries", "must be 0 to 1000")
	wrong(c.MaxRecordBytes < 1 || c.MaxRecordBytes > 512<<20, "max_record_bytes", "must be 1 to 512MiB")
	wrong(c.MaxHeaders < 1 || c.MaxHeaders > 1_000_000, "max_headers", "must be 1 to 1000000")
	wrong(c.MaxHeaderBytes < 1 || c.MaxHeaderBytes > 64<<20, "max_header_bytes", "must be 1 to 64MiB")
	wrong(c.MaxBatchBytes < 1<<20, "max_batch_bytes", "must be at least 1MiB")
	wrong(!slices.Contains([]string{"background", "inline", "never"}, c.Payload), "payload", "must be background, inline or never")
	wrong(c.PayloadMaxBytes < 0 || c.PayloadMaxBytes > 1<<20, "payload_max_bytes", "must be 0 to 1MiB")
	wrong(c.DiscoveryInterval < 100*time.Millisecond || c.DiscoveryInterval > 10*time.Second,
		"discovery_interval", "must be 100ms to 10s, so that a new topic is read within 30s")
	wrong(c.SessionTimeout < time.Second, "session_timeout", "must be at least 1s")
	wrong(c.BufferBytes < 1<<20, "buffer_bytes", "must be at least 1MiB")
	wrong(c.ReturnWindow < 0 || c.ReturnWindow > 30*24*time.Hour, "return_window", "must be 0s to 720h")
	wrong(c.QuarantineMaxRows < 1 || c.QuarantineMaxRows > 1_000_000, "quarantine_max_rows", "must be 1 to 1000000")
	wrong(c.Writers < 1 || c.Writers > 16, "writers", "must be 1 to 16")
	return errors.Join(errs...)
}

func (c Config) limits() broker.Limits {
	return broker.Limits{RecordBytes: c.MaxRecordBytes, Headers: c.MaxHeaders, HeaderBytes: c.MaxHeaderBytes, BatchBytes: c.MaxBatchBytes}
}

// largest is the memory that a single record within the limits may take.
func (c Config) largest() int64 {
	return c.MaxRecordBytes + c.MaxHeaderBytes + 3*int64(broker.HeaderMemory*c.MaxHeaders) + 1<<20
}

// Cluster is the part of Kafka that ingest uses.
type Cluster interface {
	Topics(ctx context.Context, names ...string) ([]broker.Topic, error)
	StartOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	EndOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	Fetch(ctx context.Context, req broker.FetchRequest) (broker.FetchResponse, error)
	Group(cfg broker.GroupConfig) (*kafka.ConsumerGroup, error)
	Mark(ctx context.Context, tp broker.TopicPartition, offset int64) (latest int64, crc uint32, found bool, err error)
}

// Store is the part of a repository that ingest uses.
type Store interface {
	repository.Ingest
	repository.Quarantine
	// SaveConsumerGroups promises what it does in repository.Outcomes.
	SaveConsumerGroups(ctx context.Context, groups []repository.TopicGroup) error
	// AdmitFingerprints promises what it does in repository.Groups.
	AdmitFingerprints(ctx context.Context, failures []repository.TopicFailure) ([]repository.TopicFailure, error)
	// Mapping promises what it does in repository.Mappings.
	Mapping(ctx context.Context) (entity.Mapping, error)
}

// Ingester is one member of the group of ingesters. Run does the work.
type Ingester struct {
	cfg     Config
	group   string
	topics  deadletter.Patterns
	cluster Cluster
	store   Store
	metrics *metrics
	log     *zap.Logger

	decoder atomic.Pointer[deadletter.Decoder] // changes with the operators' rules
	rules   rules
	origins deadletter.Origins // tell confirmed returns; see repository.Batch.Declared

	tracer        trace.Tracer  // nil: there are no spans
	fingerprinter Fingerprinter // nil: there are no error groups
	fingerprints  fingerprints

	known  atomic.Pointer[map[string]bool] // every topic of the cluster, as last seen
	health health

	quarantine quarantine
	groups     groups

	watchdog watchdog

	heavy     *semaphore.Weighted // held while a batch above the usual size is stored, or a quarantined record is tried
	abandoned atomic.Int64        // calls to the store that never came back
}

// Option changes what New returns.
type Option func(*Ingester)

// WithFingerprints gives every message the error group that f finds; without it they have none.
func WithFingerprints(f Fingerprinter) Option { return func(i *Ingester) { i.fingerprinter = f } }

// WithOrigins gives kafka.origins: a return also counts in the dead-letter topics declared for its topic.
func WithOrigins(origins deadletter.Origins) Option { return func(i *Ingester) { i.origins = origins } }

// WithTracing makes a span of every stored batch, linked to its records' traces, and none of idle work.
func WithTracing(provider trace.TracerProvider) Option {
	return func(i *Ingester) { i.tracer = traces.Of(provider, "github.com/dlq-manager/dlq-manager/pkg/ingest") }
}

// WithTopicLabels has metrics name only topics that labels name; without it they name every topic.
func WithTopicLabels(labels TopicLabels) Option {
	return func(i *Ingester) { i.metrics.labels = labels }
}

// New returns an ingester that takes the topics which patterns match as a member of group. It reads records as
// decoder does, under the rules that operators keep in the store. The configuration must be valid.
func New(cfg Config, group string, patterns deadletter.Patterns, cluster Cluster, decoder *deadletter.Decoder,
	store Store, registry prometheus.Registerer, log *zap.Logger, options ...Option,
) *Ingester {
	i := &Ingester{
		cfg: cfg, group: group, topics: patterns, cluster: cluster, store: store,
		metrics: newMetrics(registry), log: log, heavy: semaphore.NewWeighted(1),
	}
	i.decoder.Store(decoder)
	for _, change := range options {
		change(i)
	}
	return i
}

// Run stores and commits records until ctx ends, and returns nil. It waits for Kafka and the store.
func (i *Ingester) Run(ctx context.Context) error {
	defer i.watchdog.rest(discoveryLoop)
	var trying sync.WaitGroup
	defer trying.Wait()
	trying.Go(func() { i.tryQuarantined(ctx) })
	var current topicSet
	for ctx.Err() == nil {
		if len(current) == 0 {
			current = i.waitForTopics(ctx)
			continue
		}
		i.log.Info("reading dead-letter topics", zap.Int("topics", len(current)), zap.Strings("names", current.names(20)))
		current = i.readUntilChange(ctx, current)
	}
	return nil
}

// readUntilChange is a member of the group for a fixed set of topics, and returns the next set.
func (i *Ingester) readUntilChange(ctx context.Context, current topicSet) topicSet {
	memberCtx, leave := context.WithCancel(ctx)
	left := make(chan struct{})
	go func() {
		defer close(left)
		i.member(memberCtx, current)
	}()
	next := i.waitForChange(ctx, current)
	leave()
	<-left
	return next
}

// CheckKafka reports why records cannot be read at the moment, as far as reading has shown; nil when they can.
func (i *Ingester) CheckKafka() error { return i.health.get(topicsHealth, groupHealth, fetchHealth) }

// CheckDatabase reports why records cannot be stored at the moment, as storing has shown; nil when they can.
func (i *Ingester) CheckDatabase() error { return i.health.get(databaseHealth) }

// exists reports whether the cluster has a topic, as last seen.
func (i *Ingester) exists(topic string) bool {
	known := i.known.Load()
	return known != nil && (*known)[topic]
}

// backoff doubles from 100 ms to 5 s.
func backoff(attempt int) time.Duration {
	return min(100*time.Millisecond<<min(attempt, 10), 5*time.Second)
}
