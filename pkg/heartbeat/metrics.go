package heartbeat

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of a heartbeat.
const (
	fresh  = "fresh"  // the heartbeat became visible within Fresh
	late   = "late"   // the heartbeat became visible later
	lost   = "lost"   // the heartbeat was not visible within Config.LostAfter
	unsent = "unsent" // Kafka did not accept the heartbeat; this proves nothing about the ingester
)

type metrics struct {
	results  *prometheus.CounterVec
	delay    prometheus.Histogram
	lastSeen prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	build := promauto.With(registry)
	m := &metrics{
		results: build.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_heartbeats_total",
			Help: "Records sent through the whole pipeline to measure it, by result: fresh, late, lost or unsent.",
		}, []string{"result"}),
		delay: build.NewHistogram(prometheus.HistogramOpts{
			Name:    "dlq_heartbeat_delay_seconds",
			Help:    "Time from sending a heartbeat to finding it in the list.",
			Buckets: []float64{.25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		}),
		lastSeen: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_heartbeat_last_seen_timestamp_seconds",
			Help: "When a heartbeat of this process was last found in the list; 0 before the first.",
		}),
	}
	for _, result := range []string{fresh, late, lost, unsent} {
		m.results.WithLabelValues(result)
	}
	return m
}

func (m *metrics) count(result string) { m.results.WithLabelValues(result).Inc() }

func (m *metrics) seen(delay time.Duration, now time.Time) {
	result := fresh
	if delay > Fresh {
		result = late
	}
	m.count(result)
	m.delay.Observe(delay.Seconds())
	m.lastSeen.Set(float64(now.UnixMilli()) / 1000)
}
