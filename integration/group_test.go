package integration_test

import (
	"maps"

	"github.com/segmentio/kafka-go"
)

// committed returns the committed offsets of a consumer group for the first four partitions of a topic, by partition.
// It is empty when the broker does not answer.
func (c *cluster) committed(group, topic string) map[int]int64 {
	ask := make([]int, partitions)
	for p := range ask {
		ask[p] = p
	}
	res, err := c.admin.OffsetFetch(c.t.Context(), &kafka.OffsetFetchRequest{
		GroupID: group, Topics: map[string][]int{topic: ask},
	})
	if err != nil || res.Error != nil {
		return nil
	}
	offsets := map[int]int64{}
	for _, p := range res.Topics[topic] {
		offsets[p.Partition] = p.CommittedOffset
	}
	return offsets
}

// logEnds returns the end offsets of the first four partitions of a topic, by partition. It ends the test when the
// broker does not answer.
func (c *cluster) logEnds(topic string) map[int]int64 {
	c.t.Helper()
	var ask []kafka.OffsetRequest
	for p := range partitions {
		ask = append(ask, kafka.LastOffsetOf(p))
	}
	res, err := c.admin.ListOffsets(c.t.Context(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: ask}})
	if err != nil {
		c.t.Fatalf("list offsets: %v", err)
	}
	ends := map[int]int64{}
	for _, p := range res.Topics[topic] {
		if p.Error != nil {
			c.t.Fatalf("list offsets: %v", p.Error)
		}
		ends[p.Partition] = p.LastOffset
	}
	return ends
}

// waitNoLag waits until the offsets that the consumer group has committed are the end offsets of the topic's
// partitions.
func (c *cluster) waitNoLag(group, topic string) {
	c.t.Helper()
	ends := c.logEnds(topic)
	eventually(c.t, "the committed offsets are the log's ends", func() bool {
		return maps.Equal(c.committed(group, topic), ends)
	})
}

// shares returns how many partitions each member of a consumer group reads, in no particular order. The result is empty
// during a rebalance.
func (c *cluster) shares(group string) (shares []int) {
	res, err := c.admin.DescribeGroups(c.t.Context(), &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil || len(res.Groups) != 1 || res.Groups[0].GroupState != "Stable" {
		return nil
	}
	for _, member := range res.Groups[0].Members {
		n := 0
		for _, topic := range member.MemberAssignments.Topics {
			n += len(topic.Partitions)
		}
		shares = append(shares, n)
	}
	return shares
}
