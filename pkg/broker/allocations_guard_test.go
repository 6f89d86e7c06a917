package broker

import (
	"fmt"
	"testing"
	"time"
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
	req := FetchRequest{MaxBytes: DefaultFetchBytes}
	return []recordPath{
		{"EncodeBatch", 0.01, n, func() { _, _ = encodeBatch(records, 0) }},
		{"DecodeBatch", 0.05, n, func() {
			p := decodeOne(req, FetchPartition{TopicPartition: TopicPartition{Topic: "orders"}}, nil, set)
			if len(p.Records) != n {
				tb.Fatalf("records = %d, %v, want %d", len(p.Records), p.Err, n)
			}
		}},
	}
}
