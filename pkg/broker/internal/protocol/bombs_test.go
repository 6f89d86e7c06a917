package protocol

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker/brokertest"
)

// streamed reads data in portions, as Stream does, and returns all records. The result most is the largest memory of
// one portion.
func streamed(tb testing.TB, data []byte, limits Limits, portion int64) (p FetchedPartition, most int64) {
	tb.Helper()
	req := FetchRequest{Stream: true, Limits: limits}
	c := decodeOne(req, FetchPartition{SkipUnreadable: true}, nil, data).Portions
	for done := false; !done; {
		memory := &MemoryReservation{Free: portion + limits.RecordBytes + limits.HeaderBytes + int64(limits.Headers*HeaderMemory*2) + 1<<20}
		var got FetchedPartition
		var err error
		got, done, err = c.Read(memory, portion)
		check.NoError(tb, err)
		check.Require(tb, got.Next >= p.Next, "next went from %d to %d", p.Next, got.Next)
		most = max(most, memory.taken)
		p.Records, p.Next = append(p.Records, got.Records...), got.Next
	}
	return p, most
}

// allocated returns how many bytes do allocates.
func allocated(do func()) int64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// decoderBytes is how much the decoders themselves may allocate.
const decoderBytes = 24 << 20

// TestCursor_HeaderBombs: a record with millions of headers is read with its first 10,000 headers, within bounded
// memory. It measures allocations, so it must not run in parallel with other tests.
func TestCursor_HeaderBombs(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	sizes := []int64{1, 16}
	if os.Getenv("DLQ_TEST_LONG") == "1" {
		sizes = append(sizes, 64)
	}
	for _, millions := range sizes {
		t.Run(fmt.Sprint(millions), func(t *testing.T) {
			data := brokertest.BatchOf(t, brokertest.Zstd, brokertest.Record{Value: 3, Fill: 'v', Headers: millions * 1_000_000})
			var p FetchedPartition
			var most int64
			got := allocated(func() { p, most = streamed(t, data, DefaultLimits(), 4<<20) })
			check.True(t, got <= decoderBytes+8<<20 && most <= 4<<20,
				"allocated %d bytes and took %d of the reservation for %d bytes", got, most, len(data))
			check.Require(t, len(p.Records) == 1 && p.Next == 1, "records = %d, next %d, want one", len(p.Records), p.Next)
			rec := p.Records[0]
			if d := rec.Defect; d == nil || d.Limit != LimitHeaders || !d.HeadersOmitted || d.ValueOmitted || d.Size != 3 {
				t.Errorf("defect = %+v, want %s", d, LimitHeaders)
			}
			check.True(t, len(rec.Headers) == 10_000 && string(rec.Value) == "vvv",
				"headers, value = %d, %q; want the first 10000 and vvv", len(rec.Headers), rec.Value)
		})
	}
}

func TestFetch_LeavesBombsToACursor(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	for name, test := range map[string]brokertest.Record{
		"Headers": {Value: -1, Headers: 16_000_000},
		"Value":   {Value: 300 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			small, bomb := brokertest.BatchOf(t, brokertest.Zstd, brokertest.Record{Value: 1}), brokertest.BatchOf(t, brokertest.Zstd, test)
			binary.BigEndian.PutUint64(bomb, 1)
			data := append(small, bomb...)
			var p FetchedPartition
			got := allocated(func() { p = decodeOne(FetchRequest{MaxBytes: 1 << 20}, FetchPartition{}, nil, data) })
			check.True(t, got <= decoderBytes+3<<20, "allocated %d bytes", got)
			check.True(t, len(p.Records) == 1 && p.Next == 1 && p.Heavy == len(bomb) && p.Err == nil,
				"records, next, heavy = %d, %d, %d, %v; want 1, 1, %d", len(p.Records), p.Next, p.Heavy, p.Err, len(bomb))
		})
	}
}

