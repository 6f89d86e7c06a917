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
