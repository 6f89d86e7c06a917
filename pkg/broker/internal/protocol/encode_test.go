package protocol

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/compress"
	kafkaprotocol "github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
	"github.com/segmentio/kafka-go/protocol/rawproduce"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// recordsToEncode have every variant that the format distinguishes.
func recordsToEncode() []Record {
	at := time.UnixMilli(1_700_000_000_000)
	large := bytes.Repeat([]byte("large "), referenced)
	return []Record{
		{Time: at, Key: []byte("k"), Value: []byte("v"), Headers: []entity.Header{{Key: "h", Value: []byte("1")}, {Key: "h"}, {Value: []byte{}}}},
		{Time: at.Add(-time.Second)},
		{Time: at.Add(time.Hour), Key: []byte{}, Value: []byte{}},
		{Time: at, Value: large, Headers: []entity.Header{{Key: "after", Value: []byte(strings.Repeat("x", 300))}}},
		{Time: at, Key: large[:referenced], Value: large[:referenced-1]},
		{Time: at, Value: large[:referenced]},
	}
}

// kafkaGoBatch returns kafka-go's encoding of records, without the leading size.
func kafkaGoBatch(t *testing.T, records []Record, codec kafkaprotocol.Attributes) []byte {
	t.Helper()
	list := make([]kafkaprotocol.Record, len(records))
	for i, r := range records {
		list[i] = kafkaprotocol.Record{Time: r.Time, Key: kafkaprotocol.NewBytes(r.Key), Value: kafkaprotocol.NewBytes(r.Value)}
		for _, h := range r.Headers {
			list[i].Headers = append(list[i].Headers, kafkaprotocol.Header(h))
		}
	}
	set := kafkaprotocol.RecordSet{Version: 2, Attributes: codec, Records: kafkaprotocol.NewRecordReader(list...)}
	var out bytes.Buffer
	check.Must(set.WriteTo(&out))(t)
	return out.Bytes()[4:]
}

func TestEncodeBatch_MakesTheBytesThatKafkaGoMakes(t *testing.T) {
	t.Parallel()
	records := recordsToEncode()
	for n := 1; n <= len(records); n++ {
		for _, some := range [][]Record{records[:n], records[n-1:]} {
			b := check.Must(EncodeBatch(some, 0))(t)
			got, want := flat(b), kafkaGoBatch(t, some, 0)
			check.True(t, bytes.Equal(got, want), "%d records: %d bytes differ from kafka-go's %d", len(some), len(got), len(want))
		}
	}
}

func TestEncodeBatch_CompressedRecordsAreReadBack(t *testing.T) {
	t.Parallel()
	records := recordsToEncode()
	for codec := compress.Gzip; codec <= compress.Zstd; codec++ {
		b := check.Must(EncodeBatch(records, codec))(t)
		p := decodeOne(FetchRequest{MaxBytes: 4 << 20}, FetchPartition{TopicPartition: TopicPartition{"t", 3}}, nil, flat(b))
		check.Require(t, p.Err == nil && len(p.Records) == len(records),
			"codec %d: %d records, %v, want %d", codec, len(p.Records), p.Err, len(records))
		for i, got := range p.Records {
			if want := records[i]; !bytes.Equal(got.Value, want.Value) || !bytes.Equal(got.Key, want.Key) || !got.Time.Equal(want.Time) {
				t.Errorf("codec %d: record %d differs", codec, i)
			}
		}
	}
}

func TestEncodeBatch_LargeValueIsNotCopied(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	records := []Record{{Key: []byte("k"), Value: make([]byte, 10_000_000)}}
	result := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			batch := check.Must(EncodeBatch(records, 0))(b)
			request := produceRequest{tp: TopicPartition{Topic: "orders"}, head: batch.Signed(1, 2, 3), body: batch}
			check.NoError(b, request.writeTo(discard{}, 8))
		}
	})
	got := result.AllocedBytesPerOp()
	check.True(t, got <= 64<<10, "bytes allocated to send one record of 10 MB = %d, want at most 64 KiB", got)
}

