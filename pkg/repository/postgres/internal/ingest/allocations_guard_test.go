package ingest

import (
	"bytes"
	"database/sql"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/recordtest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
)

func TestAllocations(t *testing.T) { //nolint:paralleltest // parallel tests would be counted too
	recordtest.Allocations(t, recordPaths(t))
}

func BenchmarkRecord(b *testing.B) { recordtest.Benchmark(b, recordPaths(b)) }

func recordPaths(tb testing.TB) []recordtest.Path {
	tb.Helper()
	const n = 1000
	store, headers := New(nil, nil, PayloadBackground, DefaultPayloadLimit), springHeaders()
	packed := codec.PackHeaders(headers)
	batch := repository.Batch{Ranges: []repository.Range{{Partition: repository.Partition{Incarnation: 1}, To: n}}}
	for i := range int64(n) {
		m := entity.NewMessage("orders", "the card was declined", time.Now())
		m.Record = entity.Record{Key: []byte("order-1"), Value: bytes.Repeat([]byte("x"), 1000), Headers: headers, Size: 1000}
		m.Source = entity.Source{TopicID: 1, Incarnation: 1, Offset: i, Timestamp: m.CreatedAt}
		m.Origin.Confidence, m.Failure.Dialect = entity.FromHeader, "spring-dlt"
		batch.Messages = append(batch.Messages, m)
	}
	in := incoming{Batch: batch, prepared: store.prepare(batch)}
	listed := listedRow(packed)
	return []recordtest.Path{
		{Name: "PackHeaders", Allocations: 1, Records: 1, Do: func() { codec.PackHeaders(headers) }},
		{Name: "UnpackHeaders", Allocations: 3, Records: 1, Do: func() { _, _ = codec.UnpackHeaders(packed) }},
		{Name: "BatchArrays", Allocations: 0.07, Records: n, Do: func() { storeArgs(in, nil) }},
		{Name: "RowOfList", Allocations: 2, Records: 1, Do: func() { _, _ = listed.MessageWithBytes() }},
	}
}

// listedRow returns a row with the columns of a message on a page of a list.
func listedRow(headers []byte) *codec.Row {
	now := time.Now()
	text := func(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }
	r := &codec.Row{}
	r.ID = uuid.NullUUID{UUID: uuid.New(), Valid: true}
	r.OriginalTopic, r.ErrorMessage, r.Status = text("orders"), text("the card was declined"), text("PENDING")
	r.DLQTopic, r.OriginConfidence, r.Dialect, r.ErrorClass = text("orders.dlq.v1"), text("header"), text("spring-dlt"), text("org.example.PaymentDeclined")
	r.CreatedAt, r.UpdatedAt = sql.NullTime{Time: now, Valid: true}, sql.NullTime{Time: now, Valid: true}
	r.OriginalTimestamp, r.DLQTimestamp = r.CreatedAt, r.CreatedAt
	r.Key, r.Headers, r.Value = []byte("order-1"), headers, bytes.Repeat([]byte("x"), 1000)
	return r
}

// springHeaders returns headers as Spring writes them to a dead letter.
func springHeaders() []entity.Header {
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