func TestCursor_LargeValues(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	hash := func(n int64) (out [sha256.Size]byte) {
		h := sha256.New()
		brokertest.Repeat(h, []byte{'x'}, n)
		h.Sum(out[:0])
		return out
	}
	for name, test := range map[string]struct {
		codec int
		size  int64
		whole bool
	}{
		"300MBZstd":       {brokertest.Zstd, 300 << 20, false},
		"100MBGzip":       {brokertest.Gzip, 100 << 20, false},
		"100MBLZ4":        {brokertest.LZ4, 100 << 20, false},
		"63MiBZstd":       {brokertest.Zstd, 63 << 20, true},
		"63MiBSnappyRaw":  {brokertest.SnappyRaw, 63 << 20, true},
		"100MBSnappyRaw":  {brokertest.SnappyRaw, 100 << 20, false},
		"100MBSnappyJava": {brokertest.SnappyXerial, 100 << 20, false},
		"AtTheLimit":      {brokertest.Zstd, 64 << 20, true},
		"OverTheLimit":    {brokertest.Zstd, 64<<20 + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			data := brokertest.BatchOf(t, test.codec, brokertest.Record{Value: 1}, brokertest.Record{Value: test.size, Fill: 'x', Headers: 2, Name: "h"}, brokertest.Record{Value: 1})
			var p FetchedPartition
			got := allocated(func() { p, _ = streamed(t, data, DefaultLimits(), 4<<20) })
			bound := int64(decoderBytes + 4<<20)
			if test.whole {
				bound += test.size + test.size/4
			}
			check.True(t, got <= bound, "allocated %d bytes, want at most %d", got, bound)
			check.Require(t, len(p.Records) == 3 && p.Next == 3, "records = %d, next %d, want 3", len(p.Records), p.Next)
			rec := p.Records[1]
			check.True(t, len(rec.Headers) == 2, "headers = %d, want both", len(rec.Headers))
			if test.whole {
				check.True(t, rec.Defect == nil && int64(len(rec.Value)) == test.size,
					"value = %d bytes, %+v, want it whole", len(rec.Value), rec.Defect)
				return
			}
			want := Defect{Limit: LimitRecordBytes, Size: test.size, SHA256: hash(test.size), ValueOmitted: true, Last: 1}
			check.True(t, rec.Defect != nil && *rec.Defect == want && rec.Value == nil, "defect = %+v, want %+v", rec.Defect, want)
		})
	}
}

// TestCursor_ManyRecordsComeInPortions: 300 valid records with a decompressed size of 400 MB are read in several
// portions.
func TestCursor_ManyRecordsComeInPortions(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	const n, size, portion = 300, 1_400_000, 4 << 20
	records := make([]brokertest.Record, n)
	for i := range records {
		records[i] = brokertest.Record{Key: fmt.Append(nil, i), Value: size, Fill: byte(i), Headers: 3, Name: "a", Text: []byte("b")}
	}
	data := brokertest.BatchOf(t, brokertest.Zstd, records...)
	req := FetchRequest{Stream: true}
	c := decodeOne(req, FetchPartition{}, nil, data).Portions
	next, portions := int64(0), 0
	for done := false; !done; portions++ {
		memory := &MemoryReservation{Free: portion + 2*size}
		p, end, err := c.Read(memory, portion)
		check.NoError(t, err)
		for _, rec := range p.Records {
			if rec.Offset != next || rec.Defect != nil || len(rec.Value) != size || rec.Value[size-1] != byte(next) || string(rec.Key) != fmt.Sprint(next) {
				t.Fatalf("record %d = offset %d, %d bytes, %+v", next, rec.Offset, len(rec.Value), rec.Defect)
			}
			next++
		}
		if done = end; p.Next != next {
			t.Fatalf("next = %d after record %d", p.Next, next-1)
		}
	}
	check.True(t, next == n && portions >= n*size/(portion+2*size), "records = %d in %d portions, want %d in many", next, portions, n)
}

