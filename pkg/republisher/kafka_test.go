package republisher

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// realKafka returns a Republisher that uses a real broker, its cluster, and the name of a new topic.
func realKafka(t *testing.T, settings ...kafka.ConfigEntry) (*Republisher, *broker.Cluster, string) {
	t.Helper()
	cfg := broker.DefaultConfig()
	cfg.Brokers = stacktest.Kafka(t)
	cluster := check.Must(broker.Open(cfg))(t)
	t.Cleanup(func() { cluster.Close() })
	patterns := check.Must(deadletter.ParsePatterns("*.dlq.v1"))(t)
	r := check.Must(New(DefaultConfig(), patterns, cluster, cluster.NewProducer(broker.ProducerConfig{}), WithPointers(patterns)))(t)
	return r, cluster, createTopic(t, settings...)
}

func createTopic(t *testing.T, settings ...kafka.ConfigEntry) string {
	t.Helper()
	topic := "republisher." + strings.ReplaceAll(t.Name(), "/", "-") + "." + uuid.NewString()[:8]
	stacktest.CreateTopic(t, topic, 3, settings...)
	return topic
}

func TestRealKafka(t *testing.T) {
	t.Parallel()

	t.Run("RecordsArriveByteForByte", func(t *testing.T) {
		t.Parallel()
		r, cluster, topic := realKafka(t)
		records := []entity.Record{
			{Key: []byte("k"), Value: []byte(`{"a": 1.50}`)},
			{Key: nil, Value: nil},
			{Key: []byte{}, Value: []byte{}},
			{Key: []byte{0, 0xff}, Value: []byte{0xfe, 0, 0x80}},
			{Key: []byte("k"), Value: []byte("v"), Headers: []entity.Header{
				{Key: "a", Value: []byte{0xff}}, {Key: "", Value: nil}, {Key: "a", Value: []byte{}}, {Key: "a\xff", Value: []byte("x")},
			}},
		}
		var messages []entity.Message
		for _, record := range records {
			messages = append(messages, message(to(topic), func(m *entity.Message) { m.Record = record }))
		}
		batch := claimed(t, r, messages...)
		for i, d := range r.Publish(t.Context(), batch) {
			check.Require(t, d.Verdict == entity.Acknowledged && d.Err == nil, "Publish %d = %+v, want acknowledged", i, d)
			tp := broker.TopicPartition{Topic: topic, Partition: d.Partition}
			got := check.Must(cluster.ReadAt(t.Context(), tp, d.Offset))(t)
			check.True(t, reflect.DeepEqual([][]byte{got.Key, got.Value}, [][]byte{records[i].Key, records[i].Value}),
				"record %d = %#v, %#v, want %#v, %#v", i, got.Key, got.Value, records[i].Key, records[i].Value)
			kept := len(got.Headers) - 5
			want := r.headers(&batch[i].Message, topic, records[i].Headers, clock)
			check.True(t, kept == len(records[i].Headers) && reflect.DeepEqual(got.Headers[:kept+4], want[:kept+4]),
				"headers of %d = %q, want %q", i, got.Headers, want)
		}
	})

	t.Run("FindsWhatIsThereAndNothingElse", func(t *testing.T) {
		t.Parallel()
		r, _, topic := realKafka(t)
		batch := claimed(t, r, message(to(topic)), message(to(topic)), message(to(topic)), message(to(topic)))
		r.Publish(t.Context(), []entity.Outgoing{batch[0], batch[2]})
		var claims []entity.Claim
		for _, out := range batch {
			claims = append(claims, out.Message.Claim)
		}
		gone := claims[3]
		gone.Topic += ".gone"
		cutOff := claims[3]
		cutOff.EndOffset = 1_000_000
		want := []entity.Verdict{
			entity.Acknowledged, entity.GivenBack, entity.Acknowledged, entity.GivenBack, entity.InDoubt, entity.InDoubt,
		}
		for i, d := range r.FindMany(t.Context(), append(claims, gone, cutOff)) {
			check.True(t, d.Verdict == want[i], "finding %d = %+v, want verdict %q", i, d, want[i])
		}
	})

	t.Run("EndsOfTransactionsHideNothing", func(t *testing.T) {
		t.Parallel()
		r, _, topic := realKafka(t)
		batch := claimed(t, r, message(to(topic), toPartition(1)), message(to(topic), toPartition(1)))
		transact(t, topic, 1, kgo.TryCommit)
		transact(t, topic, 1, kgo.TryAbort)
		r.Publish(t.Context(), batch[:1])
		transact(t, topic, 1, kgo.TryCommit)
		found := r.FindMany(t.Context(), []entity.Claim{batch[0].Message.Claim, batch[1].Message.Claim})
		check.True(t, found[0].Verdict == entity.Acknowledged && found[1].Verdict == entity.GivenBack,
			"findings = %+v, want the first there and the second not", found)
	})

	t.Run("TopicCreatedAgainIsAnotherLog", func(t *testing.T) {
		t.Parallel()
		r, cluster, topic := realKafka(t)
		out := claimed(t, r, message(to(topic), toPartition(1)))[0]
		check.Require(t, out.Target.TopicID != "", "Plan gives no id of the topic")
		remake(t, cluster, topic)
		tp := broker.TopicPartition{Topic: topic, Partition: 1}
		check.Eventually(t, "a record in the new topic", func() bool {
			res := cluster.NewProducer(broker.ProducerConfig{}).Produce(t.Context(), tp, []broker.Record{{Value: []byte("new")}})
			return res.Err() == nil
		})
		got := r.FindMany(t.Context(), []entity.Claim{out.Message.Claim})[0]
		check.True(t, got.Verdict == entity.InDoubt && got.Class == entity.UnknownClass, "FindMany = %+v, want a doubt for good", got)
	})

	t.Run("TooLargeForTheTopicTakesNoOthersAlong", func(t *testing.T) {
		t.Parallel()
		r, _, topic := realKafka(t, kafka.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "2000"})
		batch := claimed(t, r, message(to(topic)), message(to(topic)), message(to(topic)))
		batch[1].Message.Record.Value = random(3000) // Plan would refuse it
		got := r.Publish(t.Context(), batch)
		want := []entity.Verdict{entity.Acknowledged, entity.Rejected, entity.Acknowledged}
		for i, d := range got {
			check.True(t, d.Verdict == want[i], "delivery %d = %+v, want verdict %q", i, d, want[i])
		}
		check.True(t, got[1].Class == entity.BadRecord, "class = %s, want BAD_RECORD", got[1].Class)
	})

	t.Run("TopicIsNeverCreated", func(t *testing.T) {
		t.Parallel()
		r, _, topic := realKafka(t)
		var refused *entity.RefusedError
		err := r.Plan(t.Context(), plain(message(to(topic+".nowhere"))), false)[0].Err
		check.True(t, errors.As(err, &refused) && refused.Class == entity.UnknownTopic,
			"Plan error = %v, want refused as UNKNOWN_TOPIC", err)
		batch := claimed(t, r, message(to(topic)))
		// the target topic does not exist, as if it had been deleted between Plan and Publish
		batch[0].Target.Topic += ".nowhere"
		if d := r.Publish(t.Context(), batch)[0]; d.Verdict != entity.Refused || d.Class != entity.UnknownTopic {
			t.Errorf("Publish = %+v, want refused as UNKNOWN_TOPIC", d)
		}
	})
}

