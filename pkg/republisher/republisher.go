// Package republisher sends dead letters back to their original topic, byte for byte: it decides beforehand where a
// message would go or why it must not, sends it with headers that mark it as a replay, and finds out afterwards
// whether the attempt of a dead process reached the log. Callers decide when attempts start and what their end means.
package republisher

import (
	"context"
	"crypto/rand"
	"time"

	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Cluster is the part of Kafka that republishing reads; its methods keep the promises of broker.Cluster.
type Cluster interface {
	Topics(ctx context.Context, names ...string) ([]broker.Topic, error)
	StartOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	EndOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	AppendedOffsets(ctx context.Context, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	CommittedOffsets(ctx context.Context, group string, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error)
	ReadAt(ctx context.Context, tp broker.TopicPartition, offset int64) (broker.Record, error)
	GroupStates(ctx context.Context) (map[string]string, error)
	Scan(ctx context.Context, tp broker.TopicPartition, from, to int64, header string, fn func(broker.Record) (stop bool)) error
}

// Producer writes records, as broker.Producer does.
type Producer interface {
	Produce(ctx context.Context, tp broker.TopicPartition, records []broker.Record) broker.ProduceResult
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
	salt        [32]byte // makes keys of mode uuid unpredictable
	fetching    turn     // of who has a value in memory that no store would hold, to send it
	reading     turn     // likewise, to look at it
	facts       facts    // about topics and groups, for a moment
	now         func() time.Time
	strip       Strip
	pointers    deadletter.Patterns // dead-letter topics whose pointers are followed
	tracer      oteltrace.Tracer    // nil: there are no spans
}

// Strip returns the headers of a record that its replay into target keeps, as deadletter.Decoder.Strip does.
type Strip func(dialect, target string, headers []entity.Header) []entity.Header

// Option changes what New returns.
type Option func(*Republisher)

// WithStrip says what a replay keeps where more than the built-in dialects is known.
func WithStrip(strip Strip) Option { return func(r *Republisher) { r.strip = strip } }

// WithTracing makes a span of every sending to a partition, within the caller's and linked to the traces that the
// messages were part of. What is sent keeps the trace context that it has.
func WithTracing(provider oteltrace.TracerProvider) Option {
	return func(r *Republisher) {
		r.tracer = traces.Of(provider, "github.com/dlq-manager/dlq-manager/pkg/republisher")
	}
}

func stripBuiltIn(dialect, _ string, headers []entity.Header) []entity.Header {
	return deadletter.Strip(dialect, headers)
}

// New returns a Republisher. Nothing is ever sent to deadLetters. An error says what is wrong with cfg.
func New(cfg Config, deadLetters deadletter.Patterns, cluster Cluster, producer Producer, options ...Option) (*Republisher, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	list, err := parseAllowed(cfg.RepublishAllow)
	if err != nil {
		return nil, err
	}
	r := &Republisher{
		cfg: cfg, deadLetters: deadLetters, allowed: list, cluster: cluster, producer: producer,
		fetching: make(turn, 1), reading: make(turn, 1), facts: newFacts(), now: time.Now,
		strip: stripBuiltIn,
	}
	for _, change := range options {
		change(r)
	}
	_, _ = rand.Read(r.salt[:]) // never fails: it ends the process instead
	return r, nil
}
