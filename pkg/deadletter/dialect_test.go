package deadletter

import (
	"slices"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestDialectsFitTheirSet(t *testing.T) {
	t.Parallel()
	n := len(dialects) + maxDialects
	check.True(t, n <= 64, "%d dialects do not fit dialectSet's 64 bits", n)
	names := Dialects()
	slices.Sort(names)
	unique := slices.Compact(slices.Clone(names))
	check.True(t, len(unique) == len(names), "dialect names repeat: %v", names)
}

func TestEveryAnchorClaims(t *testing.T) {
	t.Parallel()
	d := decoder(t, []string{"*.dlq.v1"})
	for i := range dialects {
		switch dialects[i].name {
		case scst.name, karafkaHyphenated.name, uberDLQ.name:
			continue // the anchors alone do not identify these dialects: further headers or the key must match, which the cases in testdata test
		}
		for _, anchor := range dialects[i].anchors {
			var h []entity.Header
			for _, key := range anchor {
				h = append(h, entity.Header{Key: key, Value: []byte("orders")})
			}
			r := d.Decode("x.dlq.v1", entity.Record{Headers: h}, time.Time{}, nil)
			check.True(t, r.Failure.Dialect == dialects[i].name,
				"headers %v read as %q, want %q", anchor, r.Failure.Dialect, dialects[i].name)
		}
	}
}

// Names of Kafka's headers are case-sensitive; only the generic dialect ignores case.
func TestAnchorsAreCaseSensitive(t *testing.T) {
	t.Parallel()
	h := []entity.Header{{Key: "KAFKA_DLT-ORIGINAL-TOPIC", Value: []byte("orders")}}
	r := decoder(t, []string{"*.dlq.v1"}).Decode("x.dlq.v1", entity.Record{Headers: h}, time.Time{}, nil)
	check.True(t, r.Failure.Dialect != "spring-dlt", "a key in other case was read as spring-dlt")
}

// TestSharedGroupHeaderIsNoAnchor: Spring's two dialects write the same header of the consumer group, so it must not
// identify either of them.
func TestSharedGroupHeaderIsNoAnchor(t *testing.T) {
	t.Parallel()
	h := []entity.Header{{Key: springGroup, Value: []byte("billing")}}
	r := decoder(t, []string{"*.dlq.v1"}).Decode("x.dlq.v1", entity.Record{Headers: h}, time.Time{}, nil)
	check.True(t, r.Failure.Dialect != "spring-dlt" && r.Failure.Dialect != "spring-retrytopic",
		"the group alone was read as %s", r.Failure.Dialect)
}

// springRecord returns a record with the headers that a real Spring application writes.
func springRecord() entity.Record {
	stack := make([]byte, 4<<10)
	for i := range stack {
		stack[i] = 'a'
	}
	h := []entity.Header{
		{Key: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")},
		{Key: "content-type", Value: []byte("application/json")},
	}
	h = append(h, springHeaders("orders")...)
	h = append(h,
		entity.Header{Key: "kafka_dlt-original-timestamp-type", Value: []byte("CreateTime")},
		entity.Header{Key: springGroup, Value: []byte("billing")},
		entity.Header{Key: "kafka_dlt-exception-fqcn", Value: []byte("org.springframework.kafka.listener.ListenerExecutionFailedException")},
		entity.Header{Key: "kafka_dlt-exception-cause-fqcn", Value: []byte("com.example.OutOfStock")},
		entity.Header{Key: "kafka_dlt-exception-message", Value: []byte("Listener failed; no stock")},
		entity.Header{Key: "kafka_dlt-exception-stacktrace", Value: stack},
	)
	return entity.Record{Key: []byte("k"), Value: []byte("{}"), Headers: h}
}

// Every ingested record is decoded, so Decode must allocate only five texts, the partition, the offset and the list of
// dialects.
func TestDecodeAllocatesOnlyWhatItReturns(t *testing.T) {
	d := decoder(t, []string{"*.dlq.v1"})
	rec := springRecord()
	got := testing.AllocsPerRun(100, func() { d.Decode("orders.dlq.v1", rec, time.Time{}, nil) })
	check.True(t, got <= 8, "Decode allocates %.0f times, want at most 8", got)
}

func BenchmarkDecodeSpring(b *testing.B) {
	d := decoder(b, []string{"*.dlq.v1"})
	rec := springRecord()
	ts := time.Date(2024, 5, 1, 9, 5, 0, 0, time.UTC)
	b.ReportAllocs()
	for b.Loop() {
		d.Decode("orders.dlq.v1", rec, ts, nil)
	}
}

func BenchmarkDecodeNothing(b *testing.B) {
	d := decoder(b, []string{"*.dlq.v1"})
	b.ReportAllocs()
	for b.Loop() {
		d.Decode("orders.dlq.v1", entity.Record{}, time.Time{}, nil)
	}
}
