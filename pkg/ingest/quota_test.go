package ingest

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

const (
	unreadableLine = "a partition cannot be read"
	readAgainLine  = "a partition can be read again"
)

func (w *world) lines(message string) int { return w.logged.FilterMessage(message).Len() }

func (w *world) partitionErrors(topic string) float64 {
	return testutil.ToFloat64(w.i.metrics.partitionErrors.WithLabelValues(topic))
}

// TestBatchOverTheQuota: a batch that is larger than the fetch quota can never be read. It is counted, and logged once, and
// the other partitions of the broker are read.
func TestBatchOverTheQuota(t *testing.T) {
	bubble(func(w *world) {
		over, under := part("a.dlq.v1", 0), part("a.dlq.v1", 1)
		w.cluster.topic("a.dlq.v1", "first", 2)
		w.cluster.set(func() { w.cluster.quota.bytes = 600_000 })
		w.cluster.produce(over, broker.Record{Value: make([]byte, 700_000)})
		w.start(over, under)
		for range 5 {
			w.cluster.produce(under, numbered(1)...)
			pass(time.Minute)
		}
		w.wantOffsets("a.dlq.v1", 1, 1, 0, 5)
		check.Equal(w.t, w.lines(unreadableLine), 1, "lines about the partition")
		first := w.partitionErrors("a.dlq.v1")
		pass(time.Minute)
		check.True(w.t, w.partitionErrors("a.dlq.v1") > first && first > 0, "partition errors = %v, then %v", first, w.partitionErrors("a.dlq.v1"))

		w.cluster.set(func() { w.cluster.quota.bytes = 0 })
		pass(time.Minute)
		w.wantOffsets("a.dlq.v1", 1, 0, 0, 1)
		check.Equal(w.t, []int{w.lines(unreadableLine), w.lines(readAgainLine)}, []int{1, 1}, "lines about the partition")
	})(t)
}

// TestOpenTransactionUnderAQuota: a partition whose only record is in an open transaction is not called unreadable when
// the broker answers only with pauses because of another partition's batch.
func TestOpenTransactionUnderAQuota(t *testing.T) {
	bubble(func(w *world) {
		over, open := part("a.dlq.v1", 0), part("b.dlq.v1", 0)
		w.cluster.topic(over.Topic, "first", 1)
		w.cluster.topic(open.Topic, "first", 1)
		w.cluster.produce(over, broker.Record{Value: make([]byte, 700_000)})
		w.cluster.produce(open, numbered(1)...)
		w.cluster.set(func() { w.cluster.quota.bytes, w.cluster.log(open).open = 600_000, 1 })
		w.start(over, open)
		pass(10 * time.Minute)
		check.True(w.t, w.partitionErrors(over.Topic) > 0, "the batch over the quota is not counted")
		check.Equal(w.t, []float64{w.partitionErrors(open.Topic), float64(w.lines(unreadableLine))}, []float64{0, 1}, "errors of the open partition, lines about partitions")

		w.cluster.set(func() { w.cluster.log(open).open = 0 })
		pass(10 * time.Minute)
		check.Equal(w.t, len(w.messages(open.Topic)), 1, "messages after the transaction")
	})(t)
}

// TestQuotaThatIsEnough: a partition that is throttled and gets its records late cannot be called unreadable.
func TestQuotaThatIsEnough(t *testing.T) {
	bubble(func(w *world) {
		w.cluster.topic("a.dlq.v1", "first", 2)
		w.cluster.set(func() { w.cluster.quota.bytes = 600_000 })
		for range 100 {
			for p := range int32(2) {
				w.cluster.produce(part("a.dlq.v1", p), broker.Record{Value: make([]byte, 500_000)})
			}
		}
		w.start(part("a.dlq.v1", 0), part("a.dlq.v1", 1))
		pass(time.Hour)
		check.Equal(w.t, len(w.messages("a.dlq.v1")), 200, "messages")
		check.Equal(w.t, []float64{w.partitionErrors("a.dlq.v1"), float64(w.lines(unreadableLine))}, []float64{0, 0}, "errors and lines about the partitions")
	})(t)
}

// TestUnpackersUnderAQuota: unpackers that a broker throttles without end are reported, and do not delay the large batches
// of other brokers.
func TestUnpackersUnderAQuota(t *testing.T) {
	bubble(func(w *world) {
		throttled, other := []string{"a.dlq.v1", "b.dlq.v1"}, "c.dlq.v1"
		for _, topic := range append(throttled, other) {
			w.cluster.topic(topic, "id-"+topic, 1)
		}
		w.cluster.set(func() {
			for _, topic := range append(throttled, other) {
				w.cluster.log(part(topic, 0)).heavy = true
			}
			w.cluster.log(part(other, 0)).leader = 2
			w.cluster.duringFetch = func() { // the fetcher has learned that the batches need an unpacker
				w.cluster.set(func() { w.cluster.quota = quota{leader: 1, bytes: 1} })
			}
		})
		for _, topic := range throttled {
			w.cluster.produce(part(topic, 0), numbered(1)...)
		}
		w.start(part("a.dlq.v1", 0), part("b.dlq.v1", 0), part(other, 0))
		pass(10 * time.Second)
		w.cluster.set(func() { w.cluster.duringFetch = nil })
		w.cluster.produce(part(other, 0), numbered(1)...)
		pass(3 * time.Minute)
		check.Equal(w.t, len(w.messages(other)), 1, "messages of the other broker")
		check.Equal(w.t, len(w.messages("a.dlq.v1"))+len(w.messages("b.dlq.v1")), 0, "messages behind the quota")
		check.Equal(w.t, w.lines(unreadableLine), 2, "lines about the partitions")
		check.True(w.t, w.partitionErrors("a.dlq.v1") > 0 && w.partitionErrors("b.dlq.v1") > 0, "the partitions are not counted")

		w.cluster.set(func() { w.cluster.quota = quota{} })
		pass(time.Minute)
		check.Equal(w.t, len(w.messages("a.dlq.v1"))+len(w.messages("b.dlq.v1")), 2, "messages after the quota")
		check.Equal(w.t, w.lines(readAgainLine), 2, "lines about the partitions")
	})(t)
}
