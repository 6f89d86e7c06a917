package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Cursor reads a broker's answer for one partition as a stream, in portions. It holds the compressed bytes and a
// decoder of up to 20 MB, whatever the decompressed size. It is not safe for concurrent use.
type Cursor struct {
	tp       TopicPartition
	data     []byte // batches that are not read yet
	size     int    // of data at the start
	txns     *transactions
	names    *shared
	limits   Limits
	only     *string
	inflater *inflater
	high     int64 // the partition's end, -1 when it is not known
	giveUp   bool  // unreadable offsets become placeholders

	next   int64 // the next offset to return
	batch  batch
	reader recordReader // of batch; nil between batches
}

func newCursor(tp TopicPartition, data []byte, aborted []abortedTransaction, from int64) *Cursor {
	return &Cursor{
		tp: tp, data: data, size: len(data), txns: newTransactions(aborted), names: newShared(), limits: DefaultLimits(), high: -1, next: from,
	}
}

// Read returns the next records, up to about portion bytes, or all remaining ones. Next is the offset to continue from,
// and done means that the cursor is at its end. A batch that cannot be read has placeholders (see Defect). An error
// means that room has no more memory; the records before it are returned too, and the cursor must not be used again.
func (c *Cursor) Read(room *Room, portion int64) (p FetchedPartition, done bool, err error) {
	p = FetchedPartition{TopicPartition: c.tp, Next: c.next, HighWatermark: c.high, LastStable: -1, LogStart: -1}
	room.taken = 0
	c.names.headers = nil // a block with headers of two portions would keep the first one in memory
	if c.reader != nil {
		c.reader.use(room)
	}
	for room.taken < portion {
		if err = c.step(&p, room, portion); err != nil {
			break
		}
	}
	c.next = p.Next
	if errors.Is(err, io.EOF) {
		return p, true, nil
	}
	return p, false, err
}

// step reads a batch as far as room.taken allows. io.EOF: no whole batch is left, or p.Err has the error.
func (c *Cursor) step(p *FetchedPartition, room *Room, portion int64) error {
	if c.reader == nil {
		if ok, err := c.nextBatch(p, room); !ok {
			return err
		}
	}
	for room.taken < portion {
		rec, err := c.reader.next(p.Next)
		switch {
		case err == nil:
			if err := push(p, rec, c.batch.count, room); err != nil {
				return err
			}
			p.Next = rec.Offset + 1
		case errors.Is(err, io.EOF):
			p.Next = max(p.Next, c.batch.last+1)
			c.reader = nil
			return nil
		case errors.Is(err, errNoRoom), errors.Is(err, errHeavy):
			return err
		default:
			c.reader = nil
			return c.broken(p, p.Next, c.batch.last, err, room)
		}
	}
	return nil
}

// push adds a record to p.
func push(p *FetchedPartition, rec Record, expected int, room *Room) error {
	if rec.Defect != nil {
		if err := room.take(defectMemory); err != nil {
			return err
		}
	}
	if have := len(p.Records); have == cap(p.Records) {
		more := max(have, min(expected, 1024), 1)
		if err := room.take(more * recordMemory); err != nil {
			return err
		}
		p.Records = slices.Grow(p.Records, more)
	}
	p.Records = append(p.Records, rec)
	return nil
}

// nextBatch opens the next batch; false: it has no records to read.
func (c *Cursor) nextBatch(p *FetchedPartition, room *Room) (ok bool, err error) {
	b, rest, whole, err := nextBatch(c.data)
	if err != nil {
		from, last := c.claimed(b, rest, p.Next)
		c.data = rest
		return false, c.broken(p, from, last, err, room)
	}
	if !whole {
		return false, io.EOF
	}
	c.data, c.batch = rest, b
	if !b.legacy && !c.txns.counts(b) {
		// A control batch has one record. One that claims to have many has gaps then.
		from := max(b.base, p.Next)
		for at := from; b.control() && at <= b.last && at-from < maxPlaceholders; at++ {
			if err := room.take(recordMemory); err != nil { // control offsets take memory too
				return false, err
			}
			p.controls = append(p.controls, at)
		}
		p.Next = max(p.Next, b.last+1)
		return false, nil
	}
	if c.reader, err = c.open(b, room); err == nil {
		return true, nil
	}
	c.reader = nil
	if errors.Is(err, errNoRoom) || errors.Is(err, errHeavy) {
		return false, err
	}
	return false, c.broken(p, max(p.Next, b.first()), b.last, err, room)
}

// claimed returns the offsets that a damaged batch claims to have.
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
	if c.high >= 0 && (from >= c.high || last >= c.high) { // the claimed offsets cannot be true
		return next, next
	}
	return from, last
}

// broken ends an unreadable batch: its offsets up to last are skipped, or p.Err makes the caller fetch again.
func (c *Cursor) broken(p *FetchedPartition, from, last int64, why error, room *Room) error {
	if !c.giveUp {
		p.Err = fmt.Errorf("%w at offset %d: %w", ErrCorrupt, from, why)
		return io.EOF
	}
	if c.high >= 0 {
		last = min(last, c.high-1)
	}
	reason := why.Error()
	if err := room.take(len(reason)); err != nil {
		return err
	}
	return pushUnreadable(p, from, max(from, last), reason, room)
}
