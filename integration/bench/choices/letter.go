package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	deadLetterTopic = "orders.dlq.v1"
	originalTopic   = "orders.events.v1"
	partitions      = 12
	errorMessage    = "Cannot read the stock of the warehouse: the answer took longer than 2000 milliseconds"
	stackTrace      = "java.lang.IllegalStateException: stock service is down\n" +
		"\tat com.example.shop.stock.StockClient.reserve(StockClient.java:118)\n" +
		"\tat com.example.shop.orders.OrderListener.onOrder(OrderListener.java:57)"
)

// letters makes messages as the ingester does of records of 1 KB of JSON with a key
// and the eight headers of Spring's recoverer. The same seed makes the same bytes.
type letters struct {
	random *rand.Rand
	at     time.Time
	group  uuid.UUID
	values [][]byte // see pooled
}

// pooled is how many values differ; keys always do. Making values is not what is
// measured, and repeats do not matter to the database.
const pooled = 500

func newLetters() *letters {
	return &letters{
		random: rand.New(rand.NewPCG(1, 2)), at: entity.Moment(time.Now()),
		group: uuid.MustParse("8f6c2c6e-6a3c-5d0e-9b7e-0a4b7d1f2c3d"),
	}
}

func (l *letters) message(id uuid.UUID, ref repository.TopicRef, partition int32, offset int64) entity.Message {
	if len(l.values) < pooled {
		l.values = append(l.values, l.value(offset))
	}
	value := l.values[l.random.IntN(len(l.values))]
	m := entity.NewMessage(originalTopic, errorMessage, l.at)
	m.ID, m.Group, m.MaxRetries = id, l.group, maxRetries
	m.Record = entity.Record{
		Key: fmt.Appendf(nil, "orders-%024d", l.random.Uint64()>>4), Value: value, Size: int64(len(value)),
		Headers: l.headers(partition, offset),
	}
	m.Origin = entity.Origin{Partition: &partition, Offset: &offset, Timestamp: l.at, Confidence: entity.FromHeader}
	m.Failure = entity.Failure{
		Class: "java.lang.IllegalStateException", StackTrace: stackTrace, ConsumerGroup: "orders-service", Dialect: "spring-dlt",
	}
	m.Source = entity.Source{
		Topic: deadLetterTopic, TopicID: ref.TopicID, Incarnation: ref.Incarnation,
		Partition: partition, Offset: offset, Timestamp: l.at,
	}
	return m
}

func (l *letters) headers(partition int32, offset int64) []entity.Header {
	number := binary.BigEndian.AppendUint64
	return []entity.Header{
		{Key: "kafka_dlt-original-topic", Value: []byte(originalTopic)},
		{Key: "kafka_dlt-original-partition", Value: binary.BigEndian.AppendUint32(nil, uint32(partition))},
		{Key: "kafka_dlt-original-offset", Value: number(nil, uint64(offset))},
		{Key: "kafka_dlt-original-timestamp", Value: number(nil, uint64(l.at.UnixMilli()))},
		{Key: "kafka_dlt-original-consumer-group", Value: []byte("orders-service")},
		{Key: "kafka_dlt-exception-fqcn", Value: []byte("java.lang.IllegalStateException")},
		{Key: "kafka_dlt-exception-message", Value: []byte(errorMessage)},
		{Key: "kafka_dlt-exception-stacktrace", Value: []byte(stackTrace)},
	}
}

// value is JSON of some 1,050 bytes, half of it text that does not repeat.
func (l *letters) value(n int64) []byte {
	var items strings.Builder
	for i := range 5 {
		if i > 0 {
			items.WriteString(", ")
		}
		fmt.Fprintf(&items, `{"sku": "SKU-%08d", "quantity": %d, "price": %d.%02d}`,
			l.random.IntN(100_000_000), 1+i, 10+l.random.IntN(90), l.random.IntN(100))
	}
	return fmt.Appendf(nil, `{"id": %d, "type": "orders.created", "version": 3, "occurred_at": %q, "customer": `+
		`{"id": "%032x", "name": "Grüße aus Köln", "email": "customer-%08d@example.com"}, "items": [%s], `+
		`"paid": true, "discount": null, "note": %q}`,
		n, l.at.Format(time.RFC3339Nano), l.random.Uint64(), l.random.IntN(100_000_000), items.String(), l.text(512))
}

func (l *letters) text(n int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789"
	text := make([]byte, n)
	for i := range text {
		text[i] = alphabet[l.random.IntN(len(alphabet))]
	}
	return string(text)
}