func TestCursor_LimitsOfARecord(t *testing.T) {
	t.Parallel()
	limits := Limits{RecordBytes: 300_000, Headers: 10, HeaderBytes: 200_000, BatchBytes: 1 << 30}
	large := bytes.Repeat([]byte("k"), 300_001)
	for name, test := range map[string]struct {
		rec     brokertest.Record
		limit   string // the limit that the defect must name; "" for no defect
		headers int
		key     int // expected length of the key; -1: the key is null
		value   int
	}{
		"Within":            {brokertest.Record{Key: []byte("key"), Value: 299_997, Headers: 10, Name: "h"}, "", 10, 3, 299_997},
		"Tombstone":         {brokertest.Record{Value: -1}, "", 0, -1, -1},
		"Empty":             {brokertest.Record{Key: []byte{}, Value: 0}, "", 0, 0, 0},
		"Value":             {brokertest.Record{Key: []byte("key"), Value: 300_001, Headers: 1, Name: "h"}, LimitRecordBytes, 1, 3, -1},
		"KeyAndValue":       {brokertest.Record{Key: []byte("key"), Value: 299_998}, LimitRecordBytes, 0, 3, -1},
		"Key":               {brokertest.Record{Key: large, Value: 5, Headers: 1}, LimitRecordBytes, 1, -1, 5},
		"KeyAndTombstone":   {brokertest.Record{Key: large, Value: -1}, LimitRecordBytes, 0, -1, -1},
		"Headers":           {brokertest.Record{Key: []byte("key"), Value: 5, Headers: 11, Name: "h"}, LimitHeaders, 10, 3, 5},
		"HeaderBytes":       {brokertest.Record{Value: 5, Headers: 3, Name: "h", Text: make([]byte, 99_999)}, LimitHeaderBytes, 2, -1, 5},
		"OneHeader":         {brokertest.Record{Value: 5, Headers: 1, Name: "h", Text: make([]byte, 200_000)}, LimitHeaderBytes, 0, -1, 5},
		"NameOfAHeader":     {brokertest.Record{Value: 5, Headers: 1, Name: string(large)}, LimitHeaderBytes, 0, -1, 5},
		"ValueAndHeaders":   {brokertest.Record{Value: 300_001, Headers: 11}, LimitHeaders, 10, -1, -1},
		"HeadersAndNoValue": {brokertest.Record{Value: -1, Headers: 200_000}, LimitHeaders, 10, -1, -1},
	} {
		for codecName, codec := range brokertest.Codecs {
			t.Run(name+"/"+codecName, func(t *testing.T) {
				t.Parallel()
				p, _ := streamed(t, brokertest.BatchOf(t, codec, test.rec, brokertest.Record{Value: 1}), limits, 1<<20)
				check.Require(t, len(p.Records) == 2 && p.Records[1].Defect == nil && p.Next == 2,
					"records = %d, next %d, want this and the one after it", len(p.Records), p.Next)
				rec := p.Records[0]
				if length(rec.Key) != test.key || length(rec.Value) != test.value || len(rec.Headers) != test.headers {
					t.Errorf("key, value, headers = %d, %d, %d; want %d, %d, %d", length(rec.Key), length(rec.Value), len(rec.Headers), test.key, test.value, test.headers)
				}
				d := rec.Defect
				if test.limit == "" {
					check.True(t, d == nil, "defect = %+v, want none", d)
					return
				}
				h := sha256.New()
				brokertest.Repeat(h, []byte{test.rec.Fill}, max(0, test.rec.Value))
				if d == nil || d.Limit != test.limit || d.Size != max(0, test.rec.Value) || !bytes.Equal(d.SHA256[:], h.Sum(nil)) {
					t.Fatalf("defect = %+v, want %s, size %d and its hash", d, test.limit, test.rec.Value)
				}
				if d.KeyOmitted != (test.rec.Key != nil && rec.Key == nil) || d.ValueOmitted != (test.rec.Value >= 0 && rec.Value == nil) ||
					d.HeadersOmitted != (int(test.rec.Headers) > len(rec.Headers)) {
					t.Errorf("omitted = %+v, want what is not held", d)
				}
			})
		}
	}
}

func length(b []byte) int {
	if b == nil {
		return -1
	}
	return len(b)
}

