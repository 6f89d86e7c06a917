package search

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	documents prometheus.Counter
	lag       prometheus.Gauge
	markAge   prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	build := promauto.With(registry)
	return &metrics{
		documents: build.NewCounter(prometheus.CounterOpts{
			Name: "dlq_catalogue_documents_total",
			Help: "Messages that this process made searchable, each time that it did.",
		}),
		lag: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_catalogue_lag_seconds",
			Help: "Age of the oldest message that cannot be searched for yet; 0 when there is none, and in processes that leave the work to another.",
		}),
		markAge: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_catalogue_mark_age_seconds",
			Help: "For how long an open transaction of the database has kept the search catalogue from being sure of what lies behind it; 0 when none does.",
		}),
	}
}
