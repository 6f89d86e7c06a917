package deadletter

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// recordPath is work that is done for every record. most is what it may allocate,
// for one of the records that do works on.
type recordPath struct {
	name    string
	most    float64
	records int
	do      func()
}

// TestAllocations keeps the paths of a record from allocating more than they have
// to. The count is the same on every machine; when it changes on purpose, change
// it here.
func TestAllocations(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	for _, path := range recordPaths(t) {
		got := testing.AllocsPerRun(100, path.do) / float64(path.records)
		t.Logf("%s: %.2f allocations a record", path.name, got)
		if got > path.most {
			t.Errorf("%s: allocations of a record = %.2f, want at most %.2f", path.name, got, path.most)
		}
	}
}

func recordPaths(tb testing.TB) []recordPath {
	tb.Helper()
	patterns, err := ParsePatterns("*.dlq.v1")
	if err != nil {
		tb.Fatal(err)
	}
	decoder, err := New(patterns, nil)
	if err != nil {
		tb.Fatal(err)
	}
	at, exists := time.Now(), func(string) bool { return true }
	spring := entity.Record{Key: []byte("order-1"), Value: []byte(`{"order_id":1}`), Headers: springLetter()}
	bare := entity.Record{Value: []byte(`{"order_id":1}`)}
	return []recordPath{
		{"DecodeSpring", 8, 1, func() { decoder.Decode("orders.dlq.v1", spring, at, exists) }},
		{"DecodeWithoutHeaders", 4, 1, func() { decoder.Decode("orders.dlq.v1", bare, at, exists) }},
		{"Strip", 0, 1, func() { decoder.Strip("spring-dlt", "orders", spring.Headers) }},
	}
}

// springLetter are what a Spring application's dead letter has.
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