// TestCursor_WhatCannotBeReadHasPlaceholders: records before the damage are read, and the unreadable offsets get
// placeholders.
func TestCursor_WhatCannotBeReadHasPlaceholders(t *testing.T) {
	t.Parallel()
	honest := func(n int) []brokertest.Record {
		out := make([]brokertest.Record, n)
		for i := range out {
			out[i] = brokertest.Record{Value: 1000, Fill: byte(i * 7)}
		}
		return out
	}
	noise := func(w io.Writer) {
		for i, r := range honest(3) {
			r.Delta = int64(i)
			r.Write(w)
		}
		brokertest.Repeat(w, []byte{0xff}, 100)
	}
	limits := DefaultLimits()
	limits.BatchBytes = 1 << 20
	window := check.Must(zstd.NewWriter(nil, zstd.WithWindowSize(16<<20)))(t)
	var random bytes.Buffer
	for i := range 20 << 20 / 8 {
		_ = binary.Write(&random, binary.BigEndian, uint64(i)*0x9e3779b97f4a7c15)
	}
	far := append(bytes.Clone(random.Bytes()[:12<<20]), random.Bytes()[:6<<20]...)
	for name, test := range map[string]struct {
		data  []byte
		read  int    // number of records that are read
		gaps  string // the expected placeholders, each as its first and last unreadable offset
		cause string
	}{
		"Checksum": {func() []byte { b := brokertest.BatchOf(t, brokertest.Zstd, honest(3)...); b[len(b)-1]++; return b }(), 0, "0-0 1-1 2-2", "checksum"},
		"Codec":    {brokertest.Batch(5, 0, 2, nil), 0, "0-0 1-1", "unknown codec 5"},
		"Middle":   {brokertest.Batch(brokertest.Zstd, 0, 5, brokertest.Packed(t, brokertest.Zstd, noise)), 3, "3-3 4-4", "ends too early"},
		"Cut":      {brokertest.Batch(brokertest.Gzip, 0, 3, brokertest.Packed(t, brokertest.Gzip, noise)[:30]), 0, "0-0 1-1 2-2", ""},
		"Many":     {brokertest.Batch(brokertest.Zstd, 0, 5000, brokertest.Packed(t, brokertest.Zstd, noise)), 3, "3-4999", "ends too early"},
		"BatchLimit": {
			brokertest.BatchOf(t, brokertest.Zstd, append(honest(10), brokertest.Record{Value: 1 << 20}, brokertest.Record{})...), 10, "10-10 11-11",
			"max_batch_bytes",
		},
		"Nothing":    {brokertest.Batch(brokertest.Gzip, 0, 1, nil), 0, "0-0", ""},
		"Window":     {brokertest.Batch(brokertest.Zstd, 0, 1, window.EncodeAll(far, nil)), 0, "0-0", ""},
		"SnappyLies": {brokertest.Batch(brokertest.SnappyXerial, 0, 1, binary.AppendUvarint(nil, 4<<30-1)), 0, "0-0", "snappy"},
		"Nested": {brokertest.LegacyEntry(1, brokertest.Gzip, 0, nil, brokertest.Packed(t, brokertest.Gzip, func(w io.Writer) {
			_, _ = w.Write(brokertest.LegacyEntry(1, brokertest.Gzip, 0, nil, brokertest.Packed(t, brokertest.Gzip, func(io.Writer) {})))
		})), 0, "0-0", "compressed list"},
		"LegacyChecksum": {func() []byte { b := brokertest.LegacyEntry(0, 0, 0, nil, []byte("v")); b[len(b)-1]++; return b }(), 0, "0-0", "checksum"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			good := brokertest.BatchOf(t, brokertest.None, brokertest.Record{Value: 1})
			var after int64
			for _, gap := range strings.Fields(test.gaps) {
				_, _ = fmt.Sscanf(gap[strings.Index(gap, "-"):], "-%d", &after)
			}
			binary.BigEndian.PutUint64(good, uint64(after+1))
			p, _ := streamed(t, append(test.data, good...), limits, 1<<20)
			var gaps []string
			read := 0
			for _, rec := range p.Records {
				if rec.Defect == nil {
					read++
					continue
				}
				gaps = append(gaps, fmt.Sprintf("%d-%d", rec.Offset, rec.Defect.Last))
				if rec.Defect.Limit != "" || rec.Defect.Reason == "" || !strings.Contains(rec.Defect.Reason, test.cause) {
					t.Errorf("reason = %+v, want %q", rec.Defect, test.cause)
				}
			}
			if got := strings.Join(gaps, " "); got != test.gaps || read != test.read+1 || p.Next != after+2 {
				t.Errorf("read %d records, gaps %s, next %d; want %d and the one after, %s, %d", read, got, p.Next, test.read, test.gaps, after+2)
			}
		})
	}
}

