package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// partitions is the number of partitions of every topic.
const partitions = 12

// cluster is the benchmark's own Kafka client. Its dead letters differ in keys, numbers and most of
// the text of each value, so that neither database nor codec can profit from repetition.
type cluster struct {
	admin  *kadm.Client
	client *kgo.Client
	random *rand.Rand
}

func connect(brokers []string) *cluster {
	client := must(kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), // Spring's producer does not compress by default
		kgo.MetadataMinAge(100*time.Millisecond),          // detects new topics soon
		kgo.UnknownTopicRetries(-1),                       // without a limit: a busy broker may report a new topic late
	))
	return &cluster{client: client, admin: kadm.NewClient(client), random: rand.New(rand.NewPCG(1, 2))}
}

// create creates topics. On a busy machine the broker may need seconds to reach its controller, so create tries again.
func (c *cluster) create(ctx context.Context, topics ...string) {
	await(ctx, time.Minute, 100*time.Millisecond, "the broker to create topics", func() bool {
		created := must(c.admin.CreateTopics(ctx, partitions, 1, nil, topics...))
		if errors.Is(created.Error(), kerr.BrokerNotAvailable) {
			return false
		}
		check(created.Error())
		return true
	})
}

// removeFlood deletes the topics of a flood, because thousands of partitions would slow the broker down.
func (c *cluster) removeFlood(ctx context.Context, names []string) {
	for _, name := range names {
		must(c.admin.DeleteTopic(context.WithoutCancel(ctx), deadLetterTopic(name)))
	}
}

// produce writes n dead letters of the original topic that is derived from name, waits until Kafka has acknowledged
// all of them, and returns the total size of their values.
func (c *cluster) produce(ctx context.Context, name string, n int) (bytes int64) {
	var failed atomic.Pointer[error]
	for i := range n {
		r := c.letter(name, i)
		bytes += int64(len(r.Value))
		c.client.Produce(ctx, r, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	check(c.client.Flush(ctx))
	if err := failed.Load(); err != nil {
		check(fmt.Errorf("produce: %w", *err))
	}
	return bytes
}

// held returns the number of records that a topic contains. No record may ever have been removed from the topic.
func (c *cluster) held(ctx context.Context, topic string) (total int64) {
	ends := must(c.admin.ListEndOffsets(ctx, topic))
	check(ends.Error())
	ends.Each(func(o kadm.ListedOffset) { total += o.Offset })
	return total
}

func deadLetterTopic(name string) string { return name + ".dlq.v1" }
func originalTopic(name string) string   { return name + ".events.v1" }

// letter returns the n-th dead letter of the original topic that is derived from name: a JSON value of 1 KB and the
// eight headers of Spring's recoverer.
func (c *cluster) letter(name string, n int) *kgo.Record {
	partition := n % partitions
	return &kgo.Record{
		Topic:     deadLetterTopic(name),
		Partition: int32(partition),
		Key:       fmt.Appendf(nil, "%s-%024d", name, c.random.Uint64()>>4),
		Value:     c.value(name, n),
		Headers: []kgo.RecordHeader{
			{Key: "kafka_dlt-original-topic", Value: []byte(originalTopic(name))},
			{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(partition))},
			{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, uint64(n))},
			{Key: "kafka_dlt-original-timestamp", Value: binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixMilli()))},
			{Key: "kafka_dlt-original-consumer-group", Value: []byte(name + "-service")},
			{Key: "kafka_dlt-exception-fqcn", Value: []byte("java.lang.IllegalStateException")},
			{Key: "kafka_dlt-exception-message", Value: []byte("Cannot read the stock: the answer took longer than 2000 milliseconds")},
			{Key: "kafka_dlt-exception-stacktrace", Value: []byte("java.lang.IllegalStateException: stock service is down\n" +
				"\tat com.example.shop.stock.StockClient.reserve(StockClient.java:118)\n" +
				"\tat com.example.shop.orders.OrderListener.onOrder(OrderListener.java:57)")},
		},
	}
}

// value returns about 1,050 bytes of JSON: numbers, texts, a list, an object.
func (c *cluster) value(name string, n int) []byte {
	var items []string
	for i := range 5 {
		items = append(items, fmt.Sprintf(`{"sku": "SKU-%08d", "quantity": %d, "price": %d.%02d}`,
			c.random.IntN(100_000_000), 1+i, 10+c.random.IntN(90), c.random.IntN(100)))
	}
	return fmt.Appendf(nil, `{"id": %d, "type": "%s.created", "version": 3, "occurred_at": %q, "customer": `+
		`{"id": "%032x", "name": "Grüße aus Köln", "email": "customer-%08d@example.com"}, "items": [%s], `+
		`"paid": true, "discount": null, "note": %q}`,
		n, name, time.Now().UTC().Format(time.RFC3339Nano), c.random.Uint64(), c.random.IntN(100_000_000), strings.Join(items, ", "), c.text(512))
}

// text returns n random characters.
func (c *cluster) text(n int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"
	text := make([]byte, n)
	for i := range text {
		text[i] = alphabet[c.random.IntN(len(alphabet))]
	}
	return string(text)
}

const (
	floodRate   = 2000 // records per second
	floodTopics = 10
	floodRun    = 25 // consecutive records to one partition, as from a consumer that fails on all records of a fetch
)

// createFlood creates the topics of a flood. Their names begin with a unique prefix and a hyphen.
func (b *bench) createFlood(ctx context.Context) (prefix string, names []string) {
	prefix = fmt.Sprintf("%sflood%d", b.id, b.next())
	for n := range floodTopics {
		names = append(names, fmt.Sprintf("%s-%d", prefix, n))
		b.kafka.create(ctx, deadLetterTopic(names[n]))
	}
	return prefix, names
}

// flood produces records at a steady rate.
type flood struct {
	cancel context.CancelFunc
	over   chan struct{}
	failed atomic.Pointer[error]
}

// startFlood produces records to the named topics, at floodRate, until the flood is stopped. A record that is due while
// the client's buffer is full is never sent, and no other record is sent in its place later.
func (c *cluster) startFlood(ctx context.Context, names []string) *flood {
	ctx, cancel := context.WithCancel(ctx)
	f := &flood{cancel: cancel, over: make(chan struct{})}
	pool := make([]*kgo.Record, 80*floodRun)
	for n := range pool {
		pool[n] = c.letter(names[n/floodRun%len(names)], n)
	}
	go func() {
		defer close(f.over)
		tick := time.Tick(25 * time.Millisecond)
		start, made := time.Now(), 0
		for ctx.Err() == nil {
			for due := int(time.Since(start).Seconds() * floodRate); made < due; made++ {
				r := *pool[made%len(pool)]
				r.Partition = int32(made / floodRun / len(names) % partitions)
				c.client.TryProduce(context.WithoutCancel(ctx), &r, func(_ *kgo.Record, err error) {
					if err != nil && !errors.Is(err, kgo.ErrMaxBuffered) {
						f.failed.Store(&err)
					}
				})
			}
			select {
			case <-ctx.Done():
			case <-tick:
			}
		}
	}()
	return f
}

// stop stops the flood. It may be called repeatedly.
func (f *flood) stop() error {
	f.cancel()
	<-f.over
	if err := f.failed.Load(); err != nil {
		return fmt.Errorf("produce: %w", *err)
	}
	return nil
}
