package broker_test

import (
	"context"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// member joins a consumer group, and returns when it has read a record.
func member(t *testing.T, group, topic string, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl := check.Must(kgo.NewClient(append(opts, kgo.SeedBrokers(stacktest.Kafka(t)...), kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...))(t)
	t.Cleanup(cl.Close)
	if fetches := cl.PollRecords(testContext(t), 1); fetches.Err() != nil || fetches.NumRecords() != 1 {
		t.Fatalf("PollRecords = %d records, %v, want one", fetches.NumRecords(), fetches.Err())
	}
	return cl
}

func TestGroupThatTheUserMayNotSee(t *testing.T) {
	t.Parallel()
	cluster := fakeKafka(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.User("PLAIN", "alice", "right", kfake.ACL{
		Resource: kmsg.ACLResourceTypeGroup, Name: "seen", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true,
	}))
	cfg := broker.Config{Brokers: cluster.ListenAddrs(), SecurityProtocol: "SASL_PLAINTEXT"}
	cfg.SASL = broker.SASLConfig{Mechanism: "PLAIN", Username: "alice", Password: "right"}
	c := openWith(t, cfg)
	check.NoError(t, c.CheckDescribe(testContext(t), "seen"))
	check.Is(t, c.CheckDescribe(testContext(t), "hidden"), broker.ErrUnauthorized, "a hidden group")
}

func TestGroupStates(t *testing.T) {
	t.Parallel()
	c := open(t, stacktest.Kafka(t))
	topic := createTopic(t, 1)
	mustProduce(t, c, broker.TopicPartition{Topic: topic}, values("one")...)

	classic, consumer, left := topic+".classic", topic+".consumer", topic+".left"
	member(t, classic, topic)
	member(t, consumer, topic,
		kgo.WithContext(context.WithValue(testContext(t), "opt_in_kafka_next_gen_balancer_beta", true))) //nolint:staticcheck // the library's own key
	gone := member(t, left, topic)
	check.NoError(t, gone.CommitUncommittedOffsets(testContext(t)))
	gone.Close()

	want := map[string]string{classic: "Stable", consumer: "Stable", left: "Empty", topic + ".never": ""}
	check.Eventually(t, "the states of the groups", func() bool {
		states := check.Must(c.GroupStates(testContext(t)))(t)
		for group, state := range want {
			if states[group] != state {
				t.Logf("group %s is %q, want %q", group, states[group], state)
				return false
			}
		}
		return true
	})
}
