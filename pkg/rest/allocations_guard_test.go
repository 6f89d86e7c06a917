package rest

import (
	"net/http/httptest"
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
	server := newFixture().open().server
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
		e := &export{server: server, w: httptest.NewRecorder(), order: exportOrder{format: format, view: view{limit: 1 << 20}}}
		e.timeout, e.patience, e.order.limit = time.Hour, time.NewTimer(time.Hour), 1<<30
		e.buf = make([]byte, 0, 16<<10)
		return func() {
			e.buf = e.buf[:0]
			_ = e.message(&m)
		}
	}
	return []recordPath{
		{"MessageJSON", 1, 1, func() { server.appendMessage(dst, &m, view{limit: 1 << 20}) }},
		{"ExportLine", 1, 1, line("")},
		{"ExportRow", 12, 1, line(formatCSV)},
	}
}
