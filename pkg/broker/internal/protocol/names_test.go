package protocol

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker/brokertest"
)

// heapBytes returns how many bytes of the heap are in use after a garbage collection.
func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// batchOfNames returns a batch of records with one header each, all with different names.
func batchOfNames(t *testing.T, codec, n, length int) []byte {
	t.Helper()
	records := make([]brokertest.Record, n)
	for i := range records {
		distinct := fmt.Appendf(bytes.Repeat([]byte("n"), length-8), "%08d", i)
		records[i] = brokertest.Record{Value: -1, Headers: 1, Name: string(distinct)}
	}
	return brokertest.BatchOf(t, codec, records...)
}

// TestCursor_NamesOfHeaders: names of headers that occur only once take reserved memory or point into the answer's
// bytes, and the cursor does not keep these names.
func TestCursor_NamesOfHeaders(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	for name, test := range map[string]struct{ records, length int }{
		"Large":  {100, 1_000_000}, // read in pieces
		"Medium": {1000, 100_000},  // read in one block
		"Many":   {50_000, 129},
	} {
		for codec, number := range map[string]int{"None": brokertest.None, "Zstd": brokertest.Zstd} {
			t.Run(name+codec, func(t *testing.T) {
				data := batchOfNames(t, number, test.records, test.length)
				const portion = 2 << 20
				c := decodeOne(FetchRequest{Stream: true}, FetchPartition{}, nil, data).Portions
				before, next := heapBytes(), int64(0)
				for done := false; !done; {
					memory := &MemoryReservation{Free: portion + 2<<20}
					var p FetchedPartition
					var err error
					if p, done, err = c.Read(memory, portion); err != nil {
						t.Fatal(err)
					}
					named := int64(0)
					for _, rec := range p.Records {
						if rec.Offset != next || len(rec.Headers) != 1 || rec.Headers[0].Key[test.length-8:] != fmt.Sprintf("%08d", next) {
							t.Fatalf("record %d = %d with %d headers, want its name", next, rec.Offset, len(rec.Headers))
						}
						next++
						named += int64(test.length)
					}
					check.Require(t, number == brokertest.None || memory.taken >= named,
						"took %d of the reservation for names of %d bytes", memory.taken, named)
				}
				held := heapBytes() - before
				check.True(t, held <= decoderBytes, "the cursor holds %d bytes after all was read", held)
				runtime.KeepAlive(c)
				runtime.KeepAlive(data)
				check.True(t, next == int64(test.records), "records = %d, want %d", next, test.records)
			})
		}
	}
}

// TestClone_HasNamesOfItsOwn: a cloned record does not keep the answer in memory.
func TestClone_HasNamesOfItsOwn(t *testing.T) {
	t.Parallel()
	data := brokertest.BatchOf(t, brokertest.None, brokertest.Record{Value: 1, Headers: 1, Name: strings.Repeat("n", 1000)})
	rec := decodeAll(t, 0, nil, data).Records[0].Clone()
	clear(data)
	check.True(t, rec.Headers[0].Key == strings.Repeat("n", 1000), "the name of a header refers to the answer")
}
