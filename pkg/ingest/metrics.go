package ingest

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// TopicLabels decides which topics metrics name. It is safe for concurrent use.
type TopicLabels interface {
	// SetTopics sets the topics that exist in the cluster.
	SetTopics(names []string)
	// Label returns the topic, or another label that stands for all topics that metrics do not name.
	Label(topic string) string
}

type metrics struct {
	labels                      TopicLabels            // nil when metrics name every topic
	received, stored, duplicate *prometheus.CounterVec // counted by topic
	gaps, partitionErrors       *prometheus.CounterVec
	returns                     *prometheus.CounterVec // number of returns by original topic and by how the ingester recognised them
	loopsStopped                *prometheus.CounterVec // counted by original topic
	lag                         *prometheus.GaugeVec   // one gauge for each topic and partition
	batchRows, storeSeconds     prometheus.Histogram
	visibility                  prometheus.Histogram
	rebalances, commitFailures  prometheus.Counter
	storeFailures               prometheus.Counter
	lastRecord                  prometheus.Gauge

	quarantined                         *prometheus.CounterVec // counted by topic
	quarantineRecords, quarantinePaused *prometheus.GaugeVec   // one gauge for each topic
}

func newMetrics(registry prometheus.Registerer) *metrics {
	build := promauto.With(registry)
	counter := func(name, help string) prometheus.Counter {
		return build.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return build.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return build.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return build.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	return &metrics{
		received:        counters("dlq_ingest_records_received_total", "Records read from dead-letter topics.", "topic"),
		stored:          counters("dlq_ingest_records_stored_total", "Records stored as messages.", "topic"),
		duplicate:       counters("dlq_ingest_records_duplicate_total", "Records read that were stored already.", "topic"),
		gaps:            counters("dlq_ingest_records_lost_total", "Offsets that Kafka removed before they could be read.", "topic"),
		partitionErrors: counters("dlq_ingest_partition_errors_total", "Times that a partition could not be read.", "topic"),
		returns: counters("dlq_returns_total",
			"Replayed records that failed again and came back, by original topic.", "topic", "by"),
		loopsStopped: counters("dlq_loops_stopped_total", "Records that came back too often and arrived dead, by original topic.", "topic"),
		lag: gauges("dlq_ingest_lag_records",
			"Records of a partition that are not fetched yet.", "topic", "partition"),
		batchRows: histogram("dlq_ingest_batch_size", "Messages stored by one statement.",
			[]float64{1, 10, 50, 100, 250, 500, 1000}),
		storeSeconds: histogram("dlq_ingest_store_duration_seconds", "Time that one batch took to store.",
			prometheus.ExponentialBuckets(0.001, 2, 14)),
		visibility: histogram("dlq_ingest_visibility_delay_seconds", "From a record's timestamp to its being stored.",
			[]float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600}),
		quarantined: counters("dlq_quarantined_total", "Records that the database refused to store as messages.", "topic"),
		quarantineRecords: gauges("dlq_quarantine_records",
			"Records of a dead-letter topic in quarantine, as every ingester counts them.", "topic"),
		quarantinePaused: gauges("dlq_quarantine_paused",
			"1 while a dead-letter topic is not read because of the records in quarantine.", "topic"),
		rebalances:     counter("dlq_ingest_rebalances_total", "Times that partitions were assigned."),
		commitFailures: counter("dlq_ingest_commit_failures_total", "Offset commits that Kafka refused; harmless."),
		storeFailures:  counter("dlq_ingest_store_failures_total", "Times that the store rejected a batch or did not answer, and ingest tried again."),
		lastRecord:     build.NewGauge(prometheus.GaugeOpts{Name: "dlq_ingest_last_record_timestamp_seconds", Help: "When a record was last stored."}),
	}
}

// showQuarantine sets the metrics of each topic's records in quarantine: their number, and whether the topic is not
// read because of it.
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

// of returns the counter for a topic.
func (m *metrics) of(c *prometheus.CounterVec, topic string, more ...string) prometheus.Counter {
	return c.WithLabelValues(append([]string{m.label(topic)}, more...)...)
}

func (m *metrics) label(topic string) string {
	if m.labels == nil {
		return topic
	}
	return m.labels.Label(topic)
}

// lag is what showLag remembers for one partition. Partitions with the same number, of topics that metrics do not name,
// share one gauge, to which each partition adds its lag.
type lag struct {
	gauge prometheus.Gauge // nil until the partition's lag is known
	label string
	shown int64
}

// showLag sets the lag of a partition. It keeps the gauge in p, because even an idle ingester sets the gauges of
// thousands of partitions again and again.
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

// forgetLag removes the lag of the partitions of a generation that has ended.
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
