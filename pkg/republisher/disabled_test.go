package republisher

import (
	"testing"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// TestWithoutKafkaNothingIsStuck: when a process without Kafka dies after it claimed a message, FindMany gives its
// attempt back. There is no log that could be searched for a record. The attempt of a process that had Kafka stays in
// doubt.
func TestWithoutKafkaNothingIsStuck(t *testing.T) {
	t.Parallel()
	d := NewDisabled(DefaultConfig(), zap.NewNop())
	target := d.Plan(t.Context(), plain(entity.Message{OriginalTopic: orders}), false)[0]
	found := d.FindMany(t.Context(), []entity.Claim{
		{ID: uuid.New(), Topic: target.Topic, Partition: target.Partition},
		{Topic: orders},
		{ID: uuid.New(), Topic: orders, Partition: 0, EndOffset: 7},
	})
	want := []entity.Verdict{entity.GivenBack, entity.GivenBack, entity.InDoubt}
	for i, f := range found {
		check.True(t, f.Verdict == want[i], "finding %d = %+v, want verdict %q", i, f, want[i])
	}
}
