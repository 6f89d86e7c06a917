package ingest

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// TestABatchThatWasStoredInPartGoesOn: a try that stores the first messages of a batch and then fails does not end the
// generation.
func TestABatchThatWasStoredInPartGoesOn(t *testing.T) {
	bubble(func(w *world) {
		tp := part("a.dlq.v1", 0)
		w.cluster.topic(tp.Topic, "A", 1)
		tries := 0
		w.store.set(func() {
			w.store.fail = func() error {
				if tries++; tries == 1 {
					return errDown
				}
				return nil
			}
			w.store.before = func(b repository.Batch) {
				if tries > 0 {
					return
				}
				b.Ranges, b.Messages = slices.Clone(b.Ranges), b.Messages[:4]
				b.Ranges[0].To = 4
				check.Must(w.store.Store.Store(w.t.Context(), b))(w.t)
			}
		})
		w.cluster.produce(tp, numbered(10)...)
		ended, _ := w.start(tp)
		pass(time.Minute)
		select {
		case err := <-ended:
			w.t.Fatalf("the generation ended: %v", err)
		default:
		}
		w.wantOffsets(tp.Topic, 1, 0, 0, 10)
		w.wantPosition(tp, 10)
		check.Equal(w.t, testutil.ToFloat64(w.i.metrics.stored.WithLabelValues(tp.Topic)), 10, "dlq_ingest_records_stored_total")
	})(t)
}
