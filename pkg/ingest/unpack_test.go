package ingest

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestATopicHasOneUnpacker: batches of one topic that take long to read do not delay the batches of other topics.
func TestATopicHasOneUnpacker(t *testing.T) {
	bubble(func(w *world) {
		const each = 4
		proceed := make(chan struct{})
		for _, topic := range []string{"a.dlq.v1", "b.dlq.v1"} {
			w.cluster.topic(topic, "id-"+topic, each)
		}
		w.cluster.set(func() {
			for n := range int32(each) {
				slow, quick := w.cluster.log(part("a.dlq.v1", n)), w.cluster.log(part("b.dlq.v1", n))
				slow.heavy, slow.reading, quick.heavy = true, func() { <-proceed }, true
			}
		})
		w.start(part("a.dlq.v1", 0), part("a.dlq.v1", 1), part("a.dlq.v1", 2), part("a.dlq.v1", 3),
			part("b.dlq.v1", 0), part("b.dlq.v1", 1), part("b.dlq.v1", 2), part("b.dlq.v1", 3))
		for n := range int32(each) {
			w.cluster.produce(part("a.dlq.v1", n), numbered(2)...)
		}
		pass(10 * time.Second)
		for n := range int32(each) {
			w.cluster.produce(part("b.dlq.v1", n), numbered(2)...)
		}
		pass(time.Minute)
		if a, b := len(w.messages("a.dlq.v1")), len(w.messages("b.dlq.v1")); a != 0 || b != 2*each {
			w.t.Errorf("messages = %d and %d, want none of the topic that takes long and %d", a, b, 2*each)
		}
		close(proceed)
		pass(time.Minute)
		check.Equal(w.t, len(w.messages("a.dlq.v1")), 2*each, "messages")
	})(t)
}
