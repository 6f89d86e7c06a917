package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"github.com/segmentio/kafka-go/compress"
	kafkaprotocol "github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/produce"
)

// referenced is the size in bytes from which a key or a value is not copied into the batch but sent from its own
// memory. A copy of many megabytes would stay in memory until the broker has answered.
const referenced = 32 << 10

// EncodedBatch is a record batch that is complete except for the producer's id and the sequence. It never changes: each
// try makes its own header, because a try that was abandoned may still be sending the earlier header. Unless the batch
// is compressed, large keys and values are not copied into it.
type EncodedBatch struct {
	head [atRecords]byte
	body [][]byte
	size int // size of the body in bytes
}

// EncodeBatch encodes records as one batch of format 2. The records' bytes must not change while the batch is in use.
func EncodeBatch(records []Record, codec compress.Compression) (*EncodedBatch, error) {
	if len(records) == 0 {
		return nil, fmt.Errorf("encode batch: %w", kafkaprotocol.ErrNoRecord)
	}
	e := batchEncoder{now: time.Now().UnixMilli(), small: make([]byte, 0, ownBytes(records))}
	for i := range records {
		e.record(i, &records[i])
	}
	e.cut()
	b := &EncodedBatch{body: e.body}
	if err := b.compress(codec); err != nil {
		return nil, fmt.Errorf("encode batch: %w", err)
	}
	for _, piece := range b.body {
		b.size += len(piece)
	}
	if b.size > math.MaxInt32-atRecords {
		return nil, fmt.Errorf("encode batch: %d bytes are too many", b.size)
	}
	h := b.head[:]
	binary.BigEndian.PutUint32(h[batchPrefix-4:], uint32(atRecords-batchPrefix+b.size))
	binary.BigEndian.PutUint32(h[batchPrefix:], math.MaxUint32) // no leader's epoch
	h[atMagic] = 2
	binary.BigEndian.PutUint16(h[atAttributes:], uint16(codec))
	binary.BigEndian.PutUint32(h[atLastDelta:], uint32(len(records)-1))
	binary.BigEndian.PutUint64(h[atFirstTime:], uint64(e.first))
	binary.BigEndian.PutUint64(h[atMaxTime:], uint64(e.last))
	binary.BigEndian.PutUint32(h[atCount:], uint32(len(records)))
	return b, nil
}

