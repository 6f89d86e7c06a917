package protocol

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/inflate"
)

// Cursor reads a broker's answer for one partition as a stream, in portions. It keeps the compressed bytes and a
// decoder of up to 20 MB in memory, however large the decompressed bytes are. It is not safe for concurrent use.
type Cursor struct {
	tp             TopicPartition
	data           []byte // batches that are not read yet
	size           int    // size in bytes of data before the first batch was read
	txns           *transactions
	names          *shared
	limits         Limits
	only           *string
	inflater       *inflate.Inflater
	high           int64 // high watermark of the partition; -1 when it is not known
	skipUnreadable bool  // unreadable offsets become placeholders

	next   int64 // offset at which the next portion of records begins
	batch  batch
	reader recordReader // reads the records of batch; nil between batches
}

func newCursor(tp TopicPartition, data []byte, aborted []abortedTransaction, from int64) *Cursor {
	return &Cursor{
		tp: tp, data: data, size: len(data), txns: newTransactions(aborted), names: newShared(), limits: DefaultLimits(), high: -1, next: from,
	}
}

// Read returns the next records, up to about portion bytes, or all remaining records. Next is the offset to continue
// from, and the result done means that the cursor is at its end. A batch that cannot be read has placeholders (see
// Defect), or p.Err says why it cannot be read; see SkipUnreadable. An error means that memory is used up, or that its
// field Done was closed. The records that were read before the error are returned too, and the cursor must not be used
// again.
func (c *Cursor) Read(memory *MemoryReservation, portion int64) (p FetchedPartition, done bool, err error) {
	p = FetchedPartition{TopicPartition: c.tp, Next: c.next, HighWatermark: c.high, LastStable: -1, LogStart: -1}
	memory.taken = 0
	c.names.headers = nil // so that no block contains headers of two portions; it would keep the first portion in memory
	if c.reader != nil {
		c.reader.use(memory)
	}
	for memory.taken < portion {
		if err = c.step(&p, memory, portion); err != nil {
			break
		}
	}
	c.next = p.Next
	if errors.Is(err, io.EOF) {
		return p, true, nil
	}
	return p, false, err
}

// ReadWithin does the same as Read, with a limit on the memory of the whole answer; it ends when ctx ends.
func (c *Cursor) ReadWithin(ctx context.Context, memory, portion int64) (p FetchedPartition, done bool, err error) {
	p, done, err = c.Read(&MemoryReservation{Free: memory - int64(c.size), Done: ctx.Done()}, portion)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, errNoMemory):
		err = fmt.Errorf("%w: it takes more than %d bytes", ErrTooLarge, memory)
	}
	return p, done, cmp.Or(err, p.Err)
}

// KeepOnly limits what is decoded: records then have only their offset, their time and the first header whose name is
// the parameter header and whose value has at most 1 KiB.
func (c *Cursor) KeepOnly(header string) { c.only = &header }

// Mark returns the latest time in milliseconds and the checksum of the next batch to read; found is false when that
// batch cannot be read or does not contain offset.
func (c *Cursor) Mark(offset int64) (latest int64, crc uint32, found bool) {
	b, _, whole, err := nextBatch(c.data)
	switch {
	case err != nil || !whole || b.last < offset || !b.legacy && b.base > offset:
		return 0, 0, false
	case b.legacy:
		return 0, binary.BigEndian.Uint32(b.raw[atLegacyCRC:]), true
	}
	return int64(binary.BigEndian.Uint64(b.raw[atMaxTime:])), binary.BigEndian.Uint32(b.raw[atCRC:]), true
}

// step reads records of the present batch, or of the next one, until memory.taken reaches portion. io.EOF means that no
// whole batch is left, or that p.Err says why the next batch cannot be read.
func (c *Cursor) step(p *FetchedPartition, memory *MemoryReservation, portion int64) error {
	if c.reader == nil {
		if ok, err := c.nextBatch(p, memory); !ok {
			return err
		}
	}
	for memory.taken < portion {
		rec, err := c.reader.next(p.Next)
		switch {
		case err == nil:
			if err := push(p, rec, c.batch.count, memory); err != nil {
				return err
			}
			p.Next = rec.Offset + 1
		case errors.Is(err, io.EOF):
			p.Next = max(p.Next, c.batch.last+1)
			c.reader = nil
			return nil
		case errors.Is(err, errNoMemory), errors.Is(err, errHeavy):
			return err
		default:
			c.reader = nil
			return c.broken(p, p.Next, c.batch.last, err, memory)
		}
	}
	return nil
}

// push adds a record to the portion p.
func push(p *FetchedPartition, rec Record, expected int, memory *MemoryReservation) error {
	if rec.Defect != nil {
		if err := memory.take(defectMemory); err != nil {
			return err
		}
	}
	if have := len(p.Records); have == cap(p.Records) {
		more := max(have, min(expected, 1024), 1)
		if err := memory.take(more * recordMemory); err != nil {
			return err
		}
		p.Records = slices.Grow(p.Records, more)
	}
	p.Records = append(p.Records, rec)
	return nil
}

