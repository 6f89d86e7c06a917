package reach

import (
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
)

// TestRecordDeliveries_ValuesThatMayNotBeRead: a message whose value may not be read says nothing about its target. A
// partition in which all other records fail is closed.
func TestRecordDeliveries_ValuesThatMayNotBeRead(t *testing.T) {
	t.Parallel()
	r := New()
	batch := make([]entity.Outgoing, 2)
	deliveries := []entity.Delivery{{Verdict: entity.Refused, OfValue: true}, {Verdict: entity.Failed}}
	for range MaxFailedBatches {
		check.True(t, !r.Closed(attempt.TopicPartition{}), "the partition is closed too early")
		r.RecordDeliveries(batch, deliveries)
	}
	check.True(t, r.Closed(attempt.TopicPartition{}), "the partition is not closed")
}
