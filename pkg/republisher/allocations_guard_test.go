package republisher

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// recordPath is work that is done for every record. most is what it may allocate,
// for one of the records that do works on.
type recordPath struct {
	name    string
	most    float64
	records int
	do      func()
}

// TestAllocations keeps the paths of a record from allocating more than they have
// to. The count is the same on every machine; when it changes on purpose, change
// it here.
func TestAllocations(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	for _, path := range recordPaths(t) {
		got := testing.AllocsPerRun(100, path.do) / float64(path.records)
		t.Logf("%s: %.2f allocations a record", path.name, got)
		if got > path.most {
			t.Errorf("%s: allocations of a record = %.2f, want at most %.2f", path.name, got, path.most)
		}
	}
}

func recordPaths(tb testing.TB) []recordPath {
	tb.Helper()
	r := &Republisher{cfg: DefaultConfig(), now: time.Now, strip: func(_, _ string, headers []entity.Header) []entity.Header { return headers }}
	m := entity.NewMessage("orders", "boom", time.Now())
	m.Claim.ID = uuid.New()
	m.Record = entity.Record{
		Key: []byte("order-1"), Value: make([]byte, 1000), Size: 1000,
		Headers: []entity.Header{{Key: "traceparent", Value: []byte("00-a")}, {Key: "tenant", Value: []byte("acme")}},
	}
	out := entity.Outgoing{Message: m, Target: entity.Target{Topic: "orders", TopicID: "life-1"}}
	return []recordPath{
		{"Outgoing", 12, 1, func() { r.record(&out, m.Record) }},
	}
}
