package integration_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// cluster is the Kafka client of the tests. It reads and writes records with another library than dlq-manager, so that
// a bug of one library cannot hide a bug of the other.
type cluster struct {
	t       *testing.T
	brokers []string
	admin   *kafka.Client
	client  *kgo.Client
}

func newCluster(t *testing.T, brokers []string) *cluster {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchMaxBytes(32<<20),
		kgo.MetadataMinAge(50*time.Millisecond), // short, because tests delete and create topics that it uses
		kgo.UnknownTopicRetries(20),
		kgo.AlwaysRetryEOF(), // tests cut connections, also before their first answer
	)
	check.Require(t, err == nil, "kafka client: %v", err)
	t.Cleanup(client.Close)
	return &cluster{
		t: t, brokers: brokers, client: client,
		admin: &kafka.Client{Addr: kafka.TCP(brokers...), Timeout: time.Minute},
	}
}

func (c *cluster) create(topic string, partitions int, settings ...kafka.ConfigEntry) {
	c.t.Helper()
	eventually(c.t, "topic "+topic+" is made", func() bool {
		res, err := c.admin.CreateTopics(c.t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{
			{Topic: topic, NumPartitions: partitions, ReplicationFactor: -1, ConfigEntries: settings},
		}})
		return err == nil && res.Errors[topic] == nil
	})
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, _ = c.admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	})
}

func (c *cluster) delete(topic string) {
	c.t.Helper()
	res, err := c.admin.DeleteTopics(c.t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil || res.Errors[topic] != nil {
		c.t.Fatalf("delete topic %s: %v, %v", topic, err, res)
	}
}

// deleteGroup deletes the offsets of a consumer group, so that the group's next member starts at the earliest offset.
// It waits until the broker has noticed that the group is empty, which takes a moment after the last member died.
func (c *cluster) deleteGroup(group string) {
	c.t.Helper()
	eventually(c.t, "group "+group+" is deleted", func() bool {
		res, err := c.admin.DeleteGroups(c.t.Context(), &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
		return err == nil && res.Errors[group] == nil
	})
}

// produce writes records and sets their offsets.
func (c *cluster) produce(records ...*kgo.Record) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	records = slices.DeleteFunc(slices.Clone(records), func(r *kgo.Record) bool {
		if year := r.Timestamp.Year(); r.Timestamp.IsZero() || year > 1970 && year < 2200 {
			return false
		}
		c.produceAt(ctx, r)
		return true
	})
	if err := c.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		c.t.Fatalf("produce: %v", err)
	}
}

// produceAt writes a record with dlq-manager's own client, because the library of the other methods cannot write the
// timestamp of this record.
func (c *cluster) produceAt(ctx context.Context, r *kgo.Record) {
	c.t.Helper()
	brokers, err := broker.Open(broker.Config{Brokers: c.brokers, SecurityProtocol: "PLAINTEXT"})
	check.Require(c.t, err == nil, "open kafka: %v", err)
	defer func() { _ = brokers.Close() }()
	at := broker.TopicPartition{Topic: r.Topic, Partition: r.Partition}
	record := broker.Record{TopicPartition: at, Time: r.Timestamp, Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		record.Headers = append(record.Headers, entity.Header(h))
	}
	written := brokers.NewProducer(broker.ProducerConfig{}).Produce(ctx, at, []broker.Record{record})
	if err := written.Err(); err != nil {
		c.t.Fatalf("produce: %v", err)
	}
	r.Offset = written.Records[0].Offset
}

// readAll returns every record that the topics contain now. No record may ever have been removed from these topics.
func (c *cluster) readAll(topics ...string) []*kgo.Record {
	c.t.Helper()
	want := c.ends(topics)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxPartitionBytes(16<<20))
	check.Require(c.t, err == nil, "kafka client: %v", err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(c.t.Context(), time.Minute)
	defer cancel()
	var out []*kgo.Record
	for int64(len(out)) < want {
		fetched := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			c.t.Fatalf("read %v: %d records of %d: %v", topics, len(out), want, err)
		}
		out = append(out, fetched.Records()...)
	}
	return out
}

// ends returns the number of records in the topics. It adds up the end offsets, so no record may ever have been removed
// from these topics.
func (c *cluster) ends(topics []string) (total int64) {
	c.t.Helper()
	meta, err := c.admin.Metadata(c.t.Context(), &kafka.MetadataRequest{Topics: topics})
	check.Require(c.t, err == nil, "metadata: %v", err)
	ask := map[string][]kafka.OffsetRequest{}
	for _, t := range meta.Topics {
		for _, p := range t.Partitions {
			ask[t.Name] = append(ask[t.Name], kafka.LastOffsetOf(p.ID))
		}
	}
	eventually(c.t, "every partition has its leader", func() bool {
		total = 0
		res, err := c.admin.ListOffsets(c.t.Context(), &kafka.ListOffsetsRequest{Topics: ask})
		if err != nil {
			return false
		}
		for _, partitions := range res.Topics {
			for _, p := range partitions {
				if p.Error != nil {
					return false // the client has asked the former leader of the partition and must ask again
				}
				total += p.LastOffset
			}
		}
		return true
	})
	return total
}

// header returns the value of the last header with this name; "" when there is none.
func header(r *kgo.Record, name string) (value string) {
	for _, h := range r.Headers {
		if h.Key == name {
			value = string(h.Value)
		}
	}
	return value
}

// digest returns a hash of the key, the value and the headers that a replay keeps, in their order; null
// and empty differ.
func digest(r *kgo.Record) string {
	sum := sha256.New()
	field(sum, r.Key)
	field(sum, r.Value)
	for _, h := range r.Headers {
		if strings.HasPrefix(h.Key, "dlq-") || strings.HasPrefix(h.Key, "kafka_dlt-") {
			continue
		}
		field(sum, []byte(h.Key))
		field(sum, h.Value)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

func field(sum hash.Hash, b []byte) {
	n := int64(len(b))
	if b == nil {
		n = -1
	}
	_ = binary.Write(sum, binary.BigEndian, n)
	sum.Write(b)
}
