// Package redrive decides how dead letters are sent back: when an attempt may start, what its end means for the
// message, how a whole topic is walked, and how attempts of dead processes are settled. A store keeps the states,
// a publisher writes the records.
//
// Every attempt has four steps: plan (choose the target partition and note its end offset), claim (store that
// intent), publish, finish (store the result). A process may die between any two of these; the claim then expires,
// and the settler reads the target partition from the noted offset to learn whether the record is there. So
// nothing is lost, and nothing is sent twice unless an operator accepts it.
package redrive

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Store is the part of a repository for attempts and retries of whole topics. Its methods keep the promises of
// repository.Core, end soon after their context, and fail by themselves when a database is silent: loops and
// drains call them without a deadline.
type Store interface {
	repository.Attempts
	repository.Redrives
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) (messages []entity.Message, taken int, err error)
	Counts(ctx context.Context) ([]repository.Count, error)
	GiveUp(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)
	Delete(ctx context.Context, id uuid.UUID, cause entity.Cause) error
	Record(ctx context.Context, entry entity.AuditEntry) error
}

// selections is the part for other redrives.
type selections interface {
	PreviewRedrive(ctx context.Context, n repository.NewRedrive) ([]repository.SelectionCount, error)
	Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error)
	Change(ctx context.Context, c repository.Change, cause entity.Cause) ([]uuid.UUID, error)
	PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error)
	RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error)
}

// outcomes is the part for following the offsets of consumer groups.
type outcomes interface {
	WatchedGroups(ctx context.Context) ([]repository.TopicGroup, error)
	ConfigureGroups(ctx context.Context, groups []repository.TopicGroup) error
	SaveCommitted(ctx context.Context, offsets []repository.Committed) error
}

// Publisher writes messages to their topics, or those of their edits. Answers are in the order of the input.
type Publisher interface {
	// Plan decides where messages would go with their edits, and refuses those that cannot; it does not read the
	// targets of batch. bulk means that no person looked at each message; then it refuses more.
	Plan(ctx context.Context, batch []entity.Outgoing, bulk bool) []entity.Target

	// Publish sends claimed messages. After ctx no send begins (GivenBack); a send under way ends by itself.
	Publish(ctx context.Context, batch []entity.Outgoing) []entity.Delivery

	// FindMany reads target partitions for earlier claims' records: Acknowledged if it is there, GivenBack if not,
	// InDoubt with class UNKNOWN if no reading can decide, with another class if it was unreadable now.
	FindMany(ctx context.Context, claims []entity.Claim) []entity.Delivery
}

// Service carries out attempts. It is safe for concurrent use, and many processes may share one store.
type Service struct {
	cfg       Config
	store     Store
	selected  selections // nil: the store makes no redrives but retries of topics
	outcomes  outcomes   // nil: the store keeps none
	publisher Publisher
	judge     Judge
	log       *zap.Logger
	metrics   *metrics
	backoff   wait.Backoff
	memory    *semaphore.Weighted // of all messages that redrives have under way
	leases    leases              // of batches in this process's hands
	passes    chan struct{}       // held by whoever carries a redrive on
	bell      bell
	draining  atomic.Bool
	tracer    trace.Tracer // nil: there are no spans
	unsettled atomic.Bool  // the last settling with a trace of its own failed
	// What RunOutcomes has written to the store.
	committed  map[repository.Committed]int64
	configured []repository.TopicGroup
	alarmed    time.Time        // when the settler last told of claims that are too old
	now        func() time.Time // has the monotonic clock
	random     func() float64
}

// Option changes what New returns.
type Option func(*Service)

// WithTracing makes spans of redrives' batches, automatic batches and settled claims, not of looking for work.
func WithTracing(provider trace.TracerProvider) Option {
	return func(s *Service) { s.tracer = traces.Of(provider, "github.com/dlq-manager/dlq-manager/pkg/redrive") }
}

// WithTopicLabels has metrics name a topic as label says; without it they name every topic.
func WithTopicLabels(label func(topic string) string) Option {
	return func(s *Service) { s.metrics.label = label }
}

// New returns a Service whose metrics are in registry. cfg must be valid.
func New(cfg Config, store Store, publisher Publisher, registry prometheus.Registerer, log *zap.Logger, options ...Option) *Service {
	s := &Service{
		cfg:       cfg,
		store:     store,
		publisher: publisher,
		judge:     everyOriginDeclared,
		log:       log,
		metrics:   newMetrics(registry),
		backoff:   wait.Backoff{Base: cfg.Auto.Backoff, Max: cfg.Auto.BackoffMax, Jitter: cfg.Auto.Jitter},
		committed: map[repository.Committed]int64{},
		leases:    leases{until: map[*lease]time.Time{}},
		passes:    make(chan struct{}, maxPasses),
		memory:    semaphore.NewWeighted(bytesUnderWay),
		now:       time.Now,
		random:    rand.Float64,
	}
	s.selected, _ = store.(selections)
	s.outcomes, _ = store.(outcomes)
	for _, change := range options {
		change(s)
	}
	return s
}
