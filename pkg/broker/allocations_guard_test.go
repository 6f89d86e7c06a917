package broker

import (
	"fmt"
	"testing"
	"time"
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
	const n = 500
	records := make([]Record, n)
	for i := range records {
		records[i] = Record{Key: fmt.Appendf(nil, "order-%d", i), Value: make([]byte, 1000), Time: time.Now()}
		for h := range 7 {
			records[i].Headers = append(records[i].Headers, Header{Key: fmt.Sprintf("header-%d", h), Value: make([]byte, 36)})
		}
	}
	batch, err := encodeBatch(records, 0)
	if err != nil {
		tb.Fatal(err)
	}
	set := flat(batch)
	req := FetchRequest{Partitions: []FetchPartition{{TopicPartition: TopicPartition{Topic: "orders"}}}}
	return []recordPath{
		{"EncodeBatch", 0.1, n, func() { _, _ = encodeBatch(records, 0) }},
		{"DecodeBatch", 0.1, n, func() {
			d := newFetchDecoder(req)
			d.budget = DefaultFetchBytes
			p := FetchedPartition{TopicPartition: req.Partitions[0].TopicPartition}
			d.decode(&p, set, nil)
			if len(p.Records) != n {
				tb.Fatalf("records = %d, %v, want %d", len(p.Records), p.Err, n)
			}
		}},
	}
}
