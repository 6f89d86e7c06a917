package republisher

import (
	"slices"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func TestCommitted(t *testing.T) {
	t.Parallel()
	cluster := newLogs()
	cluster.id = "life"
	cluster.committed = map[broker.TopicPartition]int64{{Topic: orders, Partition: 2}: 7}
	r := newRepublisher(t, cluster)

	got, err := r.Committed(t.Context(), "billing", []string{orders, "gone"})
	want := []repository.Committed{{
		TopicGroup: repository.TopicGroup{Topic: orders, Group: "billing"}, TopicID: "life", Partition: 2, Offset: 7,
	}}
	check.True(t, err == nil && slices.Equal(got, want), "Committed = %+v, %v, want %+v", got, err, want)
	cluster.down = broker.ErrUnavailable
	found, err := r.Committed(t.Context(), "billing", []string{orders})
	check.True(t, err != nil, "Committed without a cluster = %+v, want an error", found)
}
