package broker_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// benchRecords are like dead letters: 1 KB with a key and seven headers.
func benchRecords(n int) []broker.Record {
	records := make([]broker.Record, n)
	for i := range records {
		records[i] = broker.Record{Key: fmt.Appendf(nil, "key-%d", i), Value: make([]byte, 1024)}
		for h := range 7 {
			records[i].Headers = append(records[i].Headers, entity.Header{Key: fmt.Sprintf("kafka_dlt-header-%d", h), Value: []byte("a value")})
		}
	}
	return records
}

func BenchmarkFetch(b *testing.B) {
	for _, size := range []int{1, 500} {
		b.Run(fmt.Sprintf("BatchOf%d", size), func(b *testing.B) {
			c := open(b, stacktest.Kafka(b))
			tp := broker.TopicPartition{Topic: createTopic(b, 1)}
			const total = 10_000
			p := c.NewProducer(broker.ProducerConfig{Timeout: 20 * time.Second, MaxBatchBytes: size * 1300})
			check.NoError(b, p.Produce(testContext(b), tp, benchRecords(total)).Err())
			leader := leaderOf(b, c, tp.Topic)
			b.ReportAllocs()
			count := 0
			next := int64(0)
			for b.Loop() {
				res, err := c.Fetch(testContext(b), broker.FetchRequest{
					Leader: leader, ReadCommitted: true,
					Partitions: []broker.FetchPartition{{TopicPartition: tp, Offset: next}},
				})
				if err != nil || res.Partitions[0].Err != nil {
					b.Fatal(err, res.Partitions[0].Err)
				}
				count += len(res.Partitions[0].Records)
				if next = res.Partitions[0].Next; next >= total {
					next = 0
				}
			}
			b.ReportMetric(float64(count)/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(count)/float64(b.N), "records/op")
		})
	}
}

func BenchmarkProduce(b *testing.B) {
	for _, size := range []int{1, 500} {
		b.Run(fmt.Sprintf("BatchOf%d", size), func(b *testing.B) {
			c := open(b, stacktest.Kafka(b))
			tp := broker.TopicPartition{Topic: createTopic(b, 1)}
			p := c.NewProducer(broker.ProducerConfig{Timeout: 20 * time.Second})
			records := benchRecords(size)
			b.ReportAllocs()
			for b.Loop() {
				check.NoError(b, p.Produce(testContext(b), tp, records).Err())
			}
			b.ReportMetric(float64(size*b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
