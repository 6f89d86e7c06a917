package attempt

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Store is the part of a repository that attempts need. Its methods keep the promises of repository.Core, return soon
// after their context ends, and fail without a deadline when a database does not answer: loops and drains call them
// without one.
type Store interface {
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	Load(ctx context.Context, ids []uuid.UUID, maxBytes int64) (messages []entity.Message, taken int, err error)
	Claim(ctx context.Context, claims []repository.Claim, how repository.Claiming) ([]entity.Message, error)
	Finish(ctx context.Context, results []repository.Result, cause entity.Cause) ([]repository.Finished, error)
	Expired(ctx context.Context, q repository.ExpiredQuery) ([]entity.Message, error)
	Stuck(ctx context.Context, age time.Duration) (int64, error)
	History(ctx context.Context, id uuid.UUID) ([]entity.Attempt, error)
	GiveUp(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error)
	Delete(ctx context.Context, id uuid.UUID, cause entity.Cause) error
	Record(ctx context.Context, entry entity.AuditEntry) error
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

// Parts are the steps of an attempt. Each is safe for concurrent use, and many processes may share one store.
type Parts struct {
	Planner  *Planner
	Loader   *Loader
	Executor *Executor
	Settler  *Settler
	Retrier  *Retrier
}

// Options holds what is optional.
type Options struct {
	Judge  Judge                     // nil: every original topic counts as declared
	Label  func(topic string) string // returns the label of a topic in metrics; nil: the topic
	Tracer trace.Tracer              // of settled claims; nil: there are no spans
	Random func() float64            // chooses waits within their jitter, from [0, 1); nil: at random
}

// New returns the parts of attempts, whose metrics are in registry.
func New(cfg Config, store Store, publisher Publisher, registry prometheus.Registerer, log *zap.Logger, o Options) *Parts {
	if o.Judge == nil {
		o.Judge = everyOriginDeclared
	}
	if o.Label == nil {
		o.Label = func(topic string) string { return topic }
	}
	if o.Random == nil {
		o.Random = rand.Float64
	}
	p := &Parts{
		Planner: &Planner{publisher: publisher, store: store, judge: o.Judge},
		Loader:  newLoader(store),
		Executor: &Executor{
			cfg: cfg, store: store, publisher: publisher, log: log, metrics: newMetrics(registry, o.Label),
			now: time.Now, random: o.Random,
		},
	}
	p.Settler = &Settler{store: store, publisher: publisher, executor: p.Executor, log: log, tracer: o.Tracer}
	p.Retrier = &Retrier{store: store, planner: p.Planner, loader: p.Loader, executor: p.Executor, settler: p.Settler}
	return p
}

// TopicPartition is the target of a record; partition -1 means the whole topic, when even its partitions are unknown.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// PartitionOf returns the partition of a target.
func PartitionOf(t entity.Target) TopicPartition { return TopicPartition{t.Topic, t.Partition} }
