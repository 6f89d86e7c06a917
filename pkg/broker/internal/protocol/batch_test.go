package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/compress"
	kafkaprotocol "github.com/segmentio/kafka-go/protocol"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// testBatch is a batch as a broker would store it.
type testBatch struct {
	base       int64
	attributes int16
	producer   int64
	values     string // one record for each word
	lastDelta  int32  // the last offset may be after the last record: compaction removed the records between
	key        []byte
}

func (tb testBatch) bytes(t testing.TB) []byte {
	t.Helper()
	var records []Record
	for _, v := range strings.Fields(tb.values) {
		records = append(records, Record{Key: tb.key, Value: []byte(v), Time: time.UnixMilli(1000)})
	}
	empty := len(records) == 0
	if empty {
		records = make([]Record, 1)
	}
	encoded := check.Must(EncodeBatch(records, compress.Compression(tb.attributes&7)))(t)
	b := flat(encoded)
	if empty {
		b = b[:atRecords]
		binary.BigEndian.PutUint32(b[8:], atRecords-batchPrefix)
		binary.BigEndian.PutUint32(b[atCount:], 0)
	}
	binary.BigEndian.PutUint64(b, uint64(tb.base))
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(tb.attributes))
	binary.BigEndian.PutUint64(b[atProducerID:], uint64(tb.producer))
	if tb.lastDelta > 0 {
		binary.BigEndian.PutUint32(b[atLastDelta:], uint32(tb.lastDelta))
	}
	return seal(b)
}

// flat returns the bytes of a batch that has no producer id.
func flat(b *EncodedBatch) []byte { return append(b.Signed(-1, -1, -1), bytes.Join(b.body, nil)...) }

func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], castagnoli))
	return b
}

func marker(base, producer int64, commit byte) testBatch {
	return testBatch{base: base, attributes: attrControl | attrTransactional, producer: producer, values: "m", key: []byte{0, 0, 0, commit}}
}

func decodeAll(t testing.TB, from int64, aborted []abortedTransaction, data []byte) FetchedPartition {
	t.Helper()
	return decodeOne(FetchRequest{MaxBytes: 1 << 20}, FetchPartition{TopicPartition: TopicPartition{"t", 3}, Offset: from}, aborted, data)
}

// decodeOne decodes an answer for a single partition.
func decodeOne(req FetchRequest, part FetchPartition, aborted []abortedTransaction, data []byte) FetchedPartition {
	req.Partitions = []FetchPartition{part}
	d := NewFetchDecoder(req)
	raw := d.unanswered()
	raw.partitions[0].data, raw.partitions[0].aborted = data, aborted
	return d.Decode(raw).Partitions[0]
}

func join(t testing.TB, batches ...testBatch) []byte {
	var data []byte
	for _, b := range batches {
		data = append(data, b.bytes(t)...)
	}
	return data
}

func seen(p FetchedPartition) string {
	var out []string
	for _, r := range p.Records {
		out = append(out, fmt.Sprintf("%d=%s", r.Offset, r.Value))
	}
	return strings.Join(out, " ")
}

