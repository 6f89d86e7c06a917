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
		{"Batch", 11.5, n, func() { plain.batch(cut(p, got)) }},
		{"BatchWithFingerprints", 11.5, n, func() { grouped.batch(cut(p, got)) }},
	}
}
