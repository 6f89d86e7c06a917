package ingest

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
)

// BenchmarkIngest ingests 200,000 dead letters of 1 KB with the headers of a Spring application from 12 partitions,
// with and without error groups. Run it with -benchtime=1x.
func BenchmarkIngest(b *testing.B) {
	maker := check.Must(fingerprint.New(fingerprint.DefaultConfig()))(b)
	b.Run("Plain", func(b *testing.B) { benchmarkIngest(b) })
	b.Run("Groups", func(b *testing.B) { benchmarkIngest(b, WithFingerprints(maker)) })
}

func benchmarkIngest(b *testing.B, options ...Option) {
	const partitions, each, total = 12, 16_667, 12 * 16_667
	p := newPlant(b)
	producer := p.cluster.NewProducer(broker.ProducerConfig{Timeout: time.Minute})
	for b.Loop() {
		b.StopTimer()
		topic := p.create(fmt.Sprintf("bench-%d", time.Now().UnixNano()), partitions)
		for n := range int32(partitions) {
			check.NoError(b, producer.Produce(p.ctx(), part(topic, n), springLike(n, each)).Err())
		}
		b.StartTimer()
		start := time.Now()
		stop := p.runThis(p.ingester(options...))
		check.Eventually(p.t, "all is stored", func() bool { return p.count(topic) >= total })
		b.ReportMetric(total/time.Since(start).Seconds(), "records/s")
		b.StopTimer()
		stop()
		b.StartTimer()
	}
}

func springLike(partition int32, n int) []broker.Record {
	text := func(s string) []byte { return []byte(s) }
	filler := strings.Repeat("lorem ipsum ", 75)
	out := make([]broker.Record, n)
	for i := range out {
		out[i] = broker.Record{
			Key:   fmt.Appendf(nil, "order-%d", i),
			Value: fmt.Appendf(nil, `{"order_id":%d,"customer":"c-%d","amount":12.50,"note":%q}`, i, i%1000, filler),
			Headers: []entity.Header{
				{Key: "kafka_dlt-original-topic", Value: text("orders.events.v1")},
				{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(partition))},
				{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, uint64(i))},
				{Key: "kafka_dlt-original-timestamp", Value: []byte{0, 0, 1, 0x90, 0, 0, 1, 2}},
				{Key: "kafka_dlt-original-timestamp-type", Value: text("CreateTime")},
				{Key: "kafka_dlt-original-consumer-group", Value: text("orders")},
				{Key: "kafka_dlt-exception-fqcn", Value: text("org.example.PaymentDeclined")},
				{Key: "kafka_dlt-exception-message", Value: text("the card was declined by the bank")},
			},
		}
	}
	return out
}
