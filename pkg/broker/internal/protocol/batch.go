package protocol

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Positions of fields in a record batch of format 2. Package protocol does not use kafka-go's decoder, because that
// decoder hides the batch's last offset (needed to skip a batch that compaction emptied), allocates a page of 64 KiB
// for each batch however small, drops the whole response for one bad checksum, and holds a decompressed batch
// completely in memory.
const (
	batchPrefix  = 12 // number of bytes of the base offset and the length together
	atMagic      = 16
	atCRC        = 17
	atAttributes = 21
	atLastDelta  = 23
	atFirstTime  = 27
	atMaxTime    = 35
	atProducerID = 43
	atEpoch      = 51
	atSequence   = 53
	atCount      = 57
	atRecords    = 61

	// BatchOverhead is an upper limit for the size of a batch without its records, for estimates of a batch's size.
	BatchOverhead = batchPrefix + atRecords
)

const (
	attrLogAppendTime = 1 << 3
	attrTransactional = 1 << 4
	attrControl       = 1 << 5
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch is one batch of a log whose header was checked and whose records are not read yet.
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

// first returns the batch's first offset, 0 when it is not known.
func (b batch) first() int64 {
	if b.legacy {
		return 0
	}
	return b.base
}

// nextBatch cuts the first batch off data and checks it. An answer may end in the middle of a batch: ok is then
// false, and the batch must be fetched again. A corrupt batch's header is returned with the error.
func nextBatch(data []byte) (b batch, rest []byte, ok bool, err error) {
	if len(data) <= atMagic {
		return batch{}, nil, false, nil
	}
	b.base = int64(binary.BigEndian.Uint64(data))
	b.last = b.base
	length := int64(int32(binary.BigEndian.Uint32(data[8:])))
	if length < atMagic+1-batchPrefix {
		return b, nil, false, fmt.Errorf("a batch claims a length of %d", length)
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
		return fmt.Errorf("format %d, %d bytes", raw[atMagic], len(raw))
	}
	want := binary.BigEndian.Uint32(raw[atCRC:])
	if got := crc32.Checksum(raw[atAttributes:], castagnoli); got != want {
		return fmt.Errorf("the checksum is %08x, not %08x", got, want)
	}
	b.attributes = int16(binary.BigEndian.Uint16(raw[atAttributes:]))
	b.last = b.base + int64(int32(binary.BigEndian.Uint32(raw[atLastDelta:])))
	b.producer = int64(binary.BigEndian.Uint64(raw[atProducerID:]))
	b.count = int(int32(binary.BigEndian.Uint32(raw[atCount:])))
	if b.last < b.base || b.count < 0 {
		return fmt.Errorf("offsets %d to %d, %d records", b.base, b.last, b.count)
	}
	return nil
}