func TestDecode_ALargeWindowForLittleIsRead(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	z := check.Must(zstd.NewWriter(&out, zstd.WithWindowSize(128<<20)))(t)
	brokertest.Record{Value: 5}.Write(z)
	_ = z.Flush() // writes the frame's header now, before the encoder knows the size of the content
	_ = z.Close()
	p := decodeAll(t, 0, nil, brokertest.Batch(brokertest.Zstd, 0, 1, out.Bytes()))
	check.True(t, len(p.Records) == 1 && p.Err == nil, "records = %d, %v, want it read", len(p.Records), p.Err)
}

func TestDecode_OldFormats(t *testing.T) {
	t.Parallel()
	for magic := range byte(2) {
		for name, codec := range brokertest.Codecs {
			if codec == brokertest.None {
				continue
			}
			t.Run(fmt.Sprintf("%d/%s", magic, name), func(t *testing.T) {
				t.Parallel()
				body := brokertest.Packed(t, codec, func(w io.Writer) {
					for i, value := range [][]byte{[]byte("a"), nil, bytes.Repeat([]byte("c"), 300_000)} {
						offset := int64(10 + i)
						if magic == 1 {
							offset = int64(2 * i) // relative to the first record of the list; compaction has removed every second record
						}
						_, _ = w.Write(brokertest.LegacyEntry(magic, 0, offset, []byte("k"), value))
					}
				})
				if magic == 0 && codec == brokertest.LZ4 {
					body[6] ^= 0x55 // makes the header's checksum wrong, as old producers do
				}
				last, want := int64(12), "10 11 12"
				if magic == 1 {
					last, want = 14, "10 12 14"
				}
				p := decodeAll(t, 10, nil, append(brokertest.LegacyEntry(magic, codec, last, nil, body), brokertest.LegacyEntry(magic, 0, last+1, nil, []byte("z"))...))
				var offsets []string
				for _, rec := range p.Records {
					offsets = append(offsets, fmt.Sprint(rec.Offset))
				}
				if got := strings.Join(offsets, " "); p.Err != nil || got != want+fmt.Sprintf(" %d", last+1) || p.Next != last+2 {
					t.Fatalf("offsets = %s, next %d, %v; want %s", got, p.Next, p.Err, want)
				}
				if r := p.Records; string(r[0].Key) != "k" || string(r[0].Value) != "a" || r[1].Value != nil || len(r[2].Value) != 300_000 {
					t.Errorf("records = %.200v, want them as written", r)
				}
				stamp := p.Records[0].Time
				check.True(t, stamp.IsZero() == (magic == 0), "time = %s of format %d", stamp, magic)
			})
		}
	}
}

func TestFetch_StarvedLeavesBatchesForLater(t *testing.T) {
	t.Parallel()
	first, second := brokertest.BatchOf(t, brokertest.Zstd, brokertest.Record{Value: 50_000}), brokertest.BatchOf(t, brokertest.Zstd, brokertest.Record{Value: 50_000})
	binary.BigEndian.PutUint64(second, 1)
	req := FetchRequest{MaxBytes: 1 << 20, Memory: &MemoryReservation{Free: 80_000}, Partitions: []FetchPartition{{}}}
	d := NewFetchDecoder(req)
	raw := d.unanswered()
	raw.partitions[0].data = append(first, second...)
	res := d.Decode(raw)
	if p := res.Partitions[0]; !res.Starved || len(p.Records) != 1 || p.Next != 1 || p.Heavy != 0 || p.Err != nil {
		t.Errorf("starved, records, next = %v, %d, %d, %v; want true, 1, 1", res.Starved, len(p.Records), p.Next, p.Err)
	}
	taken := 80_000 - req.Memory.Free
	check.True(t, taken >= 50_000 && taken <= 60_000, "taken = %d, want what the record takes", taken)
}

