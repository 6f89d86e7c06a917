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

// TestCommittedOfAShareGroup: the records of a share group's topic are final before the start offset. If the lag is 0,
// all records are final that were in the log when its end was read.
func TestCommittedOfAShareGroup(t *testing.T) {
	t.Parallel()
	cluster := newLogs()
	at := func(partition int32) broker.TopicPartition {
		return broker.TopicPartition{Topic: orders, Partition: partition}
	}
	cluster.shares = map[broker.TopicPartition]broker.ShareOffset{
		at(0): {Start: 3, Lag: 2}, at(1): {Start: 3, Lag: 0}, at(2): {Start: -1, Lag: -1},
	}
	cluster.committed = map[broker.TopicPartition]int64{at(0): 9}
	cluster.records[at(1)] = []broker.Record{{Offset: 4}}
	r := newRepublisher(t, cluster)
	WithShareGroups(func(group string) bool { return group == "shared" })(r)
	got := map[int32]int64{}
	for _, c := range check.Must(r.Committed(t.Context(), "shared", []string{orders}))(t) {
		got[c.Partition] = c.Offset
	}
	check.Equal(t, got, map[int32]int64{0: 3, 1: 5}, "offsets by partition")
}
