package republisher

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// realKafka returns a Republisher on a real broker, and a topic of its own.
func realKafka(t *testing.T, settings ...kafka.ConfigEntry) (*Republisher, *broker.Cluster, string) {
	t.Helper()
	cfg := broker.DefaultConfig()
	cfg.Brokers = stacktest.Kafka(t)
	cluster, err := broker.Open(cfg)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { cluster.Close() })
	patterns, err := deadletter.ParsePatterns("*.dlq.v1")
	if err != nil {
		t.Fatalf("ParsePatterns: %v", err)
	}
	r, err := New(DefaultConfig(), patterns, cluster, cluster.NewProducer(broker.ProducerConfig{}), WithPointers(patterns))
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return r, cluster, createTopic(t, cfg.Brokers, settings...)
}

func createTopic(t *testing.T, brokers []string, settings ...kafka.ConfigEntry) string {
	t.Helper()
	topic := "republisher." + strings.ReplaceAll(t.Name(), "/", "-") + "." + uuid.NewString()[:8]
	transport := &kafka.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	admin := &kafka.Client{Addr: kafka.TCP(brokers...), Transport: transport}
	stacktest.CreateTopic(t, admin, kafka.TopicConfig{
		Topic: topic, NumPartitions: 3, ReplicationFactor: 1, ConfigEntries: settings,
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}}); err != nil {
			t.Errorf("delete topic: %v", err)
		}
	})
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
			if d.Verdict != entity.Acknowledged || d.Err != nil {
				t.Fatalf("Publish %d = %+v, want acknowledged", i, d)
			}
			tp := broker.TopicPartition{Topic: topic, Partition: d.Partition}
			got, err := cluster.ReadAt(t.Context(), tp, d.Offset)
			if err != nil {
				t.Fatalf("ReadAt(%s, %d): %v", tp, d.Offset, err)
			}
			if !reflect.DeepEqual([][]byte{got.Key, got.Value}, [][]byte{records[i].Key, records[i].Value}) {
				t.Errorf("record %d = %#v, %#v, want %#v, %#v", i, got.Key, got.Value, records[i].Key, records[i].Value)
			}
			kept := len(got.Headers) - 5
			want := r.headers(batch[i].Message, topic, records[i].Headers, clock)
			if kept != len(records[i].Headers) || !reflect.DeepEqual(got.Headers[:kept+4], want[:kept+4]) {
				t.Errorf("headers of %d = %q, want %q", i, got.Headers, want)
			}
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
			if d.Verdict != want[i] {
				t.Errorf("finding %d = %+v, want verdict %d", i, d, want[i])
			}
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
		if found[0].Verdict != entity.Acknowledged || found[1].Verdict != entity.GivenBack {
			t.Errorf("findings = %+v, want the first there and the second not", found)
		}
	})

	t.Run("TopicCreatedAgainIsAnotherLog", func(t *testing.T) {
		t.Parallel()
		r, cluster, topic := realKafka(t)
		out := claimed(t, r, message(to(topic), toPartition(1)))[0]
		if out.Target.TopicID == "" {
			t.Fatal("Plan gives no id of the topic")
		}
		remake(t, cluster, topic)
		tp := broker.TopicPartition{Topic: topic, Partition: 1}
		eventually(t, "a record in the new topic", func() bool {
			res := cluster.NewProducer(broker.ProducerConfig{}).Produce(t.Context(), tp, []broker.Record{{Value: []byte("new")}})
			return res.Err() == nil
		})
		got := r.FindMany(t.Context(), []entity.Claim{out.Message.Claim})[0]
		if got.Verdict != entity.InDoubt || got.Class != entity.UnknownClass {
			t.Errorf("FindMany = %+v, want a doubt for good", got)
		}
	})

	t.Run("TooLargeForTheTopicTakesNoOthersAlong", func(t *testing.T) {
		t.Parallel()
		r, _, topic := realKafka(t, kafka.ConfigEntry{ConfigName: "max.message.bytes", ConfigValue: "2000"})
		large := func(m *entity.Message) { m.Record.Value = make([]byte, 3000) }
		got := r.Publish(t.Context(), claimed(t, r, message(to(topic)), message(to(topic), large), message(to(topic))))
		want := []entity.Verdict{entity.Acknowledged, entity.Rejected, entity.Acknowledged}
		for i, d := range got {
			if d.Verdict != want[i] {
				t.Errorf("delivery %d = %+v, want verdict %d", i, d, want[i])
			}
		}
		if got[1].Class != entity.BadRecord {
			t.Errorf("class = %s, want BAD_RECORD", got[1].Class)
		}
	})

	t.Run("TopicIsNeverCreated", func(t *testing.T) {
		t.Parallel()
		r, _, topic := realKafka(t)
		var refused *entity.RefusedError
		err := r.Plan(t.Context(), plain(message(to(topic+".nowhere"))), false)[0].Err
		if !errors.As(err, &refused) || refused.Class != entity.UnknownTopic {
			t.Errorf("Plan error = %v, want refused as UNKNOWN_TOPIC", err)
		}
		batch := claimed(t, r, message(to(topic)))
		batch[0].Target.Topic += ".nowhere" // gone between plan and publish
		if d := r.Publish(t.Context(), batch)[0]; d.Verdict != entity.Refused || d.Class != entity.UnknownTopic {
			t.Errorf("Publish = %+v, want refused as UNKNOWN_TOPIC", d)
		}
	})
}

func toPartition(n int32) func(*entity.Message) {
	return func(m *entity.Message) { m.Origin.Partition = &n }
}

// transact writes one record in a transaction of its own and ends that.
func transact(t *testing.T, topic string, partition int32, end kgo.TransactionEndTry) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(stacktest.Kafka(t)...), kgo.TransactionalID(uuid.NewString()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatalf("NewClient: %v", err)
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatalf("begin transaction: %v", err)
	}
	record := &kgo.Record{Topic: topic, Partition: partition, Value: []byte("of a transaction")}
	if err := cl.ProduceSync(t.Context(), record).FirstErr(); err != nil {
		t.Fatalf("write in a transaction: %v", err)
	}
	if err := cl.EndTransaction(t.Context(), end); err != nil {
		t.Fatalf("end transaction: %v", err)
	}
}

// remake deletes the topic and creates it again. The controller says that it has done
// so before the broker knows.
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
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	admin := &kafka.Client{Addr: kafka.TCP(stacktest.Kafka(t)...), Transport: transport}
	if _, err := admin.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{topic}}); err != nil {
		t.Fatalf("delete topic: %v", err)
	}
	eventually(t, "the new topic", func() bool {
		res, err := admin.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
			Topic: topic, NumPartitions: 3, ReplicationFactor: 1,
		}}})
		return err == nil && res.Errors[topic] == nil
	})
	eventually(t, "the new topic at the broker", func() bool {
		after := id()
		return after != "" && after != before
	})
}

// eventually asks until ok, a bounded number of times.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for range 500 {
		if ok() {
			return
		}
		<-ticker.C
	}
	t.Fatalf("never came: %s", what)
}
