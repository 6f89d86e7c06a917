package protocol

import (
	"fmt"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/recordtest"
)

func TestAllocations(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	recordtest.Allocations(t, recordPaths(t))
}

func BenchmarkRecord(b *testing.B) { recordtest.Benchmark(b, recordPaths(b)) }

func recordPaths(tb testing.TB) []recordtest.Path {
	tb.Helper()
	const n = 500
	records := make([]Record, n)
	for i := range records {
		records[i] = Record{Key: fmt.Appendf(nil, "order-%d", i), Value: make([]byte, 1000), Time: time.Now()}
		for h := range 7 {
			records[i].Headers = append(records[i].Headers, entity.Header{Key: fmt.Sprintf("header-%d", h), Value: make([]byte, 36)})
		}
	}
	batch := check.Must(EncodeBatch(records, 0))(tb)
	set := flat(batch)
	req := FetchRequest{MaxBytes: DefaultFetchBytes}
	return []recordtest.Path{
		{Name: "EncodeBatch", Allocations: 0.01, Records: n, Do: func() { _, _ = EncodeBatch(records, 0) }},
		{Name: "DecodeBatch", Allocations: 0.05, Records: n, Do: func() {
			p := decodeOne(req, FetchPartition{TopicPartition: TopicPartition{Topic: "orders"}}, nil, set)
			check.Require(tb, len(p.Records) == n, "records = %d, %v, want %d", len(p.Records), p.Err, n)
		}},
	}
}
