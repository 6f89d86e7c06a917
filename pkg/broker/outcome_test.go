package broker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	tests := map[verdict][]kafka.Error{
		written:       {0, kafka.DuplicateSequenceNumber},
		recordsRefuse: {kafka.MessageSizeTooLarge, kafka.RecordListTooLarge, kafka.InvalidRecord, kafka.InvalidTimestamp, kafka.InvalidMessage},
		topicRefuse:   {kafka.TopicAuthorizationFailed, kafka.ClusterAuthorizationFailed, kafka.InvalidTopic, kafka.PolicyViolation},
		notWritten:    {kafka.UnknownTopicOrPartition, kafka.NotEnoughReplicas, kafka.ThrottlingQuotaExceeded},
		maybeWritten: {
			kafka.RequestTimedOut, kafka.NotEnoughReplicasAfterAppend, kafka.NotLeaderForPartition,
			kafka.KafkaStorageError, kafka.Unknown, kafka.NetworkException, kafka.Error(12345),
		},
		staleProducer: {kafka.OutOfOrderSequenceNumber, kafka.UnknownProducerId, kafka.InvalidProducerEpoch},
	}
	for want, codes := range tests {
		for _, code := range codes {
			check.Equal(t, judge(int16(code)), want, "judge(%d)", code)
		}
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	refused := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	tests := []struct {
		err  error
		want Class
	}{
		{protocol.CodeError(int16(kafka.RequestTimedOut)), ClassNetworkTimeout},
		{conn.NetworkError(context.DeadlineExceeded), ClassNetworkTimeout},
		{conn.NetworkError(refused), ClassBrokerUnavailable},
		{conn.NetworkError(io.ErrUnexpectedEOF), ClassBrokerUnavailable},
		{conn.NetworkError(kafka.BrokerNotAvailable), ClassBrokerUnavailable},
		{protocol.CodeError(int16(kafka.NotLeaderForPartition)), ClassBrokerUnavailable},
		{protocol.CodeError(int16(kafka.NotEnoughReplicas)), ClassBrokerUnavailable},
		{fmt.Errorf("%w: %w", protocol.CodeError(int16(kafka.NotEnoughReplicas)), context.DeadlineExceeded), ClassBrokerUnavailable},
		{ErrNoLeader, ClassBrokerUnavailable},
		{protocol.CodeError(int16(kafka.ThrottlingQuotaExceeded)), ClassRateLimited},
		{protocol.CodeError(int16(kafka.MessageSizeTooLarge)), ClassBadRecord},
		{protocol.CodeError(int16(kafka.InvalidRecord)), ClassBadRecord},
		{protocol.CodeError(int16(kafka.TopicAuthorizationFailed)), ClassUnauthorized},
		{conn.NetworkError(kafka.SASLAuthenticationFailed), ClassUnauthorized},
		{protocol.CodeError(int16(kafka.UnknownTopicOrPartition)), ClassUnknownTopic},
		{protocol.CodeError(int16(kafka.InvalidTopic)), ClassUnknownTopic},
		{protocol.CodeError(int16(kafka.Unknown)), ClassUnknown},
		{errors.New("something else"), ClassUnknown},
	}
	for _, test := range tests {
		check.Equal(t, Classify(fmt.Errorf("produce: %w", test.err)), test.want, "Classify(%v)", test.err)
	}
}

func TestSpread_DealsTopicsOfOnePartition(t *testing.T) {
	t.Parallel()
	var topics []string
	var partitions []kafka.Partition
	for i := range 10 {
		topics = append(topics, fmt.Sprintf("t%d", i))
		partitions = append(partitions, kafka.Partition{Topic: topics[i]})
	}
	partitions = append(partitions, kafka.Partition{Topic: "of c alone"}, kafka.Partition{Topic: "of nobody"})
	members := []kafka.GroupMember{{ID: "b", Topics: topics}, {ID: "a", Topics: topics}, {ID: "c", Topics: append(topics, "of c alone")}}
	got := spread{}.AssignGroups(members, partitions)
	given := map[string]string{}
	for member, topics := range got {
		n := len(topics)
		check.True(t, n >= 3 && n <= 4, "member %s has %d partitions, want 3 or 4", member, n)
		for topic := range topics {
			given[topic] += member
		}
	}
	check.True(t, len(given) == 11 && given["of c alone"] == "c" && given["of nobody"] == "",
		"assigned %v, want 11 topics once each", given)
	for topic, members := range given {
		check.True(t, len(members) == 1, "topic %s went to %q, want one member", topic, members)
	}
}