func TestDecode_Transactions(t *testing.T) {
	t.Parallel()
	tx := func(base, producer int64, values string) testBatch {
		return testBatch{base: base, attributes: attrTransactional, producer: producer, values: values}
	}
	tests := map[string]struct {
		batches []testBatch
		aborted []abortedTransaction
		want    string
		next    int64
	}{
		"NothingAborted": {[]testBatch{tx(0, 1, "a b"), marker(2, 1, 1)}, nil, "0=a 1=b", 3},
		"AbortedIsLeftOut": {
			[]testBatch{tx(0, 1, "a b"), marker(2, 1, 0), {base: 3, producer: -1, values: "c"}}, []abortedTransaction{{1, 0}}, "3=c", 4,
		},
		"AbortMarkerEndsIt": {
			[]testBatch{tx(0, 1, "a"), marker(1, 1, 0), tx(2, 1, "b"), marker(3, 1, 1)}, []abortedTransaction{{1, 0}}, "2=b", 4,
		},
		"OnlyTheProducerNamed": {
			[]testBatch{tx(0, 1, "a"), tx(1, 2, "b"), marker(2, 1, 0), marker(3, 2, 1)}, []abortedTransaction{{1, 0}}, "1=b", 4,
		},
		"BeginsBeforeTheFetch": {[]testBatch{tx(5, 1, "a"), marker(6, 1, 0)}, []abortedTransaction{{1, 2}}, "", 7},
		"NotYetBegun": {
			[]testBatch{tx(0, 1, "a"), marker(1, 1, 1), tx(2, 1, "b"), marker(3, 1, 0)}, []abortedTransaction{{1, 2}}, "0=a", 4,
		},
		"ListOutOfOrder": {
			[]testBatch{tx(0, 2, "a"), tx(1, 1, "b"), marker(2, 2, 0), marker(3, 1, 0), tx(4, 1, "c"), marker(5, 1, 1)},
			[]abortedTransaction{{1, 1}, {2, 0}},
			"4=c", 6,
		},
		"PlainBatchOfAnAbortedProducer": {[]testBatch{{base: 0, producer: 1, values: "a"}}, []abortedTransaction{{1, 0}}, "0=a", 1},
		"CommitMarkerOfAnother": {
			[]testBatch{tx(0, 1, "a"), marker(1, 2, 1), tx(2, 1, "b"), marker(3, 1, 0)}, []abortedTransaction{{1, 0}}, "", 4,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decodeAll(t, 0, test.aborted, join(t, test.batches...))
			check.True(t, seen(got) == test.want && got.Next == test.next && got.Err == nil,
				"decode = %q, next %d, %v, want %q, next %d", seen(got), got.Next, got.Err, test.want, test.next)
		})
	}
}

func TestDecode_StepsOverWhatCompactionEmptied(t *testing.T) {
	t.Parallel()
	got := decodeAll(t, 10, nil, join(t,
		testBatch{base: 10, producer: 7, lastDelta: 4}, testBatch{base: 20, producer: -1, values: "a b", lastDelta: 9}))
	check.True(t, seen(got) == "20=a 21=b" && got.Next == 30, "decode = %q, next %d, want 20=a 21=b and 30", seen(got), got.Next)
	found := decodeAll(t, 10, nil, join(t, testBatch{base: 10, producer: 7, lastDelta: 4}))
	check.True(t, found.Next == 15 && found.Err == nil, "next after an empty batch = %d, %v, want 15", found.Next, found.Err)
}

func TestDecode_CutOffBatchIsLeftForLater(t *testing.T) {
	t.Parallel()
	data := join(t, testBatch{values: "a b"}, testBatch{base: 2, values: "c"})
	whole := len(join(t, testBatch{values: "a b"}))
	for n := range data {
		want, next := "", int64(0)
		if n >= whole {
			want, next = "0=a 1=b", 2
		}
		if got := decodeAll(t, 0, nil, data[:n]); seen(got) != want || got.Next != next || got.Err != nil {
			t.Fatalf("decode of %d bytes = %q, next %d, %v, want %q, next %d", n, seen(got), got.Next, got.Err, want, next)
		}
	}
}

func TestDecode_DamageIsOfItsPartitionOnly(t *testing.T) {
	t.Parallel()
	good, bad := join(t, testBatch{values: "a"}), join(t, testBatch{base: 1, values: "b"})
	for i := range bad {
		if i < atMagic+1 { // the checksum does not cover these bytes: offset, length, leader epoch and format
			continue
		}
		damaged := slices.Clone(bad)
		damaged[i] ^= 0x40
		got := decodeAll(t, 0, nil, append(slices.Clone(good), damaged...))
		check.True(t, seen(got) == "0=a" && got.Next == 1 && errors.Is(got.Err, ErrCorrupt),
			"byte %d damaged: %q, next %d, %v, want 0=a, next 1, ErrCorrupt", i, seen(got), got.Next, got.Err)
	}
}

// secondRecord is the byte position of the second record in a batch of the values a and b.
const secondRecord = 8

