//go:build !race

// With the race detector, the compiler copies the bytes of each temporary string.

package ingest

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/fingerprint"
	"github.com/dlq-manager/dlq-manager/pkg/recordtest"
)

func TestAllocations(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	recordtest.Allocations(t, recordPaths(t))
}

func BenchmarkRecord(b *testing.B) { recordtest.Benchmark(b, recordPaths(b)) }

func recordPaths(tb testing.TB) []recordtest.Path {
	tb.Helper()
	patterns := check.Must(deadletter.ParsePatterns("*.dlq.v1"))(tb)
	decoder := check.Must(deadletter.New(deadletter.Config{}, patterns))(tb)
	maker := check.Must(fingerprint.New(fingerprint.DefaultConfig()))(tb)
	of := func(options ...Option) *Ingester {
		return New(DefaultConfig(), "group", patterns, nil, decoder, Stores{}, prometheus.NewRegistry(), zap.NewNop(), options...)
	}
	const n = 1000
	records := springLike(3, n)
	for i := range records {
		records[i].TopicPartition, records[i].Offset, records[i].Time = part("orders.dlq.v1", 0), int64(i), time.Now()
	}
	p := &partition{TopicPartition: part("orders.dlq.v1", 0)}
	got := broker.FetchedPartition{TopicPartition: p.TopicPartition, Next: n, Records: records}
	plain, grouped := of(), of(WithFingerprints(maker))
	return []recordtest.Path{
		{Name: "Batch", Allocations: 9.01, Records: n, Do: func() { plain.batch(cut(p, got)) }},
		{Name: "BatchWithFingerprints", Allocations: 9.01, Records: n, Do: func() { grouped.batch(cut(p, got)) }},
	}
}
