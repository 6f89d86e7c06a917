package ingest

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// TopicLabels decides which topics metrics name. It is safe for concurrent use.
type TopicLabels interface {
	// SetTopics says which topics exist in the cluster.
	SetTopics(names []string)
	// Label is the topic, or a name for all topics that metrics do not name.
	Label(topic string) string
}

type metrics struct {
	labels                      TopicLabels            // nil: every topic is named
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

	quarantined                         *prometheus.CounterVec // by topic
	quarantineRecords, quarantinePaused *prometheus.GaugeVec   // by topic
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
		quarantined: byTopic("dlq_quarantined_total", "Records that the database refused to store as messages."),
		quarantineRecords: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_quarantine_records", Help: "Records of a dead-letter topic in quarantine, as every ingester counts them.",
		}, []string{"topic"}),
		quarantinePaused: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "dlq_quarantine_paused", Help: "1 while a dead-letter topic is not read because of the records in quarantine.",
		}, []string{"topic"}),
		rebalances:     counter("dlq_ingest_rebalances_total", "Times that partitions were assigned."),
		commitFailures: counter("dlq_ingest_commit_failures_total", "Offset commits that Kafka refused; harmless."),
		storeFailures:  counter("dlq_ingest_store_failures_total", "Times that the store did not take a batch and ingest waited."),
		lastRecord: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_ingest_last_record_timestamp_seconds", Help: "When a record was last stored.",
		}),
	}
	registry.MustRegister(m.returns, m.lag, m.lastRecord, m.quarantineRecords, m.quarantinePaused)
	return m
}

// showQuarantine sets how many records of each topic are in quarantine, and whether the
// topic is read.
func (m *metrics) showQuarantine(counts []repository.QuarantineCount, full map[string]bool) {
	records, paused := map[string]float64{}, map[string]float64{}
	for _, c := range counts {
		label := m.label(c.Topic)
		records[label] += float64(c.Records)
		if paused[label] += 0; full[c.Topic] {
			paused[label]++
		}
	}
	m.quarantineRecords.Reset()
	m.quarantinePaused.Reset()
	for label, n := range records {
		m.quarantineRecords.WithLabelValues(label).Set(n)
		m.quarantinePaused.WithLabelValues(label).Set(paused[label])
	}
}

// of is the counter of a topic.
func (m *metrics) of(c *prometheus.CounterVec, topic string, more ...string) prometheus.Counter {
	return c.WithLabelValues(append([]string{m.label(topic)}, more...)...)
}

func (m *metrics) label(topic string) string {
	if m.labels == nil {
		return topic
	}
	return m.labels.Label(topic)
}

// lag is how many records of a partition are not fetched yet, as its gauge has it. The
// gauge may be that of other partitions too, of topics that metrics do not name.
type lag struct {
	gauge prometheus.Gauge // nil until the lag is known
	label string
	shown int64
}

// showLag sets the lag of a partition. The gauge is kept: an idle ingester sets
// thousands of them over and over.
func (m *metrics) showLag(p *partition, records int64) {
	l := &p.lag
	if l.gauge == nil {
		l.label = m.label(p.Topic)
		l.gauge = m.lag.WithLabelValues(l.label, partitionLabel(p.Partition))
	}
	records = max(0, records)
	l.gauge.Add(float64(records - l.shown))
	l.shown = records
}

// forgetLag drops the lag of partitions that belong to another ingester now.
func (m *metrics) forgetLag(partitions []*partition) {
	for _, p := range partitions {
		if p.lag.gauge == nil {
			continue
		}
		m.showLag(p, 0)
		if p.lag.label == p.Topic {
			m.lag.DeleteLabelValues(p.Topic, partitionLabel(p.Partition))
		}
		p.lag = lag{}
	}
}

func partitionLabel(p int32) string { return strconv.Itoa(int(p)) }
