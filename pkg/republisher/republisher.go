package republisher

import (
	"context"
	"crypto/rand"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// parallel is how many partitions are written or read at a time.
const parallel = 8

// Cluster is the part of Kafka that republishing reads; its methods behave as those of broker.Cluster.
type Cluster interface {
	Topics(ctx context.Context, names ...string) ([]broker.Topic, error)
	StartOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	EndOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	AppendedOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	CommittedOffsets(ctx context.Context, consumerGroup string, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	ShareOffsets(ctx context.Context, group string) (map[broker.TopicPartition]broker.ShareOffset, error)
	ReadAtOnce(ctx context.Context, tp broker.TopicPartition, offset int64) (broker.Record, error)
	GroupStates(ctx context.Context) (map[string]string, error)
	TopicConfigs(ctx context.Context, topics []string, settings ...string) (map[string]map[string]string, error)
	Scan(ctx context.Context, tp broker.TopicPartition, from, to int64, header string, fn func(broker.Record) (stop bool)) error
}

// Producer writes records, as broker.Producer does.
type Producer interface {
	Throttle(ctx context.Context, tp broker.TopicPartition) time.Duration
	ProduceWithin(ctx context.Context, tp broker.TopicPartition, records []broker.Record, limit broker.BatchLimit) broker.ProduceResult
}

var (
	_ Cluster  = (*broker.Cluster)(nil)
	_ Producer = (*broker.Producer)(nil)
)

// Republisher sends messages back. It is safe for concurrent use.
type Republisher struct {
	cfg         Config
	deadLetters deadletter.Patterns
	allowed     allowed
	cluster     Cluster
	producer    Producer
	salt        [32]byte            // secret from which the keys of KeyUUID are computed, so that they cannot be predicted
	fetching    *semaphore.Weighted // held while Plan or Publish reads a record from Kafka, so that only one is in memory
	reading     *semaphore.Weighted // held while Fetch reads a record from Kafka, so that only one is in memory
	facts       facts               // cached facts about topics and consumer groups
	settings    settings            // cached settings of target topics
	asked       asked               // requests that plans share
	now         func() time.Time
	decoder     *deadletter.Decoder
	pointers    deadletter.Patterns // dead-letter topics whose pointers are followed

	isShareGroup func(group string) bool // nil: no group is a share group
	tracer       oteltrace.Tracer        // nil: no spans
}

// asked holds the requests of Plan that are under way. Plans at the same time for the same topics or partitions share
// them.
type asked struct {
	topics wait.Rounds[string, []broker.Topic]
	ends   wait.Rounds[string, map[broker.TopicPartition]int64]
}

// Option configures a Republisher.
type Option func(*Republisher)

// WithDecoder sets what reads the headers of dead letters, and so which of them a replay keeps and which values are
// envelopes; the default knows only the built-in dialects.
func WithDecoder(d *deadletter.Decoder) Option { return func(r *Republisher) { r.decoder = d } }

// WithTracing creates a span for every send to a partition, as a child of the caller's span and linked to the traces
// of the messages. Sent records keep their own trace context.
func WithTracing(provider oteltrace.TracerProvider) Option {
	return func(r *Republisher) {
		r.tracer = traces.Tracer(provider, "github.com/dlq-manager/dlq-manager/pkg/republisher")
	}
}

// New returns a Republisher. Nothing is ever sent to deadLetters. The error reports invalid settings of cfg.
func New(cfg Config, deadLetters deadletter.Patterns, cluster Cluster, producer Producer, options ...Option) (*Republisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	list, err := parseAllowed(cfg.RepublishAllow)
	if err != nil {
		return nil, err
	}
	decoder, err := deadletter.New(deadletter.DefaultConfig(), deadLetters)
	if err != nil {
		return nil, err
	}
	r := &Republisher{
		cfg: cfg, deadLetters: deadLetters, allowed: list, cluster: cluster, producer: producer,
		fetching: semaphore.NewWeighted(1), reading: semaphore.NewWeighted(1), facts: newFacts(), now: time.Now,
		settings: settings{topics: map[string]*settingsFact{}}, decoder: decoder,
	}
	for _, change := range options {
		change(r)
	}
	_, _ = rand.Read(r.salt[:]) // rand.Read never fails
	return r, nil
}
