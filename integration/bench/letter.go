package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The dead-letter topics of the backlog; the first is retried.
var names = []string{
	"orders", "payments", "shipments", "invoices", "customers",
	"returns", "prices", "stock", "coupons", "reviews",
}

// partitions of every topic.
const partitions = 12

func deadLetterTopic(name string) string { return name + ".dlq.v1" }
func originalTopic(name string) string   { return name + ".events.v1" }

// errorMessage is what the consumer said when it failed.
const errorMessage = "Cannot read the stock of the warehouse: the answer took longer than 2000 milliseconds"

// stackTrace is the beginning of one, as a recoverer with a limit keeps it.
const stackTrace = "java.lang.IllegalStateException: stock service is down\n" +
	"\tat com.example.shop.stock.StockClient.reserve(StockClient.java:118)\n" +
	"\tat com.example.shop.orders.OrderListener.onOrder(OrderListener.java:57)"

// letters makes dead letters that differ in what a database or a codec could
// make use of: keys, numbers, and most of each value's text.
type letters struct {
	random *rand.Rand
	at     time.Time
}

func newLetters() *letters {
	return &letters{random: rand.New(rand.NewPCG(1, 2)), at: time.Now().UTC()}
}

// letter is the n-th dead letter of a name: a JSON value of 1 KB and the eight
// headers that Spring's recoverer writes.
func (l *letters) letter(name string, n int) *kgo.Record {
	return l.around(name, n, l.value(name, n))
}

// sized is a value of so many bytes of JSON, at least 40.
func (l *letters) sized(bytes int) []byte {
	const rest = len(`{"id": 1234567890, "note": ""}`)
	return fmt.Appendf(nil, `{"id": %d, "note": %q}`, 1_000_000_000+l.random.IntN(1_000_000_000), l.text(bytes-rest))
}

// around is the n-th dead letter of a name with this value.
func (l *letters) around(name string, n int, value []byte) *kgo.Record {
	partition := n % partitions
	return &kgo.Record{
		Topic:     deadLetterTopic(name),
		Partition: int32(partition),
		Key:       fmt.Appendf(nil, "%s-%024d", name, l.random.Uint64()>>4),
		Value:     value,
		Headers: []kgo.RecordHeader{
			{Key: "kafka_dlt-original-topic", Value: []byte(originalTopic(name))},
			{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(partition))},
			{Key: "kafka_dlt-original-offset", Value: binary.BigEndian.AppendUint64(nil, uint64(n))},
			{Key: "kafka_dlt-original-timestamp", Value: binary.BigEndian.AppendUint64(nil, uint64(l.at.UnixMilli()))},
			{Key: "kafka_dlt-original-consumer-group", Value: []byte(name + "-service")},
			{Key: "kafka_dlt-exception-fqcn", Value: []byte("java.lang.IllegalStateException")},
			{Key: "kafka_dlt-exception-message", Value: []byte(errorMessage)},
			{Key: "kafka_dlt-exception-stacktrace", Value: []byte(stackTrace)},
		},
	}
}

// value is JSON of some 1,050 bytes: numbers, texts, a list, an object.
func (l *letters) value(name string, n int) []byte {
	var items strings.Builder
	for i := range 5 {
		if i > 0 {
			items.WriteString(", ")
		}
		fmt.Fprintf(&items, `{"sku": "SKU-%08d", "quantity": %d, "price": %d.%02d}`,
			l.random.IntN(100_000_000), 1+i, 10+l.random.IntN(90), l.random.IntN(100))
	}
	return fmt.Appendf(nil, `{"id": %d, "type": "%s.created", "version": 3, "occurred_at": %q, "customer": `+
		`{"id": "%032x", "name": "Grüße aus Köln", "email": "customer-%08d@example.com"}, "items": [%s], `+
		`"paid": true, "discount": null, "note": %q}`,
		n, name, l.at.Format(time.RFC3339Nano), l.random.Uint64(), l.random.IntN(100_000_000), items.String(), l.text(512))
}

// text is n characters that do not repeat.
func (l *letters) text(n int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"
	text := make([]byte, n)
	for i := range text {
		text[i] = alphabet[l.random.IntN(len(alphabet))]
	}
	return string(text)
}

// quota is how many letters each name gets: the first what is retried, the
// others the rest in equal parts.
func quota(records, retry int) []int {
	out := make([]int, len(names))
	out[0] = retry
	for i, rest := 1, records-retry; i < len(names); i++ {
		out[i] = rest / (len(names) - i)
		rest -= out[i]
	}
	return out
}

func headerBytes(r *kgo.Record) (n int) {
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}
