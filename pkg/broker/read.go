package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	scanBytes = 1 << 20
	scanWait  = 250 * time.Millisecond
	retryWait = 100 * time.Millisecond
)

// ReadAt reads one record, whether or not its transaction was committed. It
// returns ErrGone when the log no longer holds the record, ErrOutOfRange when
// the log has not come that far, and the kinds of Topics and Fetch. The record
// has memory of its own.
func (c *Cluster) ReadAt(ctx context.Context, tp TopicPartition, offset int64) (Record, error) {
	rec, err := c.readAt(ctx, tp, offset)
	if err != nil {
		return Record{}, fmt.Errorf("read %s at offset %d: %w", tp, offset, err)
	}
	return rec, nil
}

func (c *Cluster) readAt(ctx context.Context, tp TopicPartition, offset int64) (Record, error) {
	got, err := c.fetchOne(ctx, tp, offset, 1)
	if errors.Is(err, ErrOutOfRange) {
		starts, startErr := c.StartOffsets(ctx, []TopicPartition{tp})
		if startErr == nil && offset < starts[tp] {
			return Record{}, fmt.Errorf("%w: log starts at %d", ErrGone, starts[tp])
		}
	}
	if err != nil && len(got.Records) == 0 {
		return Record{}, err
	}
	for _, rec := range got.Records {
		if rec.Offset == offset {
			return rec.Clone(), nil
		}
	}
	if got.Next <= offset && offset >= got.HighWatermark {
		return Record{}, fmt.Errorf("%w: log ends at %d", ErrOutOfRange, got.HighWatermark)
	}
	return Record{}, ErrGone
}

// Scan shows fn every record with from <= offset < to, in order, whether or
// not its transaction was committed, and the ends of transactions (see
// Record.Control), until fn returns true. An offset that it does not show was
// removed by compaction.
//
// It returns nil when it has seen them all or was stopped, ErrOutOfRange when
// the log starts after from or was cut off before it, and the kinds of Topics
// and Fetch. It waits, as long as ctx lets it, for offsets that replicas still
// have to copy, and goes on by itself when the leader moves; so give it a
// deadline.
func (c *Cluster) Scan(ctx context.Context, tp TopicPartition, from, to int64, fn func(Record) (stop bool)) error {
	if err := c.scan(ctx, tp, from, to, fn); err != nil {
		return fmt.Errorf("scan %s from offset %d to %d: %w", tp, from, to, err)
	}
	return nil
}

func (c *Cluster) scan(ctx context.Context, tp TopicPartition, from, to int64, fn func(Record) bool) error {
	nothing := 0
	for next := from; next < to; {
		got, err := c.fetchOne(ctx, tp, next, scanBytes)
		if err != nil {
			return err
		}
		if got.LogStart > next {
			return fmt.Errorf("%w: log starts at %d", ErrOutOfRange, got.LogStart)
		}
		for _, rec := range got.everything() {
			if rec.Offset >= to || fn(rec) {
				return nil
			}
		}
		if got.Next > next {
			next, nothing = got.Next, 0
			continue
		}
		// Twice nothing although the log goes on: its rest was compacted away.
		if nothing++; nothing >= 2 && got.HighWatermark >= to {
			return nil
		}
		if err := pause(ctx, retryWait); err != nil {
			return err
		}
	}
	return nil
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

// fetchOne reads from a single partition, where the leader is now. Only its
// last attempt's error counts: a leader that moved is looked up again.
func (c *Cluster) fetchOne(ctx context.Context, tp TopicPartition, offset int64, bytes int32) (FetchedPartition, error) {
	var got FetchedPartition
	for try := 1; ; try++ {
		leader, err := c.leader(ctx, tp)
		if err == nil {
			var res FetchResponse
			res, err = c.Fetch(ctx, FetchRequest{
				Leader:     leader,
				Partitions: []FetchPartition{{TopicPartition: tp, Offset: offset, MaxBytes: bytes}},
				MaxWait:    scanWait,
			})
			if err == nil {
				got, err = res.Partitions[0], res.Partitions[0].Err
			}
			if err == nil && got.HighWatermark < 0 {
				err = fmt.Errorf("%w: throttled for %s", ErrUnavailable, res.Throttle)
			}
		}
		if err == nil || try == 5 || !mayMove(err) {
			return got, err
		}
		c.leaders.forget(tp.Topic)
		if pause(ctx, time.Duration(try)*retryWait) != nil {
			return got, err
		}
	}
}

// mayMove tells whether another look at the topic may help.
func mayMove(err error) bool {
	return errors.Is(err, ErrNotLeader) || errors.Is(err, ErrNoLeader) || errors.Is(err, ErrUnavailable) ||
		errors.Is(err, ErrUnknownTopic)
}

// pause waits for d, or returns why ctx ended.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
