package attempt

import (
	"cmp"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

type metrics struct {
	label      func(topic string) string // label of a topic in metrics
	dequeues   *prometheus.CounterVec
	sends      *prometheus.CounterVec
	inflight   prometheus.Gauge
	duration   prometheus.Histogram
	lag        *prometheus.HistogramVec // labelled by the initiator of the attempt
	retryCount prometheus.Histogram
	dead       prometheus.Counter
	stuck      prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer, label func(topic string) string) *metrics {
	build := promauto.With(registry)
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return build.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return build.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	return &metrics{
		label: label,
		dequeues: counters("dlq_redrive_dequeue_total",
			"Messages to claim, by result: claimed, or lost to another process; empty counts queries that found no work.", "result"),
		lag: build.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "dlq_redrive_lag_seconds",
			Help:    "Age of messages, since they were stored, when their record was acknowledged, by initiator: auto or operator.",
			Buckets: []float64{1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600},
		}, []string{"by"}),
		retryCount: build.NewHistogram(prometheus.HistogramOpts{
			Name:    "dlq_redrive_retry_count",
			Help:    "Attempts of a message, over its whole lineage, when an attempt on it ended.",
			Buckets: []float64{1, 2, 3, 5, 8, 13, 21},
		}),
		stuck: gauge("dlq_redrive_stuck_claims",
			"Messages that have been RETRYING for longer than redrive.stuck_after; every replica reports the same number."),
		sends:    counters("dlq_redrive_send_total", "Attempts by target topic and outcome.", "topic", "outcome"),
		inflight: gauge("dlq_redrive_inflight", "Messages claimed by this process whose attempt has not ended."),
		duration: build.NewHistogram(prometheus.HistogramOpts{
			Name:    "dlq_redrive_duration_seconds",
			Help:    "Time from the claim of an attempt to its stored result.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20},
		}),
		dead: build.NewCounter(prometheus.CounterOpts{
			Name: "dlq_redrive_dead_total", Help: "Messages that an attempt moved to DEAD.",
		}),
	}
}

// CountEmptyPoll counts a query by automatic retry that found no message to send.
func (x *Executor) CountEmptyPoll() { x.metrics.dequeues.WithLabelValues("empty").Inc() }

func (m *metrics) dequeued(claimed, lost int) {
	m.dequeues.WithLabelValues("claimed").Add(float64(claimed))
	m.dequeues.WithLabelValues("lost").Add(float64(lost))
}

// ended observes the metrics that depend on how an attempt ended.
func (m *metrics) ended(o Outcome, now time.Time) {
	m.retryCount.Observe(float64(o.Outgoing.Message.RetryCount))
	if o.Delivery.Verdict == entity.Acknowledged {
		by := "operator"
		if o.auto {
			by = "auto"
		}
		m.lag.WithLabelValues(by).Observe(max(0, now.Sub(o.Outgoing.Message.CreatedAt).Seconds()))
	}
}

// verdictLabel returns the label of a verdict in metrics and logs.
func verdictLabel(v entity.Verdict) string { return cmp.Or(string(v), "unknown") }
