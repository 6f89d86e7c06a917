package postgres

import (
	"bytes"
	"database/sql"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
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
	const n = 1000
	store, headers := New(nil), springHeaders()
	packed := packHeaders(headers)
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
	return []recordPath{
		{"PackHeaders", 1, 1, func() { packHeaders(headers) }},
		{"UnpackHeaders", 3, 1, func() { _, _ = unpackHeaders(packed) }},
		{"BatchArrays", 0.07, n, func() { store.storeArgs(in) }},
		{"RowOfList", 2, 1, func() { _, _ = listed.messageWithBytes() }},
	}
}

// listedRow is a row as a page of a list has it.
func listedRow(headers []byte) *row {
	now := time.Now()
	text := func(s string) sql.NullString { return sql.NullString{String: s, Valid: true} }
	r := &row{}
	r.ID = uuid.NullUUID{UUID: uuid.New(), Valid: true}
	r.OriginalTopic, r.ErrorMessage, r.Status = text("orders"), text("the card was declined"), text("PENDING")
	r.DLQTopic, r.OriginConfidence, r.Dialect, r.ErrorClass = text("orders.dlq.v1"), text("header"), text("spring-dlt"), text("org.example.PaymentDeclined")
	r.CreatedAt, r.UpdatedAt = sql.NullTime{Time: now, Valid: true}, sql.NullTime{Time: now, Valid: true}
	r.OriginalTimestamp, r.DLQTimestamp = r.CreatedAt, r.CreatedAt
	r.Key, r.Headers, r.Value = []byte("order-1"), headers, bytes.Repeat([]byte("x"), 1000)
	return r
}

// springHeaders are what a Spring application's dead letter has.
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