// nextBatch opens the next batch. It returns false when the batch has no records to read, and io.EOF after the last
// batch.
func (c *Cursor) nextBatch(p *FetchedPartition, memory *MemoryReservation) (ok bool, err error) {
	b, rest, whole, err := nextBatch(c.data)
	if err != nil {
		from, last := c.claimed(b, rest, p.Next)
		c.data = rest
		return false, c.broken(p, from, last, err, memory)
	}
	if !whole {
		return false, io.EOF
	}
	c.data, c.batch = rest, b
	if !b.legacy && !c.txns.counts(b) {
		// A control batch has one record. If the header of a control batch declares more offsets, the offsets after the first
		// have no record.
		from := max(b.base, p.Next)
		for at := from; b.control() && at <= b.last && at-from < maxPlaceholders; at++ {
			if err := memory.take(recordMemory); err != nil { // p.controls needs memory for each offset
				return false, err
			}
			p.controls = append(p.controls, at)
		}
		p.Next = max(p.Next, b.last+1)
		return false, nil
	}
	if c.reader, err = c.open(b, memory); err == nil {
		return true, nil
	}
	c.reader = nil
	if errors.Is(err, errNoMemory) || errors.Is(err, errHeavy) {
		return false, err
	}
	return false, c.broken(p, max(p.Next, b.first()), b.last, err, memory)
}

// open starts reading the records of the batch b.
func (c *Cursor) open(b batch, memory *MemoryReservation) (recordReader, error) {
	return openRecords(opened{batch: b, tp: c.tp, names: c.names, limits: c.limits, only: c.only}, c.inflater, memory)
}

// claimed returns the first offset to skip, not before the parameter next, and the last offset that a damaged batch
// declares. If the log ends before one of these offsets, both results are next.
func (c *Cursor) claimed(b batch, rest []byte, next int64) (from, last int64) {
	from, last = max(next, b.base), b.base
	if !b.legacy && len(b.raw) >= atRecords {
		last += int64(int32(binary.BigEndian.Uint32(b.raw[atLastDelta:])))
	}
	if len(rest) >= batchPrefix {
		if following := int64(binary.BigEndian.Uint64(rest)); following > b.base && (last >= following || last < b.base) {
			last = following - 1
		}
	}
	if c.high >= 0 && (from >= c.high || last >= c.high) { // the log does not reach the offsets that the batch declares, so they are wrong
		return next, next
	}
	return from, last
}

// broken handles an unreadable batch. Either it adds placeholders for the offsets from the parameter from to the
// parameter last, or it sets p.Err, so that the caller fetches the batch again.
func (c *Cursor) broken(p *FetchedPartition, from, last int64, why error, memory *MemoryReservation) error {
	if !c.skipUnreadable {
		p.Err = fmt.Errorf("%w at offset %d: %w", ErrCorrupt, from, why)
		return io.EOF
	}
	if c.high >= 0 {
		last = min(last, c.high-1)
	}
	reason := why.Error()
	if err := memory.take(len(reason)); err != nil {
		return err
	}
	return pushUnreadable(p, from, max(from, last), reason, memory)
}

// maxPlaceholders is the largest number of unreadable offsets for which each gets a placeholder record. When there are
// more unreadable offsets, one placeholder represents all of them.
const maxPlaceholders = 1000

// pushUnreadable adds placeholders for offsets that cannot be read, and moves p.Next past each.
func pushUnreadable(p *FetchedPartition, from, last int64, reason string, memory *MemoryReservation) error {
	step := int64(1)
	if last-from >= maxPlaceholders {
		step = last - from + 1
	}
	n := int((last - from + step) / step)
	for ; from <= last; from += step {
		end := from + step - 1
		rec := Record{TopicPartition: p.TopicPartition, Offset: from, Defect: &Defect{Reason: reason, Last: end}}
		if err := push(p, rec, n, memory); err != nil {
			return err
		}
		p.Next = max(p.Next, end+1)
	}
	return nil
}

// abortMarker reports whether a control batch ends an aborted transaction.
func (b batch) abortMarker() bool {
	b.attributes &^= 7 // control batches are never compressed
	r, err := openRecords(opened{batch: b, names: newShared(), limits: DefaultLimits()}, nil, unlimitedMemory())
	if err != nil {
		return false
	}
	rec, err := r.next(math.MinInt64)
	key := wire{b: rec.Key}
	key.int16() // version
	kind := key.int16()
	return err == nil && key.err == nil && kind == 0
}

// abortedTransaction is the producer and the first offset of an aborted transaction.
type abortedTransaction struct {
	producer int64
	first    int64
}

// transactions decides which batches of one partition's answer contain records that consumers receive. Batches must be
// passed in the order of the log.
type transactions struct {
	aborted []abortedTransaction // ordered by first offset
	open    map[int64]bool       // ids of producers whose aborted transaction has begun and not ended yet
}

func newTransactions(aborted []abortedTransaction) *transactions {
	slices.SortFunc(aborted, func(a, b abortedTransaction) int { return int(min(max(a.first-b.first, -1), 1)) })
	return &transactions{aborted: aborted, open: map[int64]bool{}}
}

// counts reports whether consumers receive the records of b: b is neither a control batch nor part of an aborted
// transaction.
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
