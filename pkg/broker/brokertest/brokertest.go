// Package brokertest makes record batches as a hostile producer would; their decompressed size may exceed the memory of
// the process that reads them.
package brokertest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// Codecs of batches.
const (
	None = iota
	Gzip
	SnappyXerial
	LZ4
	Zstd
	// SnappyRaw compresses with Snappy without the frames that the Java library xerial writes around Snappy blocks.
	SnappyRaw = SnappyXerial | 8
)

// Byte positions of the fields in a batch.
const (
	batchPrefix  = 12
	atMagic      = 16
	atCRC        = 17
	atAttributes = 21
	atLastDelta  = 23
	atFirstTime  = 27
	atMaxTime    = 35
	atProducerID = 43
	atCount      = 57
	atRecords    = 61
	atLegacyCRC  = 12
)

// Seal writes the correct checksum into a batch, after a test has changed other bytes of it.
func Seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// Record is a record that can be written without being completely in memory.
type Record struct {
	Delta   int64 // offset relative to the first offset of the batch
	Key     []byte
	Value   int64 // size of the value in bytes; -1: the value is null
	Fill    byte
	Headers int64
	Name    string
	Text    []byte // value of every header; nil is Kafka's null
}

// Write writes the record in format 2.
func (h Record) Write(w io.Writer) {
	head := binary.AppendVarint([]byte{0}, h.Delta) // attributes, time
	head = binary.AppendVarint(head, h.Delta)
	if h.Key == nil {
		head = binary.AppendVarint(head, -1)
	} else {
		head = append(binary.AppendVarint(head, int64(len(h.Key))), h.Key...)
	}
	head = binary.AppendVarint(head, h.Value)
	header := append(binary.AppendVarint(nil, int64(len(h.Name))), h.Name...)
	if h.Text == nil {
		header = binary.AppendVarint(header, -1)
	} else {
		header = append(binary.AppendVarint(header, int64(len(h.Text))), h.Text...)
	}
	count := binary.AppendVarint(nil, h.Headers)
	size := int64(len(head)) + max(0, h.Value) + int64(len(count)) + h.Headers*int64(len(header))
	_, _ = w.Write(binary.AppendVarint(nil, size))
	_, _ = w.Write(head)
	Repeat(w, []byte{h.Fill}, max(0, h.Value))
	_, _ = w.Write(count)
	Repeat(w, header, h.Headers)
}

// Repeat writes the bytes b to w, n times.
func Repeat(w io.Writer, b []byte, n int64) {
	many := int64(max(1, 64<<10/len(b)))
	block := bytes.Repeat(b, int(min(many, n)))
	for ; n >= many; n -= many {
		_, _ = w.Write(block)
	}
	_, _ = w.Write(block[:int(n)*len(b)])
}

// Packed returns the bytes that the function write writes, compressed with the codec.
func Packed(tb testing.TB, codec int, write func(io.Writer)) []byte {
	tb.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch codec {
	case None:
		write(&out)
		return out.Bytes()
	case Gzip:
		w = gzip.NewWriter(&out)
	case LZ4:
		w = lz4.NewWriter(&out)
	case Zstd:
		z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
		check.NoError(tb, err)
		w = z
	case SnappyXerial, SnappyRaw:
		var plain bytes.Buffer
		write(&plain)
		if codec == SnappyRaw {
			return snappy.Encode(nil, plain.Bytes())
		}
		out.WriteString("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
		for piece := range slices.Chunk(plain.Bytes(), 32<<10) {
			block := snappy.Encode(nil, piece)
			_ = binary.Write(&out, binary.BigEndian, int32(len(block)))
			out.Write(block)
		}
		return out.Bytes()
	}
	write(w)
	check.NoError(tb, w.Close())
	return out.Bytes()
}

// Codecs contains all codecs, by name.
var Codecs = map[string]int{
	"None": None, "Gzip": Gzip, "SnappyXerial": SnappyXerial, "SnappyRaw": SnappyRaw, "LZ4": LZ4, "Zstd": Zstd,
}

// Batch returns a batch of format 2 with a valid checksum.
func Batch(codec int, base int64, count int, body []byte) []byte {
	b := make([]byte, atRecords, atRecords+len(body))
	binary.BigEndian.PutUint64(b, uint64(base))
	binary.BigEndian.PutUint32(b[8:], uint32(atRecords-batchPrefix+len(body)))
	b[atMagic] = 2
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(codec&7))
	binary.BigEndian.PutUint32(b[atLastDelta:], uint32(max(0, count-1)))
	binary.BigEndian.PutUint64(b[atFirstTime:], 1000)
	binary.BigEndian.PutUint64(b[atProducerID:], math.MaxUint64)
	binary.BigEndian.PutUint32(b[atCount:], uint32(count))
	return Seal(append(b, body...))
}

// BatchOf returns a batch of records at offset 0.
func BatchOf(tb testing.TB, codec int, records ...Record) []byte {
	tb.Helper()
	return Batch(codec, 0, len(records), Packed(tb, codec, func(w io.Writer) {
		for i, r := range records {
			r.Delta = int64(i)
			r.Write(w)
		}
	}))
}

// LegacyEntry returns an entry of format 0 or 1.
func LegacyEntry(magic byte, codec int, offset int64, key, value []byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(offset))
	b = append(b, make([]byte, 8)...)
	b = append(b, magic, byte(codec&7))
	if magic == 1 {
		b = binary.BigEndian.AppendUint64(b, uint64(1000+offset))
	}
	for _, part := range [][]byte{key, value} {
		if part == nil {
			b = binary.BigEndian.AppendUint32(b, math.MaxUint32)
			continue
		}
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-batchPrefix))
	binary.BigEndian.PutUint32(b[atLegacyCRC:], crc32.ChecksumIEEE(b[atMagic:]))
	return b
}

// Produce makes a broker append a batch of format 2, unchanged except for its times. They become the present time,
// because a broker deletes records from the year 1970 within 5 minutes: its retention is a week.
func Produce(ctx context.Context, broker, topic string, partition int32, batch []byte) error {
	batch = slices.Clone(batch)
	now := uint64(time.Now().UnixMilli())
	binary.BigEndian.PutUint64(batch[atFirstTime:], now)
	binary.BigEndian.PutUint64(batch[atMaxTime:], now)
	Seal(batch)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.MaxVersions(kversion.V3_0_0()), kgo.BrokerMaxWriteBytes(1<<30))
	if err != nil {
		return err
	}
	defer client.Close()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 30_000
	part := kmsg.NewProduceRequestTopicPartition()
	part.Partition, part.Records = partition, batch
	to := kmsg.NewProduceRequestTopic()
	to.Topic, to.Partitions = topic, []kmsg.ProduceRequestTopicPartition{part}
	req.Topics = append(req.Topics, to)
	res, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(res.Topics[0].Partitions[0].ErrorCode); err != nil {
		return fmt.Errorf("produce a batch of %d bytes: %w", len(batch), err)
	}
	return nil
}
