package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cluster is the bench's own way to Kafka. It writes with another client than
// the product's.
type cluster struct {
	brokers []string
	admin   *kafka.Client
	client  *kgo.Client
}

func newClient(brokers []string, more ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // as Spring's default
	}, more...)...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return client, nil
}

func connect(brokers []string) (*cluster, error) {
	client, err := newClient(brokers)
	if err != nil {
		return nil, err
	}
	return &cluster{brokers: brokers, client: client, admin: &kafka.Client{Addr: kafka.TCP(brokers...), Timeout: 30 * time.Second}}, nil
}

func (c *cluster) close() {
	if c != nil {
		c.client.Close()
	}
}

func (c *cluster) create(ctx context.Context, topics ...string) error {
	request := &kafka.CreateTopicsRequest{}
	for _, t := range topics {
		request.Topics = append(request.Topics, kafka.TopicConfig{Topic: t, NumPartitions: partitions, ReplicationFactor: 1})
	}
	answer, err := c.admin.CreateTopics(ctx, request)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	for topic, err := range answer.Errors {
		if err != nil {
			return fmt.Errorf("create topic %s: %w", topic, err)
		}
	}
	return nil
}

// remove makes room.
func (c *cluster) remove(ctx context.Context, topics ...string) error {
	answer, err := c.admin.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: topics})
	if err != nil {
		return fmt.Errorf("remove topics: %w", err)
	}
	for topic, err := range answer.Errors {
		if err != nil {
			return fmt.Errorf("remove topic %s: %w", topic, err)
		}
	}
	return nil
}

// produce writes n records, waits until Kafka has them all, and returns the
// bytes of their values.
func (c *cluster) produce(ctx context.Context, n int, record func(n int) *kgo.Record) (bytes int64, err error) {
	var once sync.Once
	for i := range n {
		r := record(i)
		bytes += int64(len(r.Value))
		c.client.Produce(ctx, r, func(_ *kgo.Record, failed error) {
			if failed != nil {
				once.Do(func() { err = failed })
			}
		})
	}
	if flushed := c.client.Flush(ctx); flushed != nil {
		return 0, fmt.Errorf("produce: %w", flushed)
	}
	if err != nil {
		return 0, fmt.Errorf("produce: %w", err)
	}
	return bytes, nil
}

// held is how many records topics hold; none was ever removed from them.
func (c *cluster) held(ctx context.Context, topics ...string) (total int64, err error) {
	ask := map[string][]kafka.OffsetRequest{}
	for _, t := range topics {
		for p := range partitions {
			ask[t] = append(ask[t], kafka.LastOffsetOf(p))
		}
	}
	answer, err := c.admin.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: ask})
	if err != nil {
		return 0, fmt.Errorf("list offsets: %w", err)
	}
	for topic, found := range answer.Topics {
		for _, p := range found {
			if p.Error != nil {
				return 0, fmt.Errorf("end of %s/%d: %w", topic, p.Partition, p.Error)
			}
			total += p.LastOffset
		}
	}
	return total, nil
}
