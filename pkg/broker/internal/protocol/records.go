package protocol

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/inflate"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// recordReader reads the records of one batch, or of one entry of formats 0 and 1.
type recordReader interface {
	// next returns the next record at or after an offset, or io.EOF. After any other error, no further record can be
	// read.
	next(from int64) (Record, error)
	// use replaces the reservation from which memory is taken.
	use(memory *MemoryReservation)
}

// opened holds the common state of a batch whose records are read.
type opened struct {
	batch
	tp     TopicPartition
	magic  byte
	names  *shared
	limits Limits
	only   *string // name of the only header to read; then key and value are not read either; nil: everything is read
	src    source
}

// openRecords starts reading the records of a batch.
func openRecords(o opened, inflater *inflate.Inflater, memory *MemoryReservation) (recordReader, error) {
	o.magic = o.raw[atMagic]
	if o.legacy {
		return openLegacy(o, inflater, memory)
	}
	if err := o.inflate(inflater, int(o.attributes&7), o.raw[atRecords:], memory); err != nil {
		return nil, err
	}
	r := &batchReader{opened: o, left: o.count, last: o.base - 1}
	r.firstTime = int64(binary.BigEndian.Uint64(o.raw[atFirstTime:]))
	r.maxTime = int64(binary.BigEndian.Uint64(o.raw[atMaxTime:]))
	return r, nil
}

func (o *opened) inflate(i *inflate.Inflater, codec int, body []byte, memory *MemoryReservation) (err error) {
	o.src = source{memory: memory, most: noLimit}
	if codec == inflate.None {
		o.src.b = body
		return nil
	}
	o.src.most, o.src.over = o.limits.BatchBytes, errBatchLimit
	if share := memory.bound - memory.taken; memory.bound > 0 && share < o.src.most {
		o.src.most, o.src.over = share, errHeavy
	}
	o.src.size = min(blockBytes, max(1<<10, 4*len(body)))
	o.src.spare = i.Scratch()
	if o.src.r, err = i.Open(codec, body, o.magic); err != nil {
		return fmt.Errorf("decompress: %w", err)
	}
	return nil
}

func (o *opened) use(memory *MemoryReservation) { o.src.memory = memory }

// batchReader reads a batch of format 2.
type batchReader struct {
	opened
	firstTime, maxTime int64
	left               int
	last               int64 // offset of the previous record
}

func (r *batchReader) next(from int64) (Record, error) {
	for r.left > 0 {
		r.left--
		size := r.src.varint()
		if size < 0 || r.src.r == nil && size > int64(len(r.src.b)) {
			r.src.fail(errShort)
		}
		var rec Record
		switch {
		case r.src.err != nil:
		case r.src.r == nil || size <= blockBytes && r.src.fill(int(size)):
			// The source may have ended early, so its buffer may contain fewer than size bytes.
			n := min(size, int64(len(r.src.b)))
			rec = r.whole(r.src.b[:n], from)
			r.src.b = r.src.b[n:]
		default:
			rec = r.piecewise(size, from)
		}
		if r.src.err != nil {
			return Record{}, r.src.err
		}
		if rec.Offset >= from {
			return rec, nil
		}
	}
	return Record{}, io.EOF
}

// place sets the offset and the time of a record of the batch.
func (r *batchReader) place(rec *Record, timeDelta, offsetDelta int64) {
	stamp := r.firstTime + timeDelta
	if r.attributes&attrLogAppendTime != 0 {
		stamp = r.maxTime
	}
	rec.TopicPartition, rec.Offset = r.tp, r.base+offsetDelta
	rec.Time, rec.RawTime = entity.RecordTime(stamp)
	if r.src.err == nil && (rec.Offset <= r.last || rec.Offset > r.batch.last) {
		r.src.fail(fmt.Errorf("a record claims offset %d after %d", rec.Offset, r.last))
	}
	r.last = rec.Offset
}

// whole reads a record from body, which contains all bytes of the record. The record refers to the memory of body.
func (r *batchReader) whole(body []byte, from int64) (rec Record) {
	w := wire{b: body, err: r.src.err}
	w.int8() // attributes: unused
	timeDelta, offsetDelta := w.varint(), w.varint()
	if r.src.err = w.err; w.err != nil {
		return rec
	}
	if r.place(&rec, timeDelta, offsetDelta); r.src.err != nil || rec.Offset < from {
		return rec
	}
	rec.Key, rec.Value = w.varbytes(), w.varbytes()
	r.wholeHeaders(&rec, &w)
	if r.src.err == nil {
		r.src.err = w.err
	}
	r.src.shared = r.src.shared || r.only == nil
	if r.only != nil {
		rec.Key, rec.Value = nil, nil
	} else {
		r.limit(&rec)
	}
	return rec
}

