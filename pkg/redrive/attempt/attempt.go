package attempt

import (
	"math/rand/v2"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Parts holds the types of this package that together make attempts. Each is safe for concurrent use, and many
// processes may share one store.
type Parts struct {
	Planner  *Planner
	Loader   *Loader
	Executor *Executor
	Settler  *Settler
	Retrier  *Retrier
}

// Options holds the optional dependencies of attempts.
type Options struct {
	Judge     Judge                     // judges original topics; nil: every original topic counts as declared
	Redirects Redirects                 // the store of redirects; nil: no topic is redirected
	Label     func(topic string) string // returns the label of a topic in metrics; nil: the topic's name
	Tracer    trace.Tracer              // makes the spans of settling; nil: there are no spans
	// returns numbers in [0, 1), which vary the pauses between attempts within their jitter; nil: random numbers
	Random func() float64
}

// New returns the parts that carry out attempts, and registers their metrics in registry.
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
		Planner: &Planner{publisher: publisher, store: store, judge: o.Judge, redirects: o.Redirects},
		Loader:  newLoader(store),
		Executor: &Executor{
			cfg: cfg, store: store, publisher: publisher, log: log, metrics: newMetrics(registry, o.Label),
			now: time.Now, random: o.Random,
		},
	}
	p.Settler = &Settler{store: store, publisher: publisher, executor: p.Executor, log: log, tracer: o.Tracer}
	p.Retrier = &Retrier{
		store: store, planner: p.Planner, loader: p.Loader, executor: p.Executor, settler: p.Settler,
		turns: wait.NewGates[string](retriesAtOnce),
	}
	return p
}
