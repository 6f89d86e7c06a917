package ingest

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry/telemetrytest"
)

func (w *world) wantMetric(what string, metric prometheus.Collector, want float64) {
	w.t.Helper()
	telemetrytest.Want(w.t, what, metric, want)
}

// onlyTopic is a TopicLabels that names a single topic.
type onlyTopic string

func (onlyTopic) SetTopics([]string) {}

func (o onlyTopic) Label(topic string) string {
	if topic == string(o) {
		return topic
	}
	return "other"
}

// TestMetrics checks the values of the metrics on which the alerts, the service level objectives and the dashboard
// depend.
func TestMetrics(t *testing.T) {
	t.Parallel()
	a := part("a.dlq.v1", 0)
	for name, test := range map[string]func(w *world){
		"OfRecordsThatAreStored": func(w *world) {
			_, stop := w.start(a)
			w.arrive(a, numbered(3)...)
			stored := time.Now()
			_ = stop()
			m := w.i.metrics
			w.wantMetric("received", m.received.WithLabelValues(a.Topic), 3)
			w.wantMetric("stored", m.stored.WithLabelValues(a.Topic), 3)
			count, sum := telemetrytest.Observed(w.t, m.batchRows)
			check.True(w.t, count != 0 && sum == 3, "dlq_ingest_batch_size has %d values of %v together, want 3 messages", count, sum)
			if count, _ := telemetrytest.Observed(w.t, m.storeSeconds); count == 0 {
				w.t.Error("dlq_ingest_store_duration_seconds has no value, want one for each batch")
			}
			if at := testutil.ToFloat64(m.lastRecord); at < float64(stored.Add(-time.Minute).Unix()) || at > float64(stored.Unix()+1) {
				w.t.Errorf("dlq_ingest_last_record_timestamp_seconds is %v, want %d", at, stored.Unix())
			}
			w.wantMetric("rebalances", m.rebalances, 1)
		},
		"OfRecordsThatAnotherIngesterStored": func(w *world) {
			w.cluster.produce(a, numbered(3)...)
			w.store.before = func(b repository.Batch) {
				w.store.set(func() { w.store.before = nil })
				first := b
				first.Messages = b.Messages[:1]
				first.Ranges = []repository.Range{{Partition: b.Ranges[0].Partition, From: b.Ranges[0].From, To: b.Ranges[0].From + 1}}
				check.Must(w.store.Store.Store(w.t.Context(), first))(w.t)
			}
			_, stop := w.start(a)
			pass(3 * time.Second)
			_ = stop()
			w.wantMetric("duplicate", w.i.metrics.duplicate.WithLabelValues(a.Topic), 3)
			w.wantMetric("stored", w.i.metrics.stored.WithLabelValues(a.Topic), 2) // when it has read them again
		},
		"OfAStoreThatIsAway": func(w *world) {
			failures := 2
			w.store.fail = func() error {
				if failures--; failures >= 0 {
					return errDown
				}
				return nil
			}
			w.cluster.produce(a, numbered(1)...)
			_, stop := w.start(a)
			pass(10 * time.Second)
			_ = stop()
			w.wantMetric("store failures", w.i.metrics.storeFailures, 2)
			if count, sum := telemetrytest.Observed(w.t, w.i.metrics.visibility); count != 1 || sum <= 0 {
				w.t.Errorf("dlq_ingest_visibility_delay_seconds has %d values of %v together, want one: the time until the record was stored", count, sum)
			}
		},
		"OfCommitsThatFail": func(w *world) {
			w.commitErr = errDown
			w.cluster.produce(a, numbered(1)...)
			w.start(a)
			pass(3*time.Second + commitInterval/2)
			w.wantMetric("commit failures", w.i.metrics.commitFailures, 3)
		},
		"OfAPartitionThatCannotBeRead": func(w *world) {
			gone := part("gone.dlq.v1", 0)
			_, stop := w.start(gone)
			pass(partitionBackoff / 2)
			_ = stop()
			w.wantMetric("partition errors", w.i.metrics.partitionErrors.WithLabelValues(gone.Topic), 1)
		},
		"OfRecordsThatWait": func(w *world) {
			w.i.cfg.BufferBytes = 1 << 20
			hang := make(chan struct{})
			w.cluster.produce(a, numbered(1)...)
			_, stop := w.start(a)
			pass(time.Second)
			lag := func() float64 { return testutil.ToFloat64(w.i.metrics.lag.WithLabelValues(a.Topic, "0")) }
			check.Equal(w.t, lag(), 0, "lag")
			w.store.set(func() { w.store.hang = hang })
			waiting := make([]broker.Record, 10)
			for n := range waiting {
				waiting[n].Value = make([]byte, 512<<10)
			}
			w.cluster.produce(a, waiting...)
			pass(time.Second)
			found := lag()
			check.True(w.t, found >= 1 && found <= 9, "lag is %v while the store hangs, want some of 10", found)
			w.store.set(func() { w.store.hang = nil })
			close(hang)
			pass(10 * time.Second)
			got := lag()
			check.True(w.t, got == 0, "lag is %v after that, want 0", got)
			_ = stop()
			n := testutil.CollectAndCount(w.i.metrics.lag)
			check.True(w.t, n == 0, "%d partitions have a lag after they were given up, want 0", n)
		},
		"OfTopicsThatAreNotNamed": func(w *world) {
			WithTopicLabels(onlyTopic(a.Topic))(w.i)
			b, c := part("b.dlq.v1", 0), part("c.dlq.v1", 0)
			w.cluster.topic(b.Topic, "B", 1)
			w.cluster.topic(c.Topic, "C", 1)
			for n, p := range []broker.TopicPartition{a, b, c} {
				w.cluster.produce(p, numbered(n+1)...)
			}
			_, stop := w.start(a, b, c)
			pass(3 * time.Second)
			w.wantMetric("stored of the topic", w.i.metrics.stored.WithLabelValues(a.Topic), 1)
			w.wantMetric("stored of others", w.i.metrics.stored.WithLabelValues("other"), 2+3)
			n := testutil.CollectAndCount(w.i.metrics.lag)
			check.True(w.t, n == 2, "%d series of lag, want that of the topic and that of others", n)
			_ = stop()
			w.wantMetric("lag of others after they were given up", w.i.metrics.lag.WithLabelValues("other", "0"), 0)
		},
	} {
		t.Run(name, bubble(func(w *world) {
			w.cluster.topic(a.Topic, "A", 1)
			test(w)
		}))
	}
}
