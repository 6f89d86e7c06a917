package search

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// PayloadStore has the methods of the store that a PayloadFiller calls.
type PayloadStore interface {
	LoadReporter
	// FillPayloads fills the column payload of some of the messages that wait for it, the latest first. It returns how
	// many it filled, and whether any messages waited.
	FillPayloads(ctx context.Context) (filled int, found bool, err error)
	// PayloadLag returns how long the oldest waiting message has waited; 0 when no message waits.
	PayloadLag(ctx context.Context) (time.Duration, error)
}

// PayloadFiller fills the column payload of messages after they were stored. Any number of PayloadFillers may run on
// one store.
type PayloadFiller struct {
	store    PayloadStore
	interval time.Duration
	log      *zap.Logger
	filled   prometheus.Counter
	lag      prometheus.Gauge

	// The following fields are used only by Run.
	pace   pace
	outage outage.Log
	lagged time.Time // when PayloadLag was last called
}

// NewPayloadFiller returns a PayloadFiller that polls for waiting messages at the interval of cfg. Its metrics are
// registered with registry.
func NewPayloadFiller(cfg Config, store PayloadStore, registry prometheus.Registerer, log *zap.Logger) *PayloadFiller {
	build := promauto.With(registry)
	return &PayloadFiller{
		store: store, interval: cfg.Interval, log: log,
		filled: build.NewCounter(prometheus.CounterOpts{
			Name: "dlq_payloads_filled_total",
			Help: "Messages whose column payload this process filled.",
		}),
		lag: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_payload_lag_seconds",
			Help: "How long the oldest message has waited for its column payload; 0 when none waits.",
		}),
	}
}

// Run fills payloads until ctx ends. It must not run twice at the same time. While the database is unavailable, it
// tries again; it logs the first failure and the recovery.
func (f *PayloadFiller) Run(ctx context.Context) {
	for rest := f.interval; ctx.Err() == nil; wait.Sleep(ctx, rest) {
		began := time.Now()
		n, found, err := f.store.FillPayloads(ctx)
		f.filled.Add(float64(n))
		if err == nil {
			err = f.measure(ctx, found)
		}
		f.outage.Report(ctx, f.log, err, "payloads are not filled; retrying", "payloads are filled again")
		if found && err == nil {
			rest = f.pace.rest(ctx, f.store, time.Since(began))
		} else {
			rest = min(max(2*rest, f.interval), max(maxWait, f.interval))
		}
	}
}

// measure sets the metric of the lag. While messages wait to be filled, it asks the store at most once a second.
func (f *PayloadFiller) measure(ctx context.Context, working bool) error {
	if working && time.Since(f.lagged) < time.Second {
		return nil
	}
	lag, err := f.store.PayloadLag(ctx)
	if err == nil {
		f.lag.Set(lag.Seconds())
		f.lagged = time.Now()
	}
	return err
}

const (
	// loadAge is the time for which an answer of UnderLoad is used.
	loadAge = time.Second
	// longestRest is the longest pause of a worker under load, after a step that took long.
	longestRest = 10 * time.Second
)

// LoadReporter is a store that reports whether it is under load, such as by redrives and heavy ingest.
type LoadReporter interface {
	UnderLoad(ctx context.Context) (bool, error)
}

// pace slows a worker down while the store is under load. The worker then pauses after each step for as long as the step
// took, at most longestRest.
type pace struct {
	asked     time.Time // when UnderLoad was last called
	underLoad bool
}

// rest returns the pause after a step that took the time in took, when more messages wait. A store that does not answer,
// and a nil store, count as under load.
func (p *pace) rest(ctx context.Context, store LoadReporter, took time.Duration) time.Duration {
	if store == nil {
		return min(took, longestRest)
	}
	if now := time.Now(); p.asked.IsZero() || now.Sub(p.asked) >= loadAge {
		underLoad, err := store.UnderLoad(ctx)
		p.asked, p.underLoad = now, underLoad || err != nil
	}
	if !p.underLoad {
		return 0
	}
	return min(took, longestRest)
}
