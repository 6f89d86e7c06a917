// Package redrive sends dead letters back. It decides when an attempt may start, what its result means for the
// message, how the messages of a redrive are walked, and how attempts of dead processes are settled. A store keeps
// the states, a publisher writes the records.
//
// Every attempt has four steps: plan (choose the target partition and read its end offset), claim (store that
// intent), publish, and finish (store the result). A process may die between any two of these. Then the claim
// expires, and the settler reads the target partition from the stored offset to learn whether the record is there. So
// no message is lost, and none is sent twice unless an operator accepts it.
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

// Store is the part of a repository that attempts and retries of whole topics need. Its methods keep the promises of
// repository.Core, return soon after their context ends, and fail without a deadline when a database does not answer:
// loops and drains call them without one.
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

// selections is the part of a store for redrives with a selection or another action than retry.
type selections interface {
	Survey(ctx context.Context, n repository.NewRedrive) ([]repository.SurveyGroup, error)
	Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error)
	Change(ctx context.Context, c repository.Change, cause entity.Cause) ([]uuid.UUID, error)
	PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error)
	RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error)
}

// outcomes is the part of a store for following the committed offsets of consumer groups.
type outcomes interface {
	WatchedGroups(ctx context.Context) ([]repository.TopicGroup, error)
	ConfigureGroups(ctx context.Context, groups []repository.TopicGroup) error
	NoteCommitted(ctx context.Context, offsets []repository.Committed) error
}

// Publisher writes messages to their topics, or to those of their edits. Results are in the order of the input.
type Publisher interface {
	// Plan decides where messages would be sent with their edits, and refuses those that cannot be sent; it ignores
	// the targets in batch. bulk means that no person reviewed each message; then it refuses more.
	Plan(ctx context.Context, batch []entity.Outgoing, bulk bool) []entity.Target

	// Publish sends claimed messages. After ctx ends, no send begins (GivenBack); a send under way is completed.
	Publish(ctx context.Context, batch []entity.Outgoing) []entity.Delivery

	// FindMany reads target partitions for the records of earlier claims: Acknowledged if the record is there, GivenBack
	// if not, InDoubt with class UNKNOWN if reading cannot decide, InDoubt with another class if it was unreadable now.
	FindMany(ctx context.Context, claims []entity.Claim) []entity.Delivery
}

// Service makes attempts and runs redrives. It is safe for concurrent use, and many processes may share one store.
type Service struct {
	cfg       Config
	store     Store
	selected  selections // nil: the store supports only retries of topics
	outcomes  outcomes   // nil: the store keeps no outcomes
	publisher Publisher
	judge     Judge
	log       *zap.Logger
	metrics   *metrics
	backoff   wait.Backoff
	memory    *semaphore.Weighted // for all messages that redrives have in memory
	leases    leases              // the batches that this process holds
	passes    chan struct{}       // limits concurrent passes to maxPasses
	bell      bell
	draining  atomic.Bool
	tracer    trace.Tracer // nil: no spans are made
	unsettled atomic.Bool  // the last settling with a trace of its own failed
	// The state that RunOutcomes last wrote to the store.
	committed  map[repository.Committed]int64
	configured []repository.TopicGroup
	alarmed    time.Time        // when the settler last logged claims that are too old
	now        func() time.Time // has the monotonic clock
	random     func() float64
}

// Option configures a Service.
type Option func(*Service)

// WithTracing makes spans of redrives' batches, automatic batches and settled claims, but not of polling for work.
func WithTracing(provider trace.TracerProvider) Option {
	return func(s *Service) { s.tracer = traces.Of(provider, "github.com/dlq-manager/dlq-manager/pkg/redrive") }
}

// WithTopicLabels sets the label of a topic in metrics; without it metrics name every topic.
func WithTopicLabels(label func(topic string) string) Option {
	return func(s *Service) { s.metrics.label = label }
}

// New returns a Service and registers its metrics. cfg must be valid.
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
