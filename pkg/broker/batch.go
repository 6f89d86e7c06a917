package broker

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/segmentio/kafka-go/protocol"
)

// Where things are in a record batch of format 2. Batches are read here and
// not by kafka-go's decoder, because that one does not tell the batch's last
// offset (so nobody could step over a batch that compaction emptied), takes a
// page of 64 KiB for each batch however small, and gives up the whole response
// for one bad checksum.
const (
	batchPrefix    = 12 // base offset and length
	atMagic        = 16
	atCRC          = 17
	atAttributes   = 21
	atLastDelta    = 23
	atFirstTime    = 27
	atMaxTime      = 35
	atProducerID   = 43
	atEpoch        = 51
	atSequence     = 53
	atCount        = 57
	atRecords      = 61
	minRecordBytes = 7
	// maxInflated bounds what one compressed batch may grow to.
	maxInflated = 512 << 20
)

const (
	attrLogAppendTime = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one checked entry of a log, its records not yet read.
type batch struct {
	base       int64
	last       int64
	attributes int16
	producer   int64
	count      int
	raw        []byte
	legacy     bool // format 0 or 1
}

func (b batch) control() bool       { return b.attributes&attrControl != 0 }
func (b batch) transactional() bool { return b.attributes&attrTransactional != 0 }
func (b batch) compressed() bool    { return b.attributes&7 != 0 }

// nextBatch cuts the first batch off data and checks it. A broker may end its
// answer in the middle of one: ok is then false and the rest is to be fetched.
// For a corrupt batch the header is returned beside the error.
func nextBatch(data []byte) (b batch, rest []byte, ok bool, err error) {
	if len(data) <= atMagic {
		return batch{}, nil, false, nil
	}
	b.base = int64(binary.BigEndian.Uint64(data))
	b.last = b.base
	length := int64(int32(binary.BigEndian.Uint32(data[8:])))
	if length < atMagic+1-batchPrefix {
		return b, nil, false, fmt.Errorf("%w at offset %d: length %d", ErrCorrupt, b.base, length)
	}
	if length > int64(len(data)-batchPrefix) {
		return batch{}, nil, false, nil
	}
	b.raw, rest = data[:batchPrefix+length], data[batchPrefix+length:]
	if b.raw[atMagic] < 2 {
		b.legacy, b.producer = true, -1
		return b, rest, true, nil
	}
	return b, rest, true, b.readHeader()
}

func (b *batch) readHeader() error {
	raw := b.raw
	if len(raw) < atRecords || raw[atMagic] != 2 {
		return fmt.Errorf("%w at offset %d: format %d, %d bytes", ErrCorrupt, b.base, raw[atMagic], len(raw))
	}
	want := binary.BigEndian.Uint32(raw[atCRC:])
	if got := crc32.Checksum(raw[atAttributes:], castagnoli); got != want {
		return fmt.Errorf("%w at offset %d: checksum %08x, want %08x", ErrCorrupt, b.base, got, want)
	}
	b.attributes = int16(binary.BigEndian.Uint16(raw[atAttributes:]))
	b.last = b.base + int64(int32(binary.BigEndian.Uint32(raw[atLastDelta:])))
	b.producer = int64(binary.BigEndian.Uint64(raw[atProducerID:]))
	b.count = int(int32(binary.BigEndian.Uint32(raw[atCount:])))
	return nil
}

// records returns the bytes that hold the batch's records. Those of a
// compressed batch are new memory, the others are the response's own.
func (b batch) records() ([]byte, error) {
	body := b.raw[atRecords:]
	if !b.compressed() {
		return body, nil
	}
	codec := compress.Compression(b.attributes & 7).Codec()
	if codec == nil {
		return nil, fmt.Errorf("%w at offset %d: unknown codec %d", ErrCorrupt, b.base, b.attributes&7)
	}
	r := codec.NewReader(bytes.NewReader(body))
	defer r.Close()
	var out bytes.Buffer
	out.Grow(4 * len(body))
	n, err := io.Copy(&out, io.LimitReader(r, maxInflated+1))
	if err == nil && n > maxInflated {
		err = fmt.Errorf("more than %d bytes", maxInflated)
	}
	if err != nil {
		return nil, fmt.Errorf("%w at offset %d: decompress: %w", ErrCorrupt, b.base, err)
	}
	return out.Bytes(), nil
}

// appendTo reads the batch's records from an offset on and appends them to dst,
// whose earlier records stay whatever happens. inflated is the memory that
// decompression took.
func (b batch) appendTo(dst []Record, tp TopicPartition, from int64, shared *shared) (out []Record, inflated int, err error) {
	if b.legacy {
		out, err = b.appendLegacy(dst, tp, from)
		return out, len(b.raw), err
	}
	body, err := b.records()
	if err != nil {
		return dst, 0, err
	}
	if b.compressed() {
		inflated = cap(body)
	}
	p := recordParser{batch: b, tp: tp, shared: shared, body: wire{b: body}}
	p.firstTime = int64(binary.BigEndian.Uint64(b.raw[atFirstTime:]))
	p.maxTime = int64(binary.BigEndian.Uint64(b.raw[atMaxTime:]))
	out = slices.Grow(dst, max(0, min(b.count, len(body)/minRecordBytes)))
	for range b.count {
		rec := p.next()
		if p.body.err != nil {
			return dst, inflated, fmt.Errorf("%w at offset %d: %w", ErrCorrupt, b.base, p.body.err)
		}
		if rec.Offset >= from {
			out = append(out, rec)
		}
	}
	return out, inflated, nil
}

// recordParser walks over the records of one batch.
type recordParser struct {
	batch     batch
	tp        TopicPartition
	firstTime int64
	maxTime   int64
	shared    *shared
	body      wire
}

func (p *recordParser) next() Record {
	size := p.body.varint()
	if size < 0 || size > int64(len(p.body.b)) {
		p.body.err = errShort
		return Record{}
	}
	w := wire{b: p.body.take(int(size)), err: p.body.err}
	w.int8() // attributes: unused
	stamp := p.firstTime + w.varint()
	if p.batch.attributes&attrLogAppendTime != 0 {
		stamp = p.maxTime
	}
	rec := Record{
		TopicPartition: p.tp,
		Offset:         p.batch.base + w.varint(),
		Key:            w.varbytes(),
		Value:          w.varbytes(),
	}
	rec.Time, rec.RawTime = timeOf(stamp)
	rec.Headers = p.readHeaders(&w)
	p.body.err = w.err
	return rec
}

func (p *recordParser) readHeaders(w *wire) []Header {
	n := w.varint()
	if n < 0 || n > int64(len(w.b)/2) {
		w.err = cmp.Or(w.err, errShort)
		return nil
	}
	headers := p.shared.room(int(n))
	for i := range headers {
		headers[i] = Header{Key: p.shared.text(w.varbytes()), Value: w.varbytes()}
	}
	return headers
}

// shared is memory that the records of one partition's answer have in common.
type shared struct {
	names   map[string]string // one string for each header key: they repeat
	headers []Header          // the free rest of a block
	given   int               // headers handed out
}

const (
	// maxNames ends the sharing for producers that make a new key each time.
	maxNames = 1024
	// headerBlock is how many headers are allocated together.
	headerBlock = 256
)

func newShared() *shared { return &shared{names: map[string]string{}} }

func (s *shared) text(b []byte) string {
	if name, ok := s.names[string(b)]; ok {
		return name
	}
	name := string(b)
	if len(s.names) < maxNames {
		s.names[name] = name
	}
	return name
}

// room returns n headers to fill, nil for none.
func (s *shared) room(n int) []Header {
	if n == 0 {
		return nil
	}
	if n > len(s.headers) {
		s.headers = make([]Header, max(n, headerBlock))
	}
	out := s.headers[:n:n]
	s.headers = s.headers[n:]
	s.given += n
	return out
}

// lastMilli is the end of the year 9999: RFC 3339 has no later years.
const lastMilli = 253402300799999

// timeOf returns a record's timestamp as a time, or as a number when it lies outside
// the years 1970 to 9999.
func timeOf(milliseconds int64) (at time.Time, raw int64) {
	if milliseconds < 0 || milliseconds > lastMilli {
		return time.Time{}, milliseconds
	}
	return time.UnixMilli(milliseconds).UTC(), 0
}

// abortMarker tells whether a control batch ends a transaction without effect.
func (b batch) abortMarker() bool {
	p := recordParser{batch: b, shared: newShared(), body: wire{b: b.raw[atRecords:]}}
	key := wire{b: p.next().Key}
	key.int16() // version
	kind := key.int16()
	return p.body.err == nil && key.err == nil && kind == 0
}

// appendLegacy reads formats 0 and 1, which brokers still hold in old logs, by
// kafka-go's decoder: rare enough not to care about its cost.
func (b *batch) appendLegacy(dst []Record, tp TopicPartition, from int64) ([]Record, error) {
	framed := binary.BigEndian.AppendUint32(nil, uint32(len(b.raw)))
	var set protocol.RecordSet
	if _, err := set.ReadFrom(bufio.NewReader(bytes.NewReader(append(framed, b.raw...)))); err != nil {
		return dst, fmt.Errorf("%w at offset %d: %w", ErrCorrupt, b.base, err)
	}
	for set.Records != nil {
		r, err := set.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return dst, fmt.Errorf("%w at offset %d: %w", ErrCorrupt, b.base, err)
		}
		rec, err := copyRecord(tp, r)
		if err != nil {
			return dst, fmt.Errorf("%w at offset %d: %w", ErrCorrupt, b.base, err)
		}
		if rec.Offset >= from {
			dst = append(dst, rec)
		}
	}
	return dst, nil
}

