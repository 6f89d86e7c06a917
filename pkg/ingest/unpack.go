package ingest

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// unpacker reads one partition whose next batch needs more memory or work than a partition may use in an answer that
// several partitions share. It reads the batch as a stream of portions, for which it reserves memory. At any time, only
// one record or answer that is larger than a portion is in memory.
//
// There is no deadlock. An unpacker that waits for the memory of a large record holds only the memory of a portion. The
// unpacker that holds the memory of a large record waits only for the memory of a portion, which the writers release.
type unpacker struct {
	r      *reader
	leader int32
	p      *partition
	size   int64 // bytes of memory that the next batch needs, as the last answer said
	large  bool  // whether this unpacker holds the semaphore r.large, which a record larger than a portion needs
}

// run reads until the next batch of the partition is small enough for a usual fetch, or until the partition cannot be
// read at the moment. At its end, run returns the partition to the reader. While the broker asks for a pause, other
// unpackers may run, because a quota that is smaller than the batch asks for pauses without end.
func (u *unpacker) run(ctx context.Context) {
	defer func() { u.r.returned <- u.p }()
	for pause := u.unpack(ctx); pause > 0; pause = u.unpack(ctx) {
		if !wait.Sleep(ctx, pause) {
			return
		}
	}
}

// unpack returns the pause for which the broker asks; 0 when the unpacker has ended.
func (u *unpacker) unpack(ctx context.Context) (pause time.Duration) {
	for _, slots := range []*semaphore.Weighted{u.r.unpackersOf(u.p.Topic), u.r.unpackers} {
		if slots.Acquire(ctx, 1) != nil {
			return 0
		}
		defer slots.Release(1)
	}
	defer u.release()
	for again := true; again && u.size > 0 && ctx.Err() == nil && u.p.opened && !u.p.fenced.Load(); {
		if again, pause = u.answer(ctx); pause > 0 {
			return pause
		}
	}
	return 0
}

// release releases the semaphore r.large, so that another unpacker may use the memory of a large record.
func (u *unpacker) release() {
	if u.large {
		u.large = false
		u.r.large.Release(1)
	}
}

// answer sends one fetch request and reads the answer. It returns true when the batch must be requested again, with
// more memory, and the pause for which the broker asks instead of an answer.
func (u *unpacker) answer(ctx context.Context) (again bool, pause time.Duration) {
	p, unit, bytes := u.p, u.r.i.cfg.unit(), int32(partitionBytes)
	if p.quota.pauses.Any() {
		bytes = 1 // the broker sends the first batch alone, which uses up less of the quota
	}
	reserved := unit
	if u.size > unit {
		reserved = u.size
		if u.r.large.Acquire(ctx, 1) != nil {
			return false, 0
		}
		u.large = true
	}
	res, err := u.r.i.cluster.Fetch(ctx, broker.FetchRequest{
		Leader: u.leader, MaxWait: fetchWait, MaxBytes: int32(unit), MaxBatchBytes: reserved, ReadCommitted: true, Stream: true,
		Limits:     u.r.i.cfg.limits(),
		Partitions: []broker.FetchPartition{{TopicPartition: p.TopicPartition, Offset: p.next, MaxBytes: bytes, SkipUnreadable: p.skipUnreadable()}},
	})
	if err == nil && refused(res) {
		u.r.refusedByQuota(ctx, p)
		return false, res.Throttle
	}
	if err == nil {
		var others []*partition
		if others, err = u.r.verifyTopicIDs(ctx, []*partition{p}, res); len(others) > 0 {
			return false, 0
		}
	}
	if err == nil && moved(res.Partitions[0].Err) {
		err = res.Partitions[0].Err
	}
	if err != nil {
		if ctx.Err() == nil {
			u.r.failed(ctx, "fetch a large batch", err, p)
		}
		return false, 0
	}
	got := res.Partitions[0]
	if got.Err != nil {
		u.r.unreadable(p, got.Err)
		return false, 0
	}
	u.r.answered(p)
	u.size = int64(got.Heavy)
	switch {
	case got.Heavy > 0: // the batch needs more memory than was reserved
		u.release()
		return true, 0
	case got.Portions == nil:
		return false, 0
	}
	u.r.readInQuota(ctx, p)
	u.read(ctx, got.Portions)
	return false, 0
}

// read passes all records of an answer to the writers.
func (u *unpacker) read(ctx context.Context, portions broker.Portions) {
	p, whole := u.p, u.large // whole: r.large is held for the whole answer, not only for one large record of it
	for done := false; !done && !p.fenced.Load(); {
		reserved := u.r.i.cfg.unit()
		if u.r.budget.Acquire(ctx, reserved) != nil {
			return // ctx ended
		}
		got, end, err := portions.Read(&broker.MemoryReservation{Free: reserved, More: u.more(ctx), Done: ctx.Done()}, reserved/2)
		if done = end; err != nil || ctx.Err() != nil {
			u.r.budget.Release(reserved)
			if ctx.Err() == nil {
				u.r.unreadable(p, err)
			}
			return
		}
		if got.Next > p.next {
			var stored func()
			if u.large && (done || !whole) {
				u.large = false
				stored = func() { u.r.large.Release(1) }
			}
			reserved -= u.r.enqueue(ctx, p, got, reserved, stored)
		}
		u.r.budget.Release(reserved)
		if got.HighWatermark >= 0 {
			u.r.i.metrics.showLag(p, got.HighWatermark-got.Next)
		}
		if got.Err != nil {
			u.r.unreadable(p, got.Err)
		}
	}
}

// more returns a function that reports whether a large record may use further bytes of memory. The first call of that
// function waits until the previous large record is stored, so that only one large record is in memory at a time.
func (u *unpacker) more(ctx context.Context) func(bytes int64) bool {
	left := int64(0)
	asked := false
	return func(bytes int64) bool {
		if !asked {
			asked, left = true, u.r.i.cfg.largest()
			if !u.large && u.r.large.Acquire(ctx, 1) != nil {
				return false
			}
			u.large = true
		}
		left -= bytes
		return left >= 0
	}
}
