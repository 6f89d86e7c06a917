package redrive

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

type metrics struct {
	sends    *prometheus.CounterVec
	inflight prometheus.Gauge
	duration prometheus.Histogram
	dead     prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	build := promauto.With(registry)
	return &metrics{
		sends: build.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_redrive_send_total",
			Help: "Attempts by original topic and by how they ended.",
		}, []string{"topic", "outcome"}),
		inflight: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_redrive_inflight",
			Help: "Messages claimed by this process whose attempt has not ended.",
		}),
		duration: build.NewHistogram(prometheus.HistogramOpts{
			Name:    "dlq_redrive_duration_seconds",
			Help:    "Time from the claim of an attempt to its stored result.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}),
		dead: build.NewCounter(prometheus.CounterOpts{
			Name: "dlq_redrive_dead_total",
			Help: "Messages that an attempt moved to DEAD.",
		}),
	}
}

// outcome names a verdict in metrics.
func outcome(v entity.Verdict) string {
	switch v {
	case entity.Acknowledged:
		return "acknowledged"
	case entity.Skipped:
		return "skipped"
	case entity.Failed:
		return "failed"
	case entity.Rejected:
		return "rejected"
	case entity.Refused:
		return "refused"
	case entity.GivenBack:
		return "given_back"
	case entity.InDoubt:
		return "in_doubt"
	}
	return "unknown"
}
