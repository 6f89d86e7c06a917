package ingest

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

type metrics struct {
	received, stored, duplicate *prometheus.CounterVec // by topic
	gaps, partitionErrors       *prometheus.CounterVec
	returns                     *prometheus.CounterVec // by original topic and how it was known
	loopsStopped                *prometheus.CounterVec // by original topic
	lag                         *prometheus.GaugeVec   // by topic and partition
	batchRows, storeSeconds     prometheus.Histogram
	visibility                  prometheus.Histogram
	rebalances, commitFailures  prometheus.Counter
	storeFailures               prometheus.Counter
	lastRecord                  prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	byTopic := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"topic"})
		registry.MustRegister(c)
		return c
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
		registry.MustRegister(h)
		return h
	}
	m := &metrics{
		received:        byTopic("dlq_ingest_records_received_total", "Records read from dead-letter topics."),
		stored:          byTopic("dlq_ingest_records_stored_total", "Records stored as messages."),
		duplicate:       byTopic("dlq_ingest_records_duplicate_total", "Records read that were stored already."),
		gaps:            byTopic("dlq_ingest_records_lost_total", "Offsets that Kafka removed before they could be read."),
		partitionErrors: byTopic("dlq_ingest_partition_errors_total", "Times that a partition could not be read."),
		returns: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_returns_total", Help: "Replayed records that failed again and came back, by original topic.",
		}, []string{"topic", "by"}),
		loopsStopped: byTopic("dlq_loops_stopped_total", "Records that came back too often and arrived dead, by original topic."),
		lag: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_ingest_lag_records", Help: "Records of a partition that are not fetched yet.",
		}, []string{"topic", "partition"}),
		batchRows: histogram("dlq_ingest_batch_size", "Messages stored by one statement.",
			[]float64{1, 10, 50, 100, 250, 500, 1000}),
		storeSeconds: histogram("dlq_ingest_store_duration_seconds", "Time that one batch took to store.",
			prometheus.ExponentialBuckets(0.001, 2, 14)),
		visibility: histogram("dlq_ingest_visibility_delay_seconds", "From a record's timestamp to its being stored.",
			[]float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}),
		rebalances:     counter("dlq_ingest_rebalances_total", "Times that partitions were assigned."),
		commitFailures: counter("dlq_ingest_commit_failures_total", "Offset commits that Kafka refused; harmless."),
		storeFailures:  counter("dlq_ingest_store_failures_total", "Times that the store did not take a batch and ingest waited."),
		lastRecord: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_ingest_last_record_timestamp_seconds", Help: "When a record was last stored.",
		}),
	}
	registry.MustRegister(m.returns, m.lag, m.lastRecord)
	return m
}

// forget drops the lag of partitions that belong to another ingester now.
func (m *metrics) forget(parts []broker.TopicPartition) {
	for _, tp := range parts {
		m.lag.DeleteLabelValues(tp.Topic, partitionLabel(tp.Partition))
	}
}

func partitionLabel(p int32) string { return strconv.Itoa(int(p)) }
