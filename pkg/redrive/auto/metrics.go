package auto

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	skipped *prometheus.CounterVec
	rate    prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	build := promauto.With(registry)
	return &metrics{
		skipped: build.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_redrive_auto_skipped_total",
			Help: "Messages that automatic retry could not send, by reason, counted on each try.",
		}, []string{"reason"}),
		rate: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_redrive_auto_rate",
			Help: "Messages a second that automatic retry may send from this process: +Inf without a limit, 0 while it is off.",
		}),
	}
}
