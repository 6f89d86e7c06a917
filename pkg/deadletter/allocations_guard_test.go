package deadletter

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/recordtest"
)

func TestAllocations(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	recordtest.Allocations(t, recordPaths(t))
}

func BenchmarkRecord(b *testing.B) { recordtest.Benchmark(b, recordPaths(b)) }

func recordPaths(tb testing.TB) []recordtest.Path {
	tb.Helper()
	patterns := check.Must(ParsePatterns("*.dlq.v1"))(tb)
	decoder := check.Must(New(Config{}, patterns))(tb)
	at, exists := time.Now(), func(string) bool { return true }
	spring := entity.Record{Key: []byte("order-1"), Value: []byte(`{"order_id":1}`), Headers: springLetter()}
	bare := entity.Record{Value: []byte(`{"order_id":1}`)}
	letter := entity.Message{OriginalTopic: "orders.events.v1", Failure: entity.Failure{Dialect: "spring-dlt"}, Record: spring}
	return []recordtest.Path{
		{Name: "DecodeSpring", Allocations: 7, Records: 1, Do: func() { decoder.Decode("orders.dlq.v1", spring, at, exists) }},
		{Name: "DecodeWithoutHeaders", Allocations: 3, Records: 1, Do: func() { decoder.Decode("orders.dlq.v1", bare, at, exists) }},
		{Name: "Strip", Allocations: 0, Records: 1, Do: func() { decoder.Strip(&letter, "orders", spring.Headers) }},
	}
}

// springLetter returns the headers that a Spring application adds to a dead letter.
func springLetter() []entity.Header {
	return []entity.Header{
		{Key: "kafka_dlt-original-topic", Value: []byte("orders.events.v1")},
		{Key: "kafka_dlt-original-partition", Value: []byte{0, 0, 0, 3}},
		{Key: "kafka_dlt-original-offset", Value: []byte{0, 0, 0, 0, 0, 0, 1, 2}},
		{Key: "kafka_dlt-original-timestamp", Value: []byte{0, 0, 1, 0x90, 0, 0, 1, 2}},
		{Key: "kafka_dlt-original-timestamp-type", Value: []byte("CreateTime")},
		{Key: "kafka_dlt-original-consumer-group", Value: []byte("orders")},
		{Key: "kafka_dlt-exception-fqcn", Value: []byte("org.example.PaymentDeclined")},
		{Key: "kafka_dlt-exception-message", Value: []byte("the card 4711 was declined by the bank")},
	}
}
