package ingest

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
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
	patterns, err := deadletter.ParsePatterns("*.dlq.v1")
	if err != nil {
		tb.Fatal(err)
	}
	decoder, err := deadletter.New(patterns, nil)
	if err != nil {
		tb.Fatal(err)
	}
	maker, err := fingerprint.New(fingerprint.DefaultConfig())
	if err != nil {
		tb.Fatal(err)
	}
	of := func(options ...Option) *Ingester {
		return New(DefaultConfig(), "group", patterns, nil, decoder, nil, prometheus.NewRegistry(), zap.NewNop(), options...)
	}
	const n = 1000
	records := springLike(n)
	for i := range records {
		records[i].TopicPartition, records[i].Offset, records[i].Time = part("orders.dlq.v1", 0), int64(i), time.Now()
	}
	p := &partition{TopicPartition: part("orders.dlq.v1", 0)}
	got := broker.FetchedPartition{TopicPartition: p.TopicPartition, Next: n, Records: records}
	plain, grouped := of(), of(WithFingerprints(maker))
	return []recordPath{
		{"Batch", 10.01, n, func() { plain.batch(cut(p, got)) }},
		{"BatchWithFingerprints", 10.01, n, func() { grouped.batch(cut(p, got)) }},
	}
}