func copyRecord(tp TopicPartition, r *protocol.Record) (Record, error) {
	key, keyErr := readBytes(r.Key)
	value, valueErr := readBytes(r.Value)
	rec := Record{TopicPartition: tp, Offset: r.Offset, Key: key, Value: value}
	rec.Time, rec.RawTime = timeOf(r.Time.UnixMilli())
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, Header(h))
	}
	return rec, errors.Join(keyErr, valueErr)
}

// readBytes copies b and gives its page back to kafka-go's pool.
func readBytes(b protocol.Bytes) ([]byte, error) {
	if b == nil {
		return nil, nil
	}
	defer b.Close()
	return protocol.ReadAll(b)
}

// abortedTransaction is what a broker says of a transaction without effect:
// its producer, and the offset of its first record.
type abortedTransaction struct {
	producer int64
	first    int64
}

// transactions decides which batches of one partition's answer count. Batches
// must be shown to it in the order of the log.
type transactions struct {
	aborted []abortedTransaction // by first offset
	open    map[int64]bool       // producers inside an aborted transaction
}

func newTransactions(aborted []abortedTransaction) *transactions {
	slices.SortFunc(aborted, func(a, b abortedTransaction) int {
		return int(min(max(a.first-b.first, -1), 1))
	})
	return &transactions{aborted: aborted, open: map[int64]bool{}}
}

// counts tells whether the records of b are messages: no control batch is, and
// no batch of a transaction that the broker listed as aborted.
func (t *transactions) counts(b batch) bool {
	for len(t.aborted) > 0 && t.aborted[0].first <= b.last {
		t.open[t.aborted[0].producer] = true
		t.aborted = t.aborted[1:]
	}
	if b.control() {
		if t.open[b.producer] && b.abortMarker() {
			delete(t.open, b.producer)
		}
		return false
	}
	return !(b.transactional() && t.open[b.producer])
}
