package shop

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// failing returns a record at offset 1234 of partition 2 of orders.events.v1, with two headers of the application.
func failing() *kgo.Record {
	return &kgo.Record{
		Topic: OrdersTopic, Partition: 2, Offset: 1234, Timestamp: time.UnixMilli(1714554000000),
		Key: []byte("O-1"), Value: []byte("{"),
		Headers: []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/json")}, {Key: "empty", Value: nil}},
	}
}

func broke() *failure {
	return &failure{attempts: 3, stage: "VALUE_CONVERTER", executing: "x.Converter", thrown: &throwable{
		class: "x.Outer", message: "outer", at: []string{"x.Outer.run(Outer.java:1)"},
		cause: &throwable{class: "x.Inner", message: "inner", at: []string{"x.Inner.run(Inner.java:2)"}},
	}}
}

const trace = "x.Outer: outer\n\tat x.Outer.run(Outer.java:1)\nCaused by: x.Inner: inner\n\tat x.Inner.run(Inner.java:2)\n\t... 12 more\n"

func TestHeaders(t *testing.T) {
	t.Parallel()
	own := []string{"content-type=application/json", "empty=null"}
	for name, c := range map[string]struct {
		write func(*kgo.Record, *failure) []kgo.RecordHeader
		want  []string
	}{
		"SpringWritesBinaryNumbersBehindTheRecords": {springHeaders("orders-service", "orders.OrderListener.onOrder(com.example.shop.orders.OrderPlaced)"), append(own[:2:2],
			"kafka_deliveryAttempt=hex 00000003",
			"kafka_dlt-original-topic=orders.events.v1",
			"kafka_dlt-original-partition=hex 00000002",
			"kafka_dlt-original-offset=hex 00000000000004d2",
			"kafka_dlt-original-timestamp=hex 0000018f3361d280",
			"kafka_dlt-original-timestamp-type=CreateTime",
			"kafka_dlt-original-consumer-group=orders-service",
			"kafka_dlt-exception-fqcn=org.springframework.kafka.listener.ListenerExecutionFailedException",
			"kafka_dlt-exception-cause-fqcn=x.Inner",
			"kafka_dlt-exception-message=...; inner",
			"kafka_dlt-exception-stacktrace=...",
		)},
		"SmallRyeWritesItsOwnFirst": {smallryeHeaders, append([]string{
			"dead-letter-exception-class-name=x.Outer",
			"dead-letter-topic=orders.events.v1",
			"dead-letter-partition=2",
			"dead-letter-offset=1234",
			"dead-letter-reason=outer",
			"dead-letter-cause-class-name=x.Inner",
			"dead-letter-cause=inner",
		}, own...)},
		"ConnectWritesTextBehindTheRecords": {connectHeaders("users-sink"), append(own[:2:2],
			"__connect.errors.topic=orders.events.v1",
			"__connect.errors.partition=2",
			"__connect.errors.offset=1234",
			"__connect.errors.connector.name=users-sink",
			"__connect.errors.task.id=0",
			"__connect.errors.stage=VALUE_CONVERTER",
			"__connect.errors.class.name=x.Converter",
			"__connect.errors.exception.class.name=x.Outer",
			"__connect.errors.exception.message=outer",
			"__connect.errors.exception.stacktrace="+trace,
		)},
		"PlainOnesAreTwo": {func(rec *kgo.Record, _ *failure) []kgo.RecordHeader {
			return plainHeaders(rec, &failure{plain: "no body"})
		}, append(own[:2:2], "original_topic=orders.events.v1", "error=no body")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := failing()
			compareHeaders(t, c.write(rec, broke()), c.want)
			compareHeaders(t, rec.Headers, own) // no function may change the headers of the record itself
		})
	}
}

// compareHeaders compares headers in order. In a wanted value, "..." at the start matches any text, "hex" precedes
// bytes, and "null" means no value.
func compareHeaders(t *testing.T, got []kgo.RecordHeader, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d headers, want %d: %q", len(got), len(want), got)
	}
	for i, h := range got {
		key, value, _ := strings.Cut(want[i], "=")
		if h.Key != key || !valueIs(h.Value, value) {
			t.Errorf("header %d = %s %q, want %s", i, h.Key, h.Value, want[i])
		}
	}
}

func valueIs(got []byte, want string) bool {
	if digits, ok := strings.CutPrefix(want, "hex "); ok {
		return hex.EncodeToString(got) == digits
	}
	if end, ok := strings.CutPrefix(want, "..."); ok {
		return bytes.HasSuffix(got, []byte(end))
	}
	return want == "null" && got == nil || string(got) == want
}

func TestHeadersOfASecondFailure(t *testing.T) {
	t.Parallel()
	count := func(headers []kgo.RecordHeader, key string) (n int) {
		for _, h := range headers {
			if h.Key == key {
				n++
			}
		}
		return n
	}
	again := failing()
	again.Headers = springHeaders("g", "orders.OrderListener.onOrder(com.example.shop.orders.OrderPlaced)")(again, broke())
	again.Headers = springHeaders("g", "orders.OrderListener.onOrder(com.example.shop.orders.OrderPlaced)")(again, broke())
	for key, want := range map[string]int{
		"kafka_dlt-original-topic": 2, "kafka_dlt-original-offset": 2,
		"kafka_dlt-exception-fqcn": 1, "kafka_dlt-exception-stacktrace": 1, "kafka_deliveryAttempt": 1,
	} {
		if got := count(again.Headers, key); got != want {
			t.Errorf("Spring wrote %s %d times in two failures, want %d", key, got, want)
		}
	}
	again = failing()
	again.Headers = smallryeHeaders(again, broke())
	again.Offset = 9
	first := smallryeHeaders(again, broke())[3]
	if first.Key != "dead-letter-offset" || string(first.Value) != "9" {
		t.Errorf("SmallRye's first offset = %s %q, want the latest, 9", first.Key, first.Value)
	}
}

// TestDeadLetterIsUnderstood decodes the dead letters of the script's first 60 records with dlq-manager's decoder.
func TestDeadLetterIsUnderstood(t *testing.T) {
	t.Parallel()
	patterns, err := deadletter.ParsePatterns("*.dlq.v1")
	check.NoError(t, err)
	decoder, err := deadletter.New(deadletter.Config{}, patterns)
	check.NoError(t, err)
	w := newWorld(DefaultConfig(), time.Now)
	w.open()
	log := newLogbook(nil)
	services := []*service{newOrders("", w, log), newPayments("", w, log), newUsers("", log)}
	dialects := map[string]bool{}
	for n := range 60 {
		rec := newScript(DefaultConfig()).record(n, time.Now())
		letter := services[n%streams].consume(rec)
		if letter == nil {
			continue
		}
		reading := decoder.Decode(letter.Topic, record(letter), letter.Timestamp, nil)
		dialects[reading.Failure.Dialect] = true
		if reading.OriginalTopic != rec.Topic || reading.ErrorMessage == entity.UnknownError {
			t.Errorf("%s is read as of %q, failed with %q; want %q and a reason",
				rec.Key, reading.OriginalTopic, reading.ErrorMessage, rec.Topic)
		}
	}
	for _, want := range []string{"spring-dlt", "smallrye-dlq", "connect", "k1s0"} {
		if !dialects[want] {
			t.Errorf("dialects in the first 60 records = %v, want %s too", dialects, want)
		}
	}
}

func record(rec *kgo.Record) entity.Record {
	r := entity.Record{Key: rec.Key, Value: rec.Value}
	for _, h := range rec.Headers {
		r.Headers = append(r.Headers, entity.Header{Key: h.Key, Value: h.Value})
	}
	return r
}
