package broker

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	scanBytes = 1 << 20
	scanWait  = 250 * time.Millisecond
	retryWait = 100 * time.Millisecond
)

// Memory of ReadAt and Scan, of all calls of a process together.
const (
	// readBytes is the usual memory of one call, and largeRead that of a call that needs more, of which one runs at a
	// time.
	readBytes    = 8 << 20
	largeRead    = 144 << 20
	decoderBytes = 20 << 20 // the memory of the decoder, which a call needs too
	// ReadLimit is the largest key and value, together, that ReadAt returns.
	ReadLimit = 128 << 20
)

// readLimits are the limits of ReadAt.
func readLimits() Limits {
	return Limits{RecordBytes: ReadLimit, Headers: 100_000, HeaderBytes: 16 << 20, BatchBytes: DefaultLimits().BatchBytes}
}

// reads is the memory that calls of ReadAt and Scan share.
var reads = semaphore.NewWeighted(largeRead + 2*readBytes + 3*decoderBytes)

// reserveRead waits until the memory to read and decompress room bytes is free.
func reserveRead(ctx context.Context, room int64) (release func(), err error) {
	if err := reads.Acquire(ctx, room+decoderBytes); err != nil {
		return nil, fmt.Errorf("wait for memory: %w", err)
	}
	return func() { reads.Release(room + decoderBytes) }, nil
}

// ReadAt reads one record, whether or not its transaction was committed. It returns ErrGone when the log no longer
// holds the record, ErrOutOfRange when the log has not come that far, ErrTooLarge when the record does not fit into
// the memory for reading, and the kinds of Topics and Fetch. The record does not refer to a much larger answer.
func (c *Cluster) ReadAt(ctx context.Context, tp TopicPartition, offset int64) (Record, error) {
	rec, err := c.readAt(ctx, tp, offset, readBytes)
	if errors.Is(err, ErrTooLarge) {
		rec, err = c.readAt(ctx, tp, offset, largeRead)
	}
	if err != nil {
		return Record{}, fmt.Errorf("read %s at offset %d: %w", tp, offset, err)
	}
	return rec, nil
}

// readAt reads a record with room bytes of memory; ErrTooLarge means that it needs more.
func (c *Cluster) readAt(ctx context.Context, tp TopicPartition, offset, room int64) (Record, error) {
	release, err := reserveRead(ctx, room)
	if err != nil {
		return Record{}, err
	}
	defer release()
	got, cursor, err := c.fetchOne(ctx, tp, offset, 1, room, readLimits())
	if errors.Is(err, ErrOutOfRange) {
		starts, startErr := c.StartOffsets(ctx, []TopicPartition{tp})
		if startErr == nil && offset < starts[tp] {
			return Record{}, fmt.Errorf("%w: log starts at %d", ErrGone, starts[tp])
		}
	}
	if err != nil {
		return Record{}, err
	}
	read := FetchedPartition{Next: got.Next}
	for done := cursor == nil; !done && len(read.Records) == 0 && read.Next <= offset; {
		if read, done, err = cursor.within(ctx, room, 1); err != nil {
			return Record{}, err
		}
	}
	for _, rec := range read.Records {
		switch {
		case rec.Offset != offset:
		case rec.Defect != nil:
			return Record{}, fmt.Errorf("%w: it is over the limit of %d bytes, %d headers or %d bytes of headers", ErrTooLarge,
				int64(ReadLimit), readLimits().Headers, readLimits().HeaderBytes)
		case rec.size() < firstGrant:
			return rec.Clone(), nil
		default:
			return rec, nil
		}
	}
	if read.Next <= offset && offset >= got.HighWatermark {
		return Record{}, fmt.Errorf("%w: log ends at %d", ErrOutOfRange, got.HighWatermark)
	}
	return Record{}, ErrGone
}

// Mark identifies the batch of an offset by its latest time in milliseconds and its checksum; found is false when
// there is none.
func (c *Cluster) Mark(ctx context.Context, tp TopicPartition, offset int64) (latest int64, crc uint32, found bool, err error) {
	if err := reads.Acquire(ctx, readBytes); err != nil {
		return 0, 0, false, fmt.Errorf("wait for memory: %w", err)
	}
	defer reads.Release(readBytes)
	_, cursor, err := c.fetchOne(ctx, tp, offset, 1, readBytes, Limits{})
	if errors.Is(err, ErrOutOfRange) || errors.Is(err, ErrTooLarge) {
		return 0, 0, false, nil
	}
	if err != nil {
		return 0, 0, false, fmt.Errorf("read the batch of %s at offset %d: %w", tp, offset, err)
	}
	if cursor == nil {
		return 0, 0, false, nil
	}
	b, _, whole, err := nextBatch(cursor.data)
	if err != nil || !whole || b.last < offset || !b.legacy && b.base > offset {
		return 0, 0, false, nil //nolint:nilerr // a batch that cannot be read is no evidence
	}
	if b.legacy {
		return 0, binary.BigEndian.Uint32(b.raw[atLegacyCRC:]), true, nil
	}
	return int64(binary.BigEndian.Uint64(b.raw[atMaxTime:])), binary.BigEndian.Uint32(b.raw[atCRC:]), true, nil
}

// within is Read with a limit on the memory of the whole answer; it ends with ctx.
func (c *Cursor) within(ctx context.Context, room, bytes int64) (p FetchedPartition, done bool, err error) {
	p, done, err = c.Read(&Room{Free: room - int64(c.size), Done: ctx.Done()}, bytes)
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.Is(err, errNoRoom):
		err = fmt.Errorf("%w: it takes more than %d bytes", ErrTooLarge, room)
	}
	return p, done, cmp.Or(err, p.Err)
}

