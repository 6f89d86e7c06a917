package republisher

import (
	"testing"
	"time"

	"github.com/google/uuid"

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
	r := &Republisher{cfg: DefaultConfig(), now: time.Now, strip: func(_, _ string, headers []entity.Header) []entity.Header { return headers }}
	m := entity.NewMessage("orders", "boom", time.Now())
	m.Claim.ID = uuid.New()
	m.Record = entity.Record{
		Key: []byte("order-1"), Value: make([]byte, 1000), Size: 1000,
		Headers: []entity.Header{{Key: "traceparent", Value: []byte("00-a")}, {Key: "tenant", Value: []byte("acme")}},
	}
	out := entity.Outgoing{Message: m, Target: entity.Target{Topic: "orders", TopicID: "life-1"}}
	return []recordPath{
		{"Outgoing", 10, 1, func() { r.record(&out, m.Record) }},
	}
}
