package search

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/recordtest"
	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/resttest"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
)

func TestAllocations(t *testing.T) { //nolint:paralleltest // other tests allocate too
	recordtest.Allocations(t, recordPaths(t))
}

func BenchmarkRecord(b *testing.B) { recordtest.Benchmark(b, recordPaths(b)) }

func recordPaths(tb testing.TB) []recordtest.Path {
	tb.Helper()
	noon := time.Date(2026, 2, 20, 10, 30, 0, 0, time.UTC)
	none := resttest.Plain
	show := wire.Messages{Dialects: none, Masking: wire.Masking{Derived: none}}
	m := entity.NewMessage("orders", "the card was declined", noon)
	m.Record = entity.Record{
		Key: []byte("order-1"), Value: []byte(`{"order_id":1,"customer":"c-1","amount":12.50,"note":"lorem ipsum"}`), Size: 66,
		Headers: []entity.Header{
			{Key: "kafka_dlt-original-topic", Value: []byte("orders")},
			{Key: "kafka_dlt-exception-fqcn", Value: []byte("org.example.PaymentDeclined")},
			{Key: "kafka_dlt-exception-message", Value: []byte("the card was declined")},
		},
	}
	m.Source = entity.Source{Topic: "orders.dlq.v1", Offset: 1, Timestamp: noon}
	m.Failure.Dialect = "spring-dlt"
	dst := make([]byte, 0, 16<<10)
	line := func(format string) func() {
		e := &export{from: Exports{Show: show}, w: httptest.NewRecorder(), order: exportOrder{format: format, view: wire.View{Limit: 1 << 20}}}
		e.timeout, e.waiting, e.order.limit = time.Hour, time.NewTimer(time.Hour), 1<<30
		e.buf = make([]byte, 0, 16<<10)
		return func() {
			e.buf = e.buf[:0]
			_ = e.message(&m)
		}
	}
	return []recordtest.Path{
		{Name: "MessageJSON", Allocations: 1, Records: 1, Do: func() { show.AppendJSON(dst, &m, wire.View{Limit: 1 << 20}) }},
		{Name: "ExportLine", Allocations: 1, Records: 1, Do: line("")},
		{Name: "ExportRow", Allocations: 12, Records: 1, Do: line(formatCSV)},
	}
}