// Scan calls fn for every record with from <= offset < to, in order, whether or not its transaction was committed,
// and for the ends of transactions (see Record.Control), until fn returns true. Offsets removed by compaction are
// missing. A record has its position, its time and the first header of the given name, at most 1 KiB of it; with an
// empty name it is the whole record within DefaultLimits.
//
// It returns nil after the last record or when fn stopped it, ErrOutOfRange when the log starts after from or was
// truncated before it, ErrTooLarge when a batch does not fit into the memory for reading, and the kinds of Topics and
// Fetch. Until ctx ends, it waits for offsets that replicas still have to copy, and continues when the leader moves;
// so give ctx a deadline.
func (c *Cluster) Scan(ctx context.Context, tp TopicPartition, from, to int64, header string, fn func(Record) (stop bool)) error {
	s := scan{c: c, tp: tp, to: to, header: header, fn: fn, next: from}
	if err := s.run(ctx); err != nil {
		return fmt.Errorf("scan %s from offset %d to %d: %w", tp, from, to, err)
	}
	return nil
}

// scan is the state of a call of Scan.
type scan struct {
	c      *Cluster
	tp     TopicPartition
	to     int64
	header string
	fn     func(Record) bool
	next   int64
}

func (s *scan) run(ctx context.Context) error {
	nothing := 0
	for s.next < s.to {
		before := s.next
		stop, high, err := s.answer(ctx, readBytes)
		if errors.Is(err, ErrTooLarge) {
			stop, high, err = s.answer(ctx, largeRead)
		}
		if err != nil || stop {
			return err
		}
		if s.next > before {
			nothing = 0
			continue
		}
		// Two empty answers although the log continues: compaction removed the rest.
		if nothing++; nothing >= 2 && high >= s.to {
			return nil
		}
		if !wait.Sleep(ctx, retryWait) {
			return ctx.Err()
		}
	}
	return nil
}

// answer passes the records of one answer to fn, each only once. ErrTooLarge: room is too small for it.
func (s *scan) answer(ctx context.Context, room int64) (stop bool, high int64, err error) {
	release, err := reserveRead(ctx, room)
	if err != nil {
		return false, 0, err
	}
	defer release()
	got, cursor, err := s.c.fetchOne(ctx, s.tp, s.next, scanBytes, room, Limits{})
	if err != nil {
		return false, 0, err
	}
	if got.LogStart > s.next {
		return false, 0, fmt.Errorf("%w: log starts at %d", ErrOutOfRange, got.LogStart)
	}
	if cursor != nil && s.header != "" {
		cursor.only = &s.header
	}
	if cursor != nil {
		stop, err = s.show(ctx, cursor, room)
	}
	return stop, got.HighWatermark, err
}

// show passes the records of a cursor to fn, until ctx ends.
func (s *scan) show(ctx context.Context, cursor *Cursor, room int64) (stop bool, err error) {
	for done := false; !done && err == nil; {
		var read FetchedPartition
		read, done, err = cursor.within(ctx, room, scanBytes)
		for _, rec := range read.everything() {
			if rec.Offset >= s.to || s.fn(rec) {
				return true, nil
			}
		}
		s.next = max(s.next, read.Next)
	}
	return false, err
}

// everything returns records and control records in the order of the log.
func (p FetchedPartition) everything() []Record {
	if len(p.controls) == 0 {
		return p.Records
	}
	all := slices.Clone(p.Records)
	for _, offset := range p.controls {
		all = append(all, Record{TopicPartition: p.TopicPartition, Offset: offset, Control: true})
	}
	slices.SortFunc(all, func(a, b Record) int { return cmp.Compare(a.Offset, b.Offset) })
	return all
}

// fetchOne fetches one partition with Stream from its leader; if the leader has moved, it is requested again.
func (c *Cluster) fetchOne(ctx context.Context, tp TopicPartition, offset int64, bytes int32, room int64, limits Limits) (FetchedPartition, *Cursor, error) {
	var got FetchedPartition
	for try := 1; ; try++ {
		leader, err := c.leader(ctx, tp)
		if err == nil {
			var res FetchResponse
			res, err = c.Fetch(ctx, FetchRequest{
				Leader:     leader,
				Partitions: []FetchPartition{{TopicPartition: tp, Offset: offset, MaxBytes: bytes}},
				MaxWait:    scanWait, MaxBytes: scanBytes, MaxBatchBytes: room, Limits: limits, Stream: true,
			})
			if err == nil {
				got, err = res.Partitions[0], res.Partitions[0].Err
			}
			if err == nil && got.HighWatermark < 0 {
				err = fmt.Errorf("%w: throttled for %s", ErrUnavailable, res.Throttle)
			}
		}
		if err == nil && got.Heavy > 0 {
			err = fmt.Errorf("%w: a batch of %d bytes", ErrTooLarge, got.Heavy)
		}
		if err == nil || try == 5 || !mayMove(err) {
			cursor, _ := got.Portions.(*Cursor)
			return got, cursor, err
		}
		c.leaders.forget(tp.Topic)
		if !wait.Sleep(ctx, time.Duration(try)*retryWait) {
			return got, nil, err
		}
	}
}

// mayMove reports whether reading the topic's leaders again may help.
func mayMove(err error) bool {
	return errors.Is(err, ErrNotLeader) || errors.Is(err, ErrNoLeader) || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, ErrUnknownTopic)
}
