package ingest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// reading starts one writer, and one reader of the given partitions. The writer and the reader share the given memory
// budget, which the test can inspect; stop ends both.
func (w *world) reading(budget *semaphore.Weighted, parts ...broker.TopicPartition) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	commits := newCommitter(w.commit, w.i.metrics, w.i.log)
	out, partitions := newWriter(w.i, budget, commits), partitionsOf(parts)
	for _, p := range partitions {
		p.writer = out
	}
	wrote, read := make(chan struct{}), make(chan struct{})
	go func() { defer close(wrote); _ = out.run(ctx) }()
	go func() { defer close(read); _ = newReader(ctx, w.i, len(parts), budget, commits).run(ctx, partitions) }()
	return func() { cancel(); <-wrote; <-read }
}

func TestBudget(t *testing.T) {
	t.Parallel()
	a, b := part("a.dlq.v1", 0), part("a.dlq.v1", 1)
	const full = 24 << 20 // DefaultConfig().BufferBytes
	big := func(n, size int) []broker.Record {
		out := make([]broker.Record, n)
		for i := range out {
			out[i].Value = make([]byte, size)
		}
		return out
	}
	tests := map[string]struct {
		change func(w *world)
		most   int64 // maximum number of bytes that are fetched while the store accepts nothing
		least  int64
	}{
		"SmallRecords":          {func(w *world) { w.cluster.produce(a, big(20000, 1000)...) }, full, full / 2},
		"RecordsAboveTheAnswer": {func(w *world) { w.cluster.produce(a, big(8, 10<<20)...) }, full, 10 << 20},
		"RecordsAboveTheBudget": {func(w *world) { w.cluster.produce(a, big(4, 30<<20)...) }, 30 << 20, 30 << 20},
		"TwoLeaders": {func(w *world) {
			w.cluster.set(func() { w.cluster.log(b).leader = 2 })
			w.cluster.produce(a, big(20000, 1000)...)
			w.cluster.produce(b, big(4, 10<<20)...)
		}, full + 10<<20, full / 2},
	}
	for name, test := range tests {
		t.Run(name, bubble(func(w *world) {
			w.cluster.topic("a.dlq.v1", "A", 2)
			w.store.set(func() { w.store.fail = func() error { return errDown } })
			test.change(w)
			budget := semaphore.NewWeighted(full)
			stop := w.reading(budget, a, b)
			pass(time.Minute)
			held := heldBytes(w.cluster)
			check.True(w.t, held <= test.most, "bytes fetched and not stored = %d, want at most %d", held, test.most)
			check.True(w.t, held >= test.least, "bytes fetched and not stored = %d, want the budget used", held)
			w.store.set(func() { w.store.fail = nil })
			pass(time.Minute)
			for _, tp := range []broker.TopicPartition{a, b} {
				w.wantPosition(tp, w.cluster.log(tp).next)
			}
			stop()
			check.True(w.t, budget.TryAcquire(full), "room is missing after everything was stored")
		}))
	}
}

// TestLargeRecordsPassOneAtATime: the memory for a backlog of large records is limited. However many large records
// wait, the buffer stays within its limit, and only one large record at a time is passed to the PostgreSQL driver,
// because the driver makes a copy of it.
func TestLargeRecordsPassOneAtATime(t *testing.T) {
	t.Parallel()
	const size, each, full = 10 << 20, 25, 24 << 20 // DefaultConfig().BufferBytes
	synctest.Test(t, func(t *testing.T) {
		// With this limit the fake store does not keep the records' values, which would take much memory.
		w := newWorld(t, func(c *Config) { c.MaxRecordBytes = 1 })
		w.cluster.topic("a.dlq.v1", "A", 8)
		value := make([]byte, size)
		var parts []broker.TopicPartition
		for n := range int32(8) {
			tp := part("a.dlq.v1", n)
			parts = append(parts, tp)
			w.cluster.set(func() { w.cluster.log(tp).leader = 1 + n%2 })
			for range each {
				w.cluster.produce(tp, broker.Record{Value: value})
			}
		}
		var storing, stored, most, held int64
		w.store.set(func() {
			w.store.before = func(b repository.Batch) {
				if len(b.Messages) == 0 {
					return
				}
				w.store.set(func() {
					storing += int64(len(b.Messages))
					most = max(most, storing)
					held = max(held, heldBytes(w.cluster)-stored*size)
				})
				wait.Sleep(context.Background(), 10*time.Millisecond)
				w.store.set(func() { storing -= int64(len(b.Messages)); stored += int64(len(b.Messages)) })
			}
		})
		_, stop := w.start(parts...)
		pass(time.Minute)
		_ = stop()
		check.Equal(t, stored, 8*each, "records stored")
		check.Equal(t, most, 1, "large records with the store at the same time")
		// Each of the two leaders may send one answer more than fits, because the size of its records in memory is known only
		// after it has arrived.
		want := int64(full + 2*size)
		check.True(t, held <= want, "bytes fetched and not stored = %d, want at most %d", held, want)
		for _, tp := range parts {
			w.wantPosition(tp, each)
		}
	})
}

func TestAnAnswerIsNotLargerThanTheBudget(t *testing.T) {
	bubble(func(w *world) {
		w.cluster.topic("a.dlq.v1", "A", 1)
		w.cluster.produce(part("a.dlq.v1", 0), numbered(5)...)
		_, stop := w.start(part("a.dlq.v1", 0))
		pass(3 * time.Second)
		_ = stop()
		check.True(w.t, w.cluster.maxSeen <= 1<<20, "bytes asked for = %d, want at most the budget of %d", w.cluster.maxSeen, 1<<20)
		w.wantOffsets("a.dlq.v1", 1, 0, 0, 5)
	}, func(c *Config) { c.BufferBytes = 1 << 20 })(t)
}