func toPartition(n int32) func(*entity.Message) {
	return func(m *entity.Message) { m.Origin.Partition = &n }
}

// transact writes one record in a transaction, and commits or aborts the transaction.
func transact(t *testing.T, topic string, partition int32, end kgo.TransactionEndTry) {
	t.Helper()
	cl := check.Must(kgo.NewClient(kgo.SeedBrokers(stacktest.Kafka(t)...), kgo.TransactionalID(uuid.NewString()),
		kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
	defer cl.Close()
	check.NoError(t, cl.BeginTransaction())
	record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte("of a transaction")}
	check.NoError(t, cl.ProduceSync(t.Context(), record).FirstErr())
	check.NoError(t, cl.EndTransaction(t.Context(), end))
}

// remake deletes the topic and creates it again. It waits until the broker has the new topic, because the
// controller confirms the creation earlier.
func remake(t *testing.T, cluster *broker.Cluster, topic string) {
	t.Helper()
	id := func() string {
		topics, err := cluster.Topics(t.Context(), topic)
		if err != nil || len(topics) != 1 || len(topics[0].Partitions) == 0 {
			return ""
		}
		return topics[0].ID
	}
	before := id()
	admin := stacktest.Admin(t)
	check.Must(admin.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{topic}}))(t)
	check.Eventually(t, "the new topic", func() bool {
		res, err := admin.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
			Topic: topic, NumPartitions: 3, ReplicationFactor: -1,
		}}})
		return err == nil && res.Errors[topic] == nil
	})
	check.Eventually(t, "the new topic at the broker", func() bool {
		after := id()
		return after != "" && after != before
	})
}