func TestDecode_LiesUnderAGoodChecksumAreErrors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lie  func(b []byte)
		want string
		next int64
	}{
		"MoreRecordsThanThere": {func(b []byte) { binary.BigEndian.PutUint32(b[atCount:], 1<<30) }, "0=a 1=b", 2},
		"NegativeCount":        {func(b []byte) { binary.BigEndian.PutUint32(b[atCount:], 1<<31) }, "", 0},
		"NegativeLastOffset":   {func(b []byte) { binary.BigEndian.PutUint32(b[atLastDelta:], 1<<31) }, "", 0},
		"RecordLongerThanAll":  {func(b []byte) { b[atRecords] = 0x7e }, "", 0},
		"OffsetTwice":          {func(b []byte) { b[atRecords+secondRecord+3] = 0 }, "0=a", 1},
		"OffsetBeyondTheBatch": {func(b []byte) { b[atRecords+secondRecord+3] = 4 }, "0=a", 1},
		"UnknownCodec":         {func(b []byte) { b[atAttributes+1] |= 7 }, "", 0},
		"NotCompressed":        {func(b []byte) { b[atAttributes+1] |= 1 }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := join(t, testBatch{values: "a b"})
			test.lie(b)
			if got := decodeAll(t, 0, nil, seal(b)); !errors.Is(got.Err, ErrCorrupt) || seen(got) != test.want || got.Next != test.next {
				t.Errorf("decode = %q, next %d, %v, want %q, next %d, ErrCorrupt", seen(got), got.Next, got.Err, test.want, test.next)
			}
		})
	}
}

func TestDecode_StopsAtTheBudget(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		attributes int16
		values     string
	}{
		"CompressedBatches": {int16(kafkaprotocol.Zstd), strings.Repeat("x", 19_000)},
		"TinyRecords":       {0, strings.Repeat("x ", 200)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := testBatch{attributes: test.attributes, values: test.values}
			n := int64(len(strings.Fields(test.values)))
			second, third := first, first
			second.base, third.base = n, 2*n
			p := decodeOne(FetchRequest{MaxBytes: 40_000}, FetchPartition{}, nil, join(t, first, second, third))
			check.True(t, len(p.Records) == int(2*n) && p.Next == 2*n && p.Err == nil,
				"decode = %d records, next %d, %v, want the first two batches alone", len(p.Records), p.Next, p.Err)
		})
	}
}

func TestDecode_LogAppendTimeIsTheRecordsTime(t *testing.T) {
	t.Parallel()
	b := join(t, testBatch{attributes: attrLogAppendTime, values: "a b"})
	binary.BigEndian.PutUint64(b[atMaxTime:], 5000)
	for _, r := range decodeAll(t, 0, nil, seal(b)).Records {
		check.True(t, r.Time.Equal(time.UnixMilli(5000)), "time = %s, want the broker's", r.Time)
	}
}

func TestDecode_OldFormatsAreRead(t *testing.T) {
	t.Parallel()
	set := kafkaprotocol.RecordSet{Version: 1, Records: kafkaprotocol.NewRecordReader(
		kafkaprotocol.Record{Time: time.UnixMilli(5), Key: kafkaprotocol.NewBytes([]byte("k")), Value: kafkaprotocol.NewBytes([]byte("a"))},
		kafkaprotocol.Record{Time: time.UnixMilli(6), Value: nil},
	)}
	var out bytes.Buffer
	check.Must(set.WriteTo(&out))(t)
	data := append(out.Bytes()[4:], join(t, testBatch{base: 2, values: "b"})...)
	got := decodeAll(t, 0, nil, data)
	check.Require(t, len(got.Records) == 3 && got.Next == 3 && got.Err == nil,
		"decode = %q, next %d, %v, want 3 records", seen(got), got.Next, got.Err)
	first, second := got.Records[0], got.Records[1]
	check.True(t, string(first.Key) == "k" && string(first.Value) == "a" && first.Time.UnixMilli() == 5 && second.Key == nil,
		"records = %+v, %+v, want them as written", first, second)
}

func TestDecode_TimestampsThatAreNoDatesStayNumbers(t *testing.T) {
	t.Parallel()
	for _, ms := range []int64{0, 1, 1_781_000_000_000, 253402300799999} {
		if at, raw := entity.RecordTime(ms); at.UnixMilli() != ms || at.Year() > 9999 || raw != 0 {
			t.Errorf("RecordTime(%d) = %v, %d, want the time alone", ms, at, raw)
		}
	}
	for _, ms := range []int64{-1, math.MinInt64, 253402300800000, 9_300_000_000_000_000, 1_781_000_000_000_000_000, math.MaxInt64} {
		encoded := check.Must(EncodeBatch([]Record{{Value: []byte("a"), Time: time.UnixMilli(ms)}}, 0))(t)
		got := decodeAll(t, 0, nil, flat(encoded))
		check.True(t, len(got.Records) == 1 && got.Records[0].Time.IsZero() && got.Records[0].RawTime == ms,
			"decode of a record of %d = %+v, %v, want no time and the number", ms, got.Records, got.Err)
	}
}