// TestReads_EndWithTheirContext: a read ends in the middle of a batch when its context ends. Package broker tests
// the end between two portions.
func TestReads_EndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	data := brokertest.BatchOf(t, brokertest.Zstd, brokertest.Record{Value: 200 << 20})
	limits := Limits{RecordBytes: 128 << 20, Headers: 1, BatchBytes: 1 << 30}
	c := decodeOne(FetchRequest{Stream: true, Limits: limits}, FetchPartition{}, nil, data).Portions.(*Cursor)
	if _, _, err := c.ReadWithin(ctx, 8<<20, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadWithin = %v, want %v", err, context.Canceled)
	}
	n := c.reader.(*batchReader).src.work
	check.True(t, n <= 1<<20, "%d bytes were decompressed after the end", n)
}

// FuzzDecode: for any batch, decoding ends, does not panic, stays within its memory limits, and returns increasing
// offsets.
func FuzzDecode(f *testing.F) {
	for _, codec := range brokertest.Codecs {
		f.Add(brokertest.BatchOf(f, codec, brokertest.Record{Key: []byte("k"), Value: 5, Headers: 3, Name: "n", Text: []byte("t")}, brokertest.Record{Value: -1}), uint8(0), uint16(0))
		f.Add(brokertest.BatchOf(f, codec, brokertest.Record{Value: 5, Headers: 1_000_000}), uint8(1), uint16(0))
		f.Add(brokertest.BatchOf(f, codec, brokertest.Record{Value: 1 << 20}, brokertest.Record{Value: 3}), uint8(2), uint16(7))
		for magic := range byte(2) {
			body := brokertest.Packed(f, codec, func(w io.Writer) {
				for i := range int64(3) {
					_, _ = w.Write(brokertest.LegacyEntry(magic, 0, i, []byte("k"), bytes.Repeat([]byte("v"), 70_000)))
				}
			})
			f.Add(brokertest.LegacyEntry(magic, codec, 2, nil, body), uint8(3), uint16(0))
		}
	}
	f.Add([]byte("0000000000000000000000X00000000000000000000000000000000000000100"), uint8(1), uint16(0)) // a batch with a record of negative length
	control := brokertest.BatchOf(f, brokertest.None, brokertest.Record{})
	control[atAttributes+1] |= attrControl
	binary.BigEndian.PutUint32(control[atLastDelta:], math.MaxInt32) // the header of the batch declares two billion end markers of transactions
	f.Add(control, uint8(1), uint16(0))
	limits := Limits{RecordBytes: 64 << 10, Headers: 100, HeaderBytes: 16 << 10, BatchBytes: 4 << 20}
	const portion = 64 << 10
	f.Fuzz(func(t *testing.T, data []byte, mode uint8, cut uint16) {
		// Without a valid checksum, the decoder would refuse the batch before it reads the changed fields.
		if mode&1 != 0 {
			data = resealed(data)
		}
		data = data[:len(data)-min(len(data), int(cut))]
		c := decodeOne(FetchRequest{Stream: true, Limits: limits}, FetchPartition{SkipUnreadable: mode&2 != 0}, nil, data).Portions
		last := int64(math.MinInt64)
		for done := c == nil; !done; {
			memory := &MemoryReservation{Free: portion + limits.RecordBytes + limits.HeaderBytes + 4*blockBytes}
			var p FetchedPartition
			var err error
			p, done, err = c.Read(memory, portion)
			check.Require(t, !errors.Is(err, errNoMemory), "a record takes more than %d bytes: %d", portion, memory.taken)
			for _, rec := range p.Records {
				check.Require(t, rec.Offset > last || last == math.MinInt64, "offset %d after %d", rec.Offset, last)
				last = rec.Offset
				check.Require(t, len(rec.Headers) <= limits.Headers && int64(len(rec.Key)+len(rec.Value)) <= limits.RecordBytes,
					"a record of %d bytes and %d headers", len(rec.Key)+len(rec.Value), len(rec.Headers))
			}
		}
	})
}

// resealed sets a valid checksum and the length of data, as if data were a single batch.
func resealed(data []byte) []byte {
	if len(data) < atRecords {
		return data
	}
	data = bytes.Clone(data)
	binary.BigEndian.PutUint32(data[8:], uint32(len(data)-batchPrefix))
	if data[atMagic] < 2 {
		binary.BigEndian.PutUint32(data[atLegacyCRC:], crc32.ChecksumIEEE(data[atMagic:]))
		return data
	}
	data[atMagic] = 2
	return seal(data)
}
