package broker_test

import (
	"testing"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// TestEndOffsets_AfterAnElection: EndOffsets asks again when the old leader refuses a request after an election, and
// when the new leader does not know the high watermark yet. After five such answers, EndOffsets returns ErrUnavailable.
// Other errors are returned at once.
func TestEndOffsets_AfterAnElection(t *testing.T) {
	t.Parallel()
	cluster := fakeKafka(t)
	c := openWith(t, broker.Config{Brokers: cluster.ListenAddrs(), SecurityProtocol: "PLAINTEXT"})
	parts := []broker.TopicPartition{{Topic: "seeded"}}
	asked := 0
	answer := func(code kafka.Error) {
		cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
			asked++
			res := req.ResponseKind().(*kmsg.ListOffsetsResponse)
			partition, topic := kmsg.NewListOffsetsResponseTopicPartition(), kmsg.NewListOffsetsResponseTopic()
			partition.ErrorCode, topic.Topic = int16(code), parts[0].Topic
			topic.Partitions = append(topic.Partitions, partition)
			res.Topics = append(res.Topics, topic)
			return res, nil, true
		})
	}
	answer(kafka.NotLeaderForPartition)
	answer(kafka.OffsetNotAvailable)
	got, err := c.EndOffsets(testContext(t), parts)
	check.NoError(t, err)
	check.Equal(t, got, map[broker.TopicPartition]int64{parts[0]: 0}, "offsets")
	check.Equal(t, asked, 2, "refused requests")

	answer(kafka.TopicAuthorizationFailed)
	_, err = c.EndOffsets(testContext(t), parts)
	check.Is(t, err, broker.ErrUnauthorized, "offsets of a topic that may not be read")
	for range 5 {
		answer(kafka.OffsetNotAvailable)
	}
	_, err = c.EndOffsets(testContext(t), parts)
	check.Is(t, err, broker.ErrUnavailable, "offsets that are not available for long")
	check.Equal(t, asked, 8, "refused requests")
}

// TestEndOffsets_LeaderHasJustJoined: EndOffsets finds a leader that has just joined the cluster, although kafka-go
// does not know that broker yet.
func TestEndOffsets_LeaderHasJustJoined(t *testing.T) {
	t.Parallel()
	cluster := fakeKafka(t)
	c := openWith(t, broker.Config{Brokers: cluster.ListenAddrs(), SecurityProtocol: "PLAINTEXT"})
	parts := []broker.TopicPartition{{Topic: "seeded"}}
	check.Must(c.EndOffsets(testContext(t), parts))(t)
	joined, _, err := cluster.AddNode(-1, 0)
	check.NoError(t, err)
	check.NoError(t, cluster.MoveTopicPartition("seeded", 0, joined))
	got, err := c.EndOffsets(testContext(t), parts)
	check.NoError(t, err)
	check.Equal(t, got, map[broker.TopicPartition]int64{parts[0]: 0}, "offsets")
}