// compress replaces the body with a compressed one, in memory of its own.
func (b *EncodedBatch) compress(codec compress.Compression) error {
	c := codec.Codec()
	if c == nil {
		return nil
	}
	var out bytes.Buffer
	w := c.NewWriter(&out)
	for _, piece := range b.body {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	b.body = [][]byte{out.Bytes()}
	return nil
}

// Size returns the size of the whole batch in bytes, as brokers compare it with max.message.bytes.
func (b *EncodedBatch) Size() int { return len(b.head) + b.size }

// Signed returns a header with a producer's id and the batch's sequence.
func (b *EncodedBatch) Signed(id int64, epoch int16, sequence int32) []byte {
	h := append(make([]byte, 0, atRecords), b.head[:]...)
	binary.BigEndian.PutUint64(h[atProducerID:], uint64(id))
	binary.BigEndian.PutUint16(h[atEpoch:], uint16(epoch))
	binary.BigEndian.PutUint32(h[atSequence:], uint32(sequence))
	sum := crc32.Checksum(h[atAttributes:], castagnoli)
	for _, piece := range b.body {
		sum = crc32.Update(sum, castagnoli, piece)
	}
	binary.BigEndian.PutUint32(h[atCRC:], sum)
	return h
}

// batchEncoder writes records one after the other.
type batchEncoder struct {
	now         int64
	first, last int64    // time of the first record, and the latest time of all records
	small       []byte   // parts of records that are copied into the batch
	body        [][]byte // finished pieces of the batch's body: copied parts, and large keys and values in their own memory
}

// ownBytes returns the size of those parts of the records that the encoder copies.
func ownBytes(records []Record) int {
	n := 0
	for i := range records {
		n += records[i].EncodedSize()
		for _, b := range [][]byte{records[i].Key, records[i].Value} {
			if len(b) >= referenced {
				n -= len(b)
			}
		}
	}
	return n
}

func (e *batchEncoder) record(i int, r *Record) {
	at := e.now
	if !r.Time.IsZero() {
		at = r.Time.UnixMilli()
	}
	if i == 0 {
		e.first = at
	}
	e.last = max(e.last, at)
	size := 1 + varintSize(at-e.first) + varintSize(int64(i)) + varbytesSize(r.Key) + varbytesSize(r.Value) +
		varintSize(int64(len(r.Headers)))
	for _, h := range r.Headers {
		size += varintSize(int64(len(h.Key))) + len(h.Key) + varbytesSize(h.Value)
	}
	e.varint(int64(size))
	e.small = append(e.small, 0) // attributes: unused
	e.varint(at - e.first)
	e.varint(int64(i))
	e.varbytes(r.Key)
	e.varbytes(r.Value)
	e.varint(int64(len(r.Headers)))
	for _, h := range r.Headers {
		e.varint(int64(len(h.Key)))
		e.small = append(e.small, h.Key...)
		e.varbytes(h.Value)
	}
}

func (e *batchEncoder) varint(n int64) { e.small = binary.AppendVarint(e.small, n) }

// varbytes writes the length and the bytes; -1 means null.
func (e *batchEncoder) varbytes(b []byte) {
	if b == nil {
		e.varint(-1)
		return
	}
	e.varint(int64(len(b)))
	if len(b) < referenced {
		e.small = append(e.small, b...)
		return
	}
	e.cut()
	e.body = append(e.body, b)
}

// cut ends the current piece of copied bytes, so that the next byte begins a new piece.
func (e *batchEncoder) cut() {
	if len(e.small) == 0 {
		return
	}
	e.body = append(e.body, e.small)
	e.small = e.small[len(e.small):]
}

func varintSize(n int64) int {
	u := uint64(n<<1) ^ uint64(n>>63)
	size := 1
	for ; u >= 1<<7; u >>= 7 {
		size++
	}
	return size
}

func varbytesSize(b []byte) int {
	if b == nil {
		return varintSize(-1)
	}
	return varintSize(int64(len(b))) + len(b)
}

// produceRequest writes Produce requests without a copy of the batch, unlike kafka-go's encoder.
type produceRequest struct {
	tp      TopicPartition
	timeout time.Duration
	head    []byte // header of the batch, made by Signed
	body    *EncodedBatch
}

// Produce returns the request to append a batch to a partition. The parameter head is a header that Signed made. The
// broker answers when all in-sync replicas have the batch, or when timeout has passed.
func Produce(tp TopicPartition, timeout time.Duration, head []byte, body *EncodedBatch) Request[*produce.Response] {
	p := produceRequest{tp, timeout, head, body}
	return Request[*produce.Response]{Key: kafkaprotocol.Produce, Exchange: p.exchange, Throttle: throttleOf}
}

func throttleOf(res *produce.Response) time.Duration {
	return time.Duration(res.ThrottleTimeMs) * time.Millisecond
}

// exchange sends the request and reads the answer.
func (p produceRequest) exchange(rw io.ReadWriter, v Versions) (*produce.Response, error) {
	version := v[kafkaprotocol.Produce]
	if err := p.writeTo(rw, version); err != nil {
		return nil, err
	}
	id, res, err := kafkaprotocol.ReadResponse(rw, kafkaprotocol.Produce, version)
	if err == nil && id != correlation {
		err = fmt.Errorf("answer to request %d, want %d", id, correlation)
	}
	if err != nil {
		return nil, err
	}
	return res.(*produce.Response), nil
}

// Acknowledgement returns the broker's answer for the only partition of a Produce request, and the pause that the
// broker asks for.
func Acknowledgement(res *produce.Response) (produce.ResponsePartition, time.Duration, error) {
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return produce.ResponsePartition{}, 0, errors.New("produce answer without the partition")
	}
	return res.Topics[0].Partitions[0], throttleOf(res), nil
}

// writeTo writes the request in any version from 0 to 8, which differ only in a field for transactions. The request
// asks for acknowledgement by all in-sync replicas.
func (p produceRequest) writeTo(w io.Writer, version int16) error {
	b := make([]byte, 4, 128+len(p.tp.Topic)+atRecords+referenced)
	b = binary.BigEndian.AppendUint16(b, uint16(kafkaprotocol.Produce))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = binary.BigEndian.AppendUint32(b, correlation)
	b = appendString(b, ClientID)
	if version >= 3 {
		b = binary.BigEndian.AppendUint16(b, math.MaxUint16) // no transaction
	}
	b = binary.BigEndian.AppendUint16(b, math.MaxUint16) // acks: all
	b = binary.BigEndian.AppendUint32(b, uint32(p.timeout.Milliseconds()))
	b = binary.BigEndian.AppendUint32(b, 1)
	b = appendString(b, p.tp.Topic)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(p.tp.Partition))
	b = binary.BigEndian.AppendUint32(b, uint32(len(p.head)+p.body.size))
	b = append(b, p.head...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4+p.body.size))
	pieces := p.body.body
	if len(pieces[0]) <= referenced { // a small batch is written together with the request's first bytes, in one packet
		b, pieces = append(b, pieces[0]...), pieces[1:]
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	for _, piece := range pieces {
		if _, err := w.Write(piece); err != nil {
			return err
		}
	}
	return nil
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}