func (r *batchReader) wholeHeaders(rec *Record, w *wire) {
	n := w.varint()
	if n < 0 || n > int64(len(w.b)/2) {
		w.err = cmp.Or(w.err, errShort)
	}
	if w.err != nil || n == 0 {
		return
	}
	if r.only != nil {
		for range n {
			if key, value := w.varbytes(), w.varbytes(); string(key) == *r.only && rec.Headers == nil && len(value) <= maxWanted {
				if err := r.src.memory.take(HeaderMemory + len(value)); err != nil {
					r.src.fail(err)
					return
				}
				rec.Headers = []entity.Header{{Key: *r.only, Value: bytes.Clone(value)}}
			}
		}
		return
	}
	keep := int(min(n, int64(r.limits.Headers)))
	headers, err := r.names.newHeaders(keep, r.src.memory)
	if err != nil {
		r.src.fail(err)
		return
	}
	size := int64(0)
	for i := range headers {
		key, value := w.varbytes(), w.varbytes()
		if size += int64(len(key) + len(value)); size > r.limits.HeaderBytes {
			rec.over(LimitHeaderBytes).HeadersOmitted = true
			headers = headers[:i:i]
			break
		}
		if headers[i].Key, err = r.names.text(key, r.src.memory); err != nil {
			r.src.fail(err)
			return
		}
		headers[i].Value = value
	}
	for range int(n) - len(headers) - btoi(len(headers) < keep) {
		w.varbytes()
		w.varbytes()
	}
	if keep < int(n) {
		rec.over(LimitHeaders).HeadersOmitted = true
	}
	rec.Headers = headers
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// limit removes the parts of a record that exceed its limits, and describes the value of a record that exceeds any
// limit.
func (o *opened) limit(rec *Record) {
	size := int64(len(rec.Key) + len(rec.Value))
	if size <= o.limits.RecordBytes && rec.Defect == nil {
		return
	}
	d := rec.over(LimitRecordBytes) // keeps the limit of an existing defect, such as a limit of headers
	d.Size, d.SHA256 = int64(len(rec.Value)), sha256.Sum256(rec.Value)
	if int64(len(rec.Key)) > o.limits.RecordBytes {
		rec.Key, d.KeyOmitted = nil, true
	}
	if int64(len(rec.Key)+len(rec.Value)) > o.limits.RecordBytes {
		rec.Value, d.ValueOmitted = nil, true
	}
}

// maxWanted is the size in bytes of the largest header value that is kept when only one header is requested; a header
// with a larger value is ignored.
const maxWanted = 1 << 10

// piecewise reads a record that is not completely in memory. The parts of the record that are kept have memory of their
// own.
func (r *batchReader) piecewise(size, from int64) (rec Record) {
	p := &part{source: &r.src, left: size}
	p.skip(1, nil)
	timeDelta, offsetDelta := p.varint(), p.varint()
	if r.src.err != nil {
		return rec
	}
	if r.place(&rec, timeDelta, offsetDelta); r.src.err != nil || rec.Offset < from {
		p.skip(p.left, nil)
		return rec
	}
	if r.only != nil {
		p.skip(max(0, p.length()), nil)
		p.skip(max(0, p.length()), nil)
	} else {
		r.body(&rec, p, (*part).length)
	}
	n := p.varint()
	if n < 0 || n > p.left/2 {
		p.fail(errShort)
	}
	r.headers(&rec, p, n)
	if r.src.err == nil && p.left > 0 {
		p.skip(p.left, nil)
	}
	return rec
}

// body reads the key and the value of a record, and leaves out each of them that exceeds the limit of the record's
// size.
func (o *opened) body(rec *Record, p *part, length func(*part) int64) {
	n, free := length(p), o.limits.RecordBytes
	switch {
	case n < 0 || p.err != nil:
	case n <= free:
		rec.Key = p.bytes(n)
		free -= n
	default:
		rec.over(LimitRecordBytes).KeyOmitted = true
		p.skip(n, nil)
	}
	n = length(p)
	switch {
	case n < 0 || p.err != nil:
	case n <= free:
		rec.Value = p.bytes(n)
	default:
		sum := sha256.New()
		p.skip(n, sum)
		d := rec.over(LimitRecordBytes)
		d.ValueOmitted, d.Size = true, n
		sum.Sum(d.SHA256[:0])
	}
	if d := rec.Defect; d != nil && !d.ValueOmitted {
		d.Size, d.SHA256 = int64(len(rec.Value)), sha256.Sum256(rec.Value)
	}
}

// headers reads n headers, and keeps those within the limits.
func (r *batchReader) headers(rec *Record, p *part, n int64) {
	size := int64(0)
	limit := ""
	for i := int64(0); i < n && p.err == nil; i++ {
		key := p.length()
		if r.only != nil {
			r.wanted(rec, p, key)
			continue
		}
		if i == int64(r.limits.Headers) {
			limit = cmp.Or(limit, LimitHeaders)
		}
		if size += max(0, key); size > r.limits.HeaderBytes {
			limit = cmp.Or(limit, LimitHeaderBytes)
		}
		if limit != "" {
			p.skip(max(0, key), nil)
			p.skip(max(0, p.length()), nil)
			continue
		}
		name := r.ownBytes(p, key)
		value := p.length()
		if size += max(0, value); size > r.limits.HeaderBytes {
			limit = LimitHeaderBytes
			p.skip(max(0, value), nil)
			continue
		}
		h := entity.Header{Value: r.ownBytes(p, value)}
		if p.err == nil && len(rec.Headers) == cap(rec.Headers) {
			more := max(16, len(rec.Headers))
			if err := r.src.memory.take(HeaderMemory * more); err != nil {
				p.fail(err)
				return
			}
			rec.Headers = slices.Grow(rec.Headers, more)
		}
		var err error
		if h.Key, err = r.names.text(name, r.src.memory); err != nil {
			p.fail(err)
			return
		}
		rec.Headers = append(rec.Headers, h)
	}
	if limit == "" || p.err != nil {
		return
	}
	hadDefect := rec.Defect != nil
	d := rec.over(limit)
	d.Limit, d.HeadersOmitted = limit, true
	if !hadDefect {
		d.Size, d.SHA256 = int64(len(rec.Value)), sha256.Sum256(rec.Value)
	}
}

// ownBytes reads the next n bytes of the record into new memory; it returns nil for a negative n.
func (r *batchReader) ownBytes(p *part, n int64) []byte {
	if n < 0 || p.err != nil {
		return nil
	}
	return p.bytes(n)
}

// wanted reads a header whose name has n bytes. It keeps the header only if its name is the requested name.
func (r *batchReader) wanted(rec *Record, p *part, n int64) {
	if n != int64(len(*r.only)) {
		p.skip(max(0, n), nil)
		p.skip(max(0, p.length()), nil)
		return
	}
	name := p.bytes(n)
	size := p.length()
	if string(name) != *r.only || rec.Headers != nil || size > maxWanted {
		p.skip(max(0, size), nil)
		return
	}
	if err := r.src.memory.take(HeaderMemory); err != nil {
		p.fail(err)
		return
	}
	rec.Headers = []entity.Header{{Key: *r.only, Value: r.ownBytes(p, size)}}
}

// shared is memory that the records of one partition's answer share.
type shared struct {
	names   map[string]string // one string for each header name, because names repeat
	headers []entity.Header   // headers of the current block that are not used yet
}

const (
	// maxNames and maxName limit the shared names, which live as long as the cursor.
	maxNames    = 1024
	maxName     = 128
	headerBlock = 256 // number of headers that are allocated together as one block
)

func newShared() *shared { return &shared{names: map[string]string{}} }

// text returns a name: a shared copy with reserved memory, or a string that refers to the bytes b, which must not
// change.
func (s *shared) text(b []byte, memory *MemoryReservation) (string, error) {
	if name, ok := s.names[string(b)]; ok {
		return name, nil
	}
	if len(b) > maxName || len(s.names) >= maxNames {
		return unsafe.String(unsafe.SliceData(b), len(b)), nil //nolint:gosec // the bytes do not change
	}
	if err := memory.take(len(b)); err != nil {
		return "", err
	}
	name := string(b)
	s.names[name] = name
	return name, nil
}

// newHeaders returns n empty headers, nil for none.
func (s *shared) newHeaders(n int, memory *MemoryReservation) ([]entity.Header, error) {
	if n == 0 {
		return nil, nil
	}
	if n > len(s.headers) {
		size := max(n, headerBlock)
		if err := memory.take(size * HeaderMemory); err != nil {
			return nil, err
		}
		s.headers = make([]entity.Header, size)
	}
	out := s.headers[:n:n]
	s.headers = s.headers[n:]
	return out, nil
}