// discard drops all that is written. Unlike io.Discard, it does not implement io.ReaderFrom.
type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

func TestEncodedBatch_EachTryHasAHeadOfItsOwn(t *testing.T) {
	t.Parallel()
	b := check.Must(EncodeBatch(recordsToEncode(), 0))(t)
	first := b.Signed(7, 1, 100)
	before := bytes.Clone(first)
	second := b.Signed(8, 2, 200)
	check.True(t, bytes.Equal(first, before), "a second try changed the head of the first")
	if id, epoch, sequence := binary.BigEndian.Uint64(second[atProducerID:]), binary.BigEndian.Uint16(second[atEpoch:]),
		binary.BigEndian.Uint32(second[atSequence:]); id != 8 || epoch != 2 || sequence != 200 {
		t.Errorf("producer %d, epoch %d, sequence %d, want 8, 2, 200", id, epoch, sequence)
	}
	if _, _, ok, err := nextBatch(append(second, bytes.Join(b.body, nil)...)); err != nil || !ok {
		t.Errorf("a signed batch is read as %v, %v, want true, nil", ok, err)
	}
}

func TestProduceRequest_IsWhatKafkaGoWrites(t *testing.T) {
	t.Parallel()
	for version := int16(0); version <= 8; version++ {
		for _, records := range [][]Record{recordsToEncode(), recordsToEncode()[:1], recordsToEncode()[4:]} {
			b := check.Must(EncodeBatch(records, 0))(t)
			request := produceRequest{tp: TopicPartition{"orders", 3}, timeout: 2 * time.Second, head: b.Signed(1, 2, 3), body: b}
			var got, want bytes.Buffer
			check.NoError(t, request.writeTo(&got, version))
			set := append(request.head, bytes.Join(b.body, nil)...)
			framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(set))), set...)
			check.NoError(t, kafkaprotocol.WriteRequest(&want, version, correlation, ClientID, &rawproduce.Request{
				Acks: -1, Timeout: 2000,
				Topics: []rawproduce.RequestTopic{{Topic: "orders", Partitions: []rawproduce.RequestPartition{{
					Partition: 3, RecordSet: kafkaprotocol.RawRecordSet{Reader: bytes.NewReader(framed)},
				}}}},
			}))
			check.True(t, bytes.Equal(got.Bytes(), want.Bytes()),
				"version %d: %d bytes differ from kafka-go's %d", version, got.Len(), want.Len())
		}
	}
}

func TestProduceRequest_ReadsTheAnswer(t *testing.T) {
	t.Parallel()
	b := check.Must(EncodeBatch([]Record{{Value: []byte("v")}}, 0))(t)
	for id, fine := range map[int32]bool{correlation: true, correlation + 1: false} {
		var answer bytes.Buffer
		check.NoError(t, kafkaprotocol.WriteResponse(&answer, 8, id, &produce.Response{Topics: []produce.ResponseTopic{{
			Topic: "orders", Partitions: []produce.ResponsePartition{{Partition: 3, BaseOffset: 42}},
		}}}))
		got, err := produceRequest{head: b.Signed(1, 2, 3), body: b}.exchange(readWriter{&answer}, Versions{kafkaprotocol.Produce: 8})
		check.Require(t, (err == nil) == fine, "answer to request %d: %v", id, err)
		if !fine {
			continue
		}
		if ack, _, err := Acknowledgement(got); err != nil || ack.BaseOffset != 42 {
			t.Errorf("answer = %+v, %v, want offset 42", ack, err)
		}
	}
}

// readWriter is used in place of a connection. It returns a broker's answer, and drops all bytes that are written.
type readWriter struct{ answer *bytes.Buffer }

func (r readWriter) Read(b []byte) (int, error)  { return r.answer.Read(b) }
func (r readWriter) Write(b []byte) (int, error) { return len(b), nil }
