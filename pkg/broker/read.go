package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	scanBytes = 1 << 20
	scanWait  = 250 * time.Millisecond
	retryWait = 100 * time.Millisecond
)

// Memory in bytes that calls of ReadAt, Scan and Mark use. All calls in a process share this memory.
const (
	// readBytes is the usual memory of one call. largeRead is the memory of a call that needs more; only one such call
	// runs at a time.
	readBytes    = 8 << 20
	largeRead    = 144 << 20
	decoderBytes = 20 << 20 // memory of the decoder, which ReadAt and Scan need in addition
	cloneBelow   = 1 << 20  // smaller records are copied, because they would keep the whole answer in memory
	// ReadLimit is the largest size in bytes of a key and a value, together, that ReadAt returns; for more it returns
	// ErrTooLarge.
	ReadLimit = 128 << 20
)

// readLimits returns the limits of ReadAt.
func readLimits() Limits {
	return Limits{RecordBytes: ReadLimit, Headers: 100_000, HeaderBytes: 16 << 20, BatchBytes: DefaultLimits().BatchBytes}
}

// reads is the memory that calls of ReadAt, Scan and Mark share.
var reads = semaphore.NewWeighted(largeRead + 2*readBytes + 3*decoderBytes)

// reserveRead waits until the memory to read and decompress memory bytes is free.
func reserveRead(ctx context.Context, memory int64) (release func(), err error) {
	if err := reads.Acquire(ctx, memory+decoderBytes); err != nil {
		return nil, fmt.Errorf("wait for memory: %w", err)
	}
	return func() { reads.Release(memory + decoderBytes) }, nil
}

// ReadAt reads one record, whether or not its transaction was committed. It returns ErrGone when the log no longer
// contains the record, ErrOutOfRange when the log ends before the offset, ErrTooLarge when the record does not fit into
// the memory for reading, and errors of the kinds that Topics and Fetch return. A small record is a copy, so it does
// not keep the broker's whole answer in memory. While the broker asks for a pause, ReadAt waits, and holds no memory.
func (c *Cluster) ReadAt(ctx context.Context, tp TopicPartition, offset int64) (rec Record, err error) {
	err = RetryThrottled(ctx, func() error {
		rec, err = c.ReadAtOnce(ctx, tp, offset)
		return err
	})
	return rec, err
}

// ReadAtOnce does the same as ReadAt, but does not wait while the broker asks for a pause: it returns a *ThrottledError.
func (c *Cluster) ReadAtOnce(ctx context.Context, tp TopicPartition, offset int64) (Record, error) {
	rec, err := c.readAt(ctx, tp, offset, readBytes)
	if errors.Is(err, ErrTooLarge) {
		rec, err = c.readAt(ctx, tp, offset, largeRead)
	}
	if err != nil {
		return Record{}, fmt.Errorf("read %s at offset %d: %w", tp, offset, err)
	}
	return rec, nil
}

// readAt reads a record within the given number of bytes of memory; ErrTooLarge means that the record needs more.
func (c *Cluster) readAt(ctx context.Context, tp TopicPartition, offset, memory int64) (Record, error) {
	release, err := reserveRead(ctx, memory)
	if err != nil {
		return Record{}, err
	}
	defer release()
	got, cursor, err := c.fetchOne(ctx, tp, offset, 1, memory, readLimits())
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
		if read, done, err = cursor.ReadWithin(ctx, memory, 1); err != nil {
			return Record{}, err
		}
	}
	for _, rec := range read.Records {
		switch {
		case rec.Offset != offset:
		case rec.Defect != nil:
			return Record{}, fmt.Errorf("%w: it is over the limit of %d bytes, %d headers or %d bytes of headers", ErrTooLarge,
				int64(ReadLimit), readLimits().Headers, readLimits().HeaderBytes)
		case rec.EncodedSize() < cloneBelow:
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

// Mark identifies the batch of an offset by its latest time in milliseconds and its checksum; found is false when no
// batch contains the offset, or when its batch cannot be read.
func (c *Cluster) Mark(ctx context.Context, tp TopicPartition, offset int64) (latest int64, crc uint32, found bool, err error) {
	err = RetryThrottled(ctx, func() error {
		latest, crc, found, err = c.mark(ctx, tp, offset)
		return err
	})
	return latest, crc, found, err
}

func (c *Cluster) mark(ctx context.Context, tp TopicPartition, offset int64) (latest int64, crc uint32, found bool, err error) {
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
	latest, crc, found = cursor.Mark(offset)
	return latest, crc, found, nil
}

// Scan calls fn for every record with from <= offset < to, in order, whether or not its transaction was committed, and
// for the ends of transactions (see Record.Control), until fn returns true. Records that compaction has removed are
// missing. fn gets only a record's position, its time, and the first header with the given name whose value has at most
// 1 KiB. When the given name is empty, fn gets the whole record within DefaultLimits.
//
// It returns nil after the last record or when fn stopped it, ErrOutOfRange when the log starts after from or was
// truncated before it, ErrTooLarge when a batch does not fit into the memory for reading, and errors of the kinds that
// Topics and Fetch return. Scan waits for records that replicas still have to copy, and goes on when the leader moves,
// until ctx ends; so ctx should have a deadline.
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
		var stop bool
		var high int64
		err := RetryThrottled(ctx, func() (err error) {
			stop, high, err = s.answer(ctx, readBytes)
			if errors.Is(err, ErrTooLarge) {
				stop, high, err = s.answer(ctx, largeRead)
			}
			return err
		})
		if err != nil || stop {
			return err
		}
		if s.next > before {
			nothing = 0
			continue
		}
		// After two empty answers from a log that reaches the offset to, compaction must have removed the remaining records.
		if nothing++; nothing >= 2 && high >= s.to {
			return nil
		}
		if !wait.Sleep(ctx, retryWait) {
			return ctx.Err()
		}
	}
	return nil
}

