package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// BenchmarkStore stores full batches of 1 KB records with Spring's headers.
func BenchmarkStore(b *testing.B) {
	const rows = 1000
	store := New(postgrestest.Open(b))
	refs, err := store.OpenTopics(b.Context(), []repository.Topic{{Name: "orders.dlq.v1", Incarnation: "x"}})
	if err != nil {
		b.Fatal(err)
	}
	part := repository.Partition{Incarnation: refs[0].Incarnation}
	if _, err := store.OpenPosition(b.Context(), []repository.Position{{Partition: part}}); err != nil {
		b.Fatal(err)
	}
	value := []byte(`{"id":12345,"items":[` + strings.Repeat(`{"product":"P-100","title":"Espresso cup, set of 4","quantity":2,"unit_price":24.90},`, 12) + `{}]}`)
	var headers []entity.Header
	for i := range 8 {
		headers = append(headers, entity.Header{Key: fmt.Sprintf("kafka_dlt-header-%d", i), Value: []byte(strings.Repeat("v", 48))})
	}
	next := int64(0)
	b.ReportAllocs()
	for b.Loop() {
		batch := repository.Batch{Ranges: []repository.Range{{Partition: part, From: next, To: next + rows}}}
		for n := range int64(rows) {
			m := entity.NewMessage("orders", "stock service is down", time.Now())
			m.Record = entity.Record{Key: []byte("order-12345"), Value: value, Headers: headers, Size: int64(len(value))}
			m.Source = entity.Source{TopicID: refs[0].TopicID, Incarnation: part.Incarnation, Offset: next + n, Timestamp: m.CreatedAt}
			m.Origin.Confidence, m.Failure.Dialect = entity.FromHeader, "spring-dlt"
			batch.Messages = append(batch.Messages, m)
		}
		moved, err := store.Store(b.Context(), batch)
		if err != nil || len(moved.Ranges) != 1 {
			b.Fatalf("Store = %v, %v", moved, err)
		}
		next += rows
	}
	b.ReportMetric(float64(next)/b.Elapsed().Seconds(), "rows/s")
}
