package protocol

import (
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker/brokertest"
)

// manyUnreadable returns an answer of batches that cannot be read, with 999 offsets each.
func manyUnreadable(size int) (data []byte, offsets int64) {
	const each = 999
	for len(data) < size {
		b := brokertest.Batch(5, offsets, each, nil)
		data = append(data, b...)
		offsets += each
	}
	return data, offsets
}

// TestPlaceholders_TakeMemoryFromTheRoom: a small unreadable answer yields as many placeholders as there is memory for;
// later reads yield the other placeholders.
func TestPlaceholders_TakeMemoryFromTheRoom(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	data, offsets := manyUnreadable(20 << 10)
	t.Run("Fetch", func(t *testing.T) {
		const most = 1 << 20
		next, answers := int64(0), 0
		for ; next < offsets; answers++ {
			rest := data[int(next/999)*len(data)/int(offsets/999):]
			before := heapBytes()
			p := decodeOne(FetchRequest{MaxBytes: most, Memory: &MemoryReservation{Free: 2 * most}}, FetchPartition{Offset: next, SkipUnreadable: true}, nil, rest)
			held := heapBytes() - before
			check.Require(t, held <= 3*most, "an answer holds %d bytes, want at most about %d", held, most)
			next = wantPlaceholders(t, p, next)
		}
		check.True(t, answers >= 5, "answers = %d, want many", answers)
	})
	t.Run("Cursor", func(t *testing.T) {
		const portion = 1 << 20
		c := decodeOne(FetchRequest{Stream: true}, FetchPartition{SkipUnreadable: true}, nil, data).Portions
		next := int64(0)
		for done := false; !done; {
			var p FetchedPartition
			var err error
			before, memory := heapBytes(), &MemoryReservation{Free: 2 * portion}
			if p, done, err = c.Read(memory, portion); err != nil {
				t.Fatal(err)
			}
			held := heapBytes() - before
			check.Require(t, held <= 3*portion, "a portion holds %d bytes, want at most about %d", held, portion)
			next = wantPlaceholders(t, p, next)
			runtime.KeepAlive(p)
		}
		check.Equal(t, next, offsets, "next")
	})
}

// TestPlaceholders_WithoutMemory: an unreadable offset is not skipped when there is no memory for its placeholder.
func TestPlaceholders_WithoutMemory(t *testing.T) {
	t.Parallel()
	good := brokertest.BatchOf(t, brokertest.None, brokertest.Record{Value: 1})
	bad := brokertest.Batch(5, 1, 999, nil)
	end := brokertest.BatchOf(t, brokertest.None, brokertest.Record{Value: 1})
	binary.BigEndian.PutUint64(end, 1000)
	data := append(append(good, bad...), end...)
	small := FetchRequest{MaxBytes: 1 << 20, Partitions: []FetchPartition{{SkipUnreadable: true}}, Memory: &MemoryReservation{Free: 100_000}}
	d := NewFetchDecoder(small)
	raw := d.unanswered()
	raw.partitions[0].data = data
	res := d.Decode(raw)
	if p := res.Partitions[0]; !res.Starved || len(p.Records) != 1 || p.Next != 1 || p.Err != nil {
		t.Errorf("starved, records, next = %v, %d, %d, %v; want true, 1, 1", res.Starved, len(p.Records), p.Next, p.Err)
	}
	c := decodeOne(FetchRequest{Stream: true}, FetchPartition{SkipUnreadable: true}, nil, data).Portions
	read, _, err := c.Read(&MemoryReservation{Free: 100_000}, 90_000)
	check.True(t, err != nil && wantPlaceholders(t, read, 0) == read.Next && read.Next < 1000,
		"next = %d, %v, want where the memory ended", read.Next, err)
}

// wantPlaceholders checks that p has each offset from the parameter first on, and returns the next offset.
func wantPlaceholders(t *testing.T, p FetchedPartition, first int64) int64 {
	t.Helper()
	check.Require(t, p.Err == nil && p.Heavy <= 0, "error %v, heavy %d", p.Err, p.Heavy)
	for _, rec := range p.Records {
		check.Require(t, rec.Offset == first && (rec.Defect == nil || rec.Defect.Last == first),
			"offset %d with the defect %+v, want %d", rec.Offset, rec.Defect, first)
		first++
	}
	check.Require(t, p.Next == first, "next = %d after %d", p.Next, first-1)
	return first
}
