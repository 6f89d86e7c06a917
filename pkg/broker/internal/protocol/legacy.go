package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/inflate"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Positions in an entry of formats 0 and 1 (brokers before 4): a record, or a compressed list of records.
const (
	atLegacyCRC        = 12
	atLegacyAttributes = 17
	legacyHead         = 18
	legacyMin          = legacyHead + 4 + 4
)

var errNested = errors.New("a compressed record inside a compressed list")

// legacyReader reads one entry of format 0 or 1.
type legacyReader struct {
	opened
	wrapped bool
	add     int64 // difference between a record's offset in the log and its offset inside the compressed list
	last    int64 // offset of the previous record
	stamp   int64 // time of all records, set by the broker; valid only when stamped is true
	stamped bool
}

func openLegacy(o opened, inflater *inflate.Inflater, memory *MemoryReservation) (recordReader, error) {
	raw := o.raw
	if want := binary.BigEndian.Uint32(raw[atLegacyCRC:]); len(raw) < legacyMin || crc32.ChecksumIEEE(raw[atMagic:]) != want {
		return nil, errors.New("the checksum does not match")
	}
	r := &legacyReader{opened: o, last: -1}
	codec := int(raw[atLegacyAttributes] & 7)
	if codec == inflate.None {
		return r, r.inflate(nil, inflate.None, raw, memory)
	}
	r.wrapped = true
	list := wire{b: raw[legacyHead:]}
	if o.magic == 1 {
		r.stamped = raw[atLegacyAttributes]&attrLogAppendTime != 0
		r.stamp = int64(binary.BigEndian.Uint64(list.take(8)))
	}
	list.take(max(0, int(list.int32()))) // the key
	body := list.take(int(list.int32()))
	if list.err != nil {
		return nil, list.err
	}
	if o.magic == 1 {
		// Offsets inside the list are relative to its first record. The entry's own offset is the absolute offset of the last
		// record.
		last, err := r.lastOffset(inflater, codec, body, memory)
		if err != nil {
			return nil, err
		}
		r.add = o.base - last
	}
	return r, r.inflate(inflater, codec, body, memory)
}

// lastOffset inflates the list once to find the offset that its last record declares.
func (r *legacyReader) lastOffset(inflater *inflate.Inflater, codec int, body []byte, memory *MemoryReservation) (last int64, err error) {
	if err := r.inflate(inflater, codec, body, memory); err != nil {
		return 0, err
	}
	for {
		p, offset, err := r.entry()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return 0, err
		}
		last = offset
		if p.skip(p.left, nil); r.src.err != nil {
			return 0, r.src.err
		}
	}
}

// entry reads the offset and the size of the next record, and returns the source of the record's bytes with the
// offset.
func (r *legacyReader) entry() (*part, int64, error) {
	if !r.src.fill(1) && r.src.err == nil {
		return nil, 0, io.EOF
	}
	p := &part{source: &r.src, left: batchPrefix}
	offset := int64(binary.BigEndian.Uint64(p.take(8)))
	size := int32(binary.BigEndian.Uint32(p.take(4)))
	p.left = int64(size)
	p.need(legacyMin - batchPrefix)
	return p, offset, r.src.err
}

func (r *legacyReader) next(from int64) (Record, error) {
	for {
		p, offset, err := r.entry()
		if err != nil {
			return Record{}, err
		}
		rec := Record{TopicPartition: r.tp, Offset: offset + r.add}
		if rec.Offset <= r.last || rec.Offset > r.base {
			return Record{}, fmt.Errorf("a record claims offset %d after %d", rec.Offset, r.last)
		}
		r.last = rec.Offset
		r.read(&rec, p, from)
		if r.src.err != nil {
			return Record{}, r.src.err
		}
		if rec.Offset >= from {
			return rec, nil
		}
	}
}

func (r *legacyReader) read(rec *Record, p *part, from int64) {
	p.take(4) // the record's checksum, which needs no check: the checksum of the whole entry was right
	magic, attributes := p.take(1)[0], p.take(1)[0]
	switch {
	case p.err != nil:
		return
	case magic > 1:
		p.fail(fmt.Errorf("format %d inside format %d", magic, r.magic))
	case attributes&7 != 0 && r.wrapped:
		p.fail(errNested)
	}
	rec.RawTime = -1 // the record has no timestamp
	if magic == 1 {
		rec.Time, rec.RawTime = entity.RecordTime(int64(binary.BigEndian.Uint64(p.take(8))))
	}
	if r.stamped {
		rec.Time, rec.RawTime = entity.RecordTime(r.stamp)
	}
	if rec.Offset >= from && r.only == nil {
		r.body(rec, p, (*part).length32)
	}
	if p.err == nil {
		p.skip(p.left, nil)
	}
}

// length32 reads a length of four bytes; -1 is the length of null.
func (p *part) length32() int64 {
	n := int64(int32(binary.BigEndian.Uint32(p.take(4))))
	if n < 0 {
		return -1
	}
	p.need(n)
	return n
}
