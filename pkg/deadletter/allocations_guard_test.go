package deadletter

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// recordPath is work that is done for every record. measured is how often it
// allocates, for one of the records that do works on.
type recordPath struct {
	name     string
	measured float64
	records  int
	do       func()
}

// TestAllocations keeps the paths of a record from allocating more than they have
// to, and the number here from falling behind what they do: room that nobody needs
// lets the next growth through. The count is the same on every machine.
func TestAllocations(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	for _, path := range recordPaths(t) {
		got := testing.AllocsPerRun(100, path.do) / float64(path.records)
		t.Logf("%s: %.2f allocations a record", path.name, got)
		spare := 0.5
		if path.records > 1 {
			spare = 0.05 // what is made once for all of them is shared
		}
		if got > path.measured+spare {
			t.Errorf("%s: allocations of a record = %.2f, want at most %.2f", path.name, got, path.measured+spare)
		}
		if got < path.measured-1 {
			t.Errorf("%s: allocations of a record = %.2f, lower the bound: it stands at %.2f", path.name, got, path.measured)
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
		{"DecodeSpring", 7, 1, func() { decoder.Decode("orders.dlq.v1", spring, at, exists) }},
		{"DecodeWithoutHeaders", 3, 1, func() { decoder.Decode("orders.dlq.v1", bare, at, exists) }},
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