// answer fetches once and passes the records of the broker's answer to fn. It returns ErrTooLarge when the answer needs
// more bytes than the parameter memory.
func (s *scan) answer(ctx context.Context, memory int64) (stop bool, high int64, err error) {
	release, err := reserveRead(ctx, memory)
	if err != nil {
		return false, 0, err
	}
	defer release()
	got, cursor, err := s.c.fetchOne(ctx, s.tp, s.next, scanBytes, memory, Limits{})
	if err != nil {
		return false, 0, err
	}
	if got.LogStart > s.next {
		return false, 0, fmt.Errorf("%w: log starts at %d", ErrOutOfRange, got.LogStart)
	}
	if cursor != nil && s.header != "" {
		cursor.KeepOnly(s.header)
	}
	if cursor != nil {
		stop, err = s.deliver(ctx, cursor, memory)
	}
	return stop, got.HighWatermark, err
}

// deliver passes the records of a cursor to fn, until ctx ends.
func (s *scan) deliver(ctx context.Context, cursor *protocol.Cursor, memory int64) (stop bool, err error) {
	for done := false; !done && err == nil; {
		var read FetchedPartition
		read, done, err = cursor.ReadWithin(ctx, memory, scanBytes)
		for _, rec := range read.WithControls() {
			if rec.Offset >= s.to || s.fn(rec) {
				return true, nil
			}
		}
		s.next = max(s.next, read.Next)
	}
	return false, err
}

// fetchOne fetches one partition with Stream from its leader; if the leader has moved, fetchOne asks for the new leader
// and fetches again. It returns a *ThrottledError when the broker asks for a pause instead of answering.
func (c *Cluster) fetchOne(ctx context.Context, tp TopicPartition, offset int64, bytes int32, memory int64, limits Limits) (FetchedPartition, *protocol.Cursor, error) {
	var got FetchedPartition
	for try := 1; ; try++ {
		leader, err := c.leaders.of(ctx, tp)
		if err == nil {
			var res FetchResponse
			res, err = c.Fetch(ctx, FetchRequest{
				Leader:     leader,
				Partitions: []FetchPartition{{TopicPartition: tp, Offset: offset, MaxBytes: bytes}},
				MaxWait:    scanWait, MaxBytes: scanBytes, MaxBatchBytes: memory, Limits: limits, Stream: true,
			})
			if err == nil {
				got, err = res.Partitions[0], res.Partitions[0].Err
			}
			switch {
			case err != nil || got.HighWatermark >= 0:
			case res.Throttle > 0:
				return got, nil, &ThrottledError{res.Throttle}
			default:
				err = fmt.Errorf("%w: no answer for the partition", ErrUnavailable)
			}
		}
		if err == nil && got.Heavy > 0 {
			err = fmt.Errorf("%w: a batch of %d bytes", ErrTooLarge, got.Heavy)
		}
		if err == nil || try == 5 || !mayMove(err) {
			cursor, _ := got.Portions.(*protocol.Cursor)
			return got, cursor, err
		}
		c.leaders.forget(tp.Topic)
		if !wait.Sleep(ctx, time.Duration(try)*retryWait) {
			return got, nil, err
		}
	}
}

// mayMove reports whether the request that failed with err may succeed after the topic's leaders were read again.
func mayMove(err error) bool {
	return errors.Is(err, ErrNotLeader) || errors.Is(err, ErrNoLeader) || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, ErrUnknownTopic)
}
