package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Limits of one call to the store: the total time; the time for which it may continue after its generation has ended,
// while the consumer group waits for this member; and the time that the driver has to react to a cancellation.
const (
	storeTimeout = time.Minute
	storeGrace   = 2500 * time.Millisecond
	cancelGrace  = 250 * time.Millisecond
	// maxAbandoned is the number of abandoned calls that have not returned at which a running generation abandons no
	// further call but waits for it. Each abandoned call may hold a batch in memory.
	maxAbandoned = 4
)

// untilStored calls the function work, which uses the store, until it succeeds or ctx ends. It does not give up however
// long the store is unavailable.
func untilStored[T any](ctx context.Context, i *Ingester, work func(context.Context) (T, error)) (T, error) {
	attempt := 0
	defer func() { traces.RecordTries(ctx, attempt+1) }()
	for ; ; attempt++ {
		if err := ctx.Err(); err != nil {
			var none T
			return none, err
		}
		got, err := once(traces.Try(ctx, attempt), i, work)
		if err == nil {
			i.health.Set(databaseHealth, nil)
			return got, nil
		}
		if ctx.Err() != nil {
			return got, err
		}
		i.metrics.storeFailures.Inc()
		what := "other sessions change the same rows; ingest tries again"
		if !errors.Is(err, entity.ErrContended) {
			i.health.Set(databaseHealth, err)
			what = "the store does not take records; ingest waits"
		}
		i.log.Warn(what, zap.Int("attempt", attempt+1), zap.Error(err), traces.InLog(ctx))
		if !wait.Sleep(ctx, backoff(attempt)) {
			return got, err
		}
	}
}

// once calls the function work, which may continue for a short time after ctx has ended, so that its statement ends in
// a known state and offsets are committed. A call that does not return is abandoned. Should the abandoned statement
// still succeed, the positions prevent that its records are stored twice.
func once[T any](ctx context.Context, i *Ingester, work func(context.Context) (T, error)) (T, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	type result struct {
		got T
		err error
	}
	done := make(chan result, 1)
	go func() {
		got, err := work(bounded)
		done <- result{got, err}
	}()
	ended, limit := ctx.Done(), bounded.Done()
	var leave <-chan time.Time
	for {
		select {
		case res := <-done:
			return res.got, res.err
		case <-ended:
			ended = nil
			grace := time.AfterFunc(storeGrace, cancel)
			defer grace.Stop()
			limit = bounded.Done()
		case <-limit:
			limit = nil
			if ctx.Err() == nil && i.abandoned.Load() >= maxAbandoned {
				continue // wait until the driver returns or the generation ends
			}
			leave = time.After(cancelGrace)
		case <-leave:
			i.abandoned.Add(1)
			go func() {
				<-done
				i.abandoned.Add(-1)
			}()
			var none T
			return none, fmt.Errorf("the store does not answer: %w", bounded.Err())
		}
	}
}

// storeBatch stores b and returns the ranges that are completely stored. A range may have been stored by an earlier try
// whose answer was lost. Logs and metrics do not report the returns that such a try stored; only the stored messages
// show them. If PostgreSQL refuses a message of the batch, a failed try may have stored a part of the batch; the next
// try stores the rest.
func (i *Ingester) storeBatch(ctx context.Context, b repository.Batch) (repository.Stored, error) {
	var all repository.Stored
	for {
		var t tries
		rest := b
		stored, err := untilStored(ctx, i, func(ctx context.Context) (repository.Stored, error) {
			t.begin()
			stored, err := i.stores.Records.Store(ctx, rest)
			t.end(stored, err)
			return stored, err
		})
		before, again := t.failed()
		all.Ranges = append(all.Ranges, stored.Ranges...)
		all.Returns = append(append(all.Returns, before.Returns...), stored.Returns...)
		all.Quarantined = append(append(all.Quarantined, before.Quarantined...), stored.Quarantined...)
		if err != nil || len(stored.Ranges) == len(rest.Ranges) || !again {
			return all, err
		}
		ended, left, err := i.stopped(ctx, rest, stored)
		if err != nil {
			return repository.Stored{}, err
		}
		if all.Ranges = append(all.Ranges, ended...); len(left.Ranges) == 0 {
			return all, nil
		}
		b = left
	}
}

// stopped reads the positions of those ranges of b that this try did not store. ended contains the ranges that are
// stored completely, because their position is at their end. left contains the rest of the ranges that are stored only
// in part. A range with any other position is in neither.
func (i *Ingester) stopped(ctx context.Context, b repository.Batch, stored repository.Stored) (ended []repository.Partition, left repository.Batch, err error) {
	counted := make(map[repository.Partition]bool, len(stored.Ranges))
	for _, p := range stored.Ranges {
		counted[p] = true
	}
	var open []repository.Position
	ranges := map[repository.Partition]repository.Range{}
	for _, r := range b.Ranges {
		if !counted[r.Partition] {
			open = append(open, repository.Position{Partition: r.Partition, Next: r.From})
			ranges[r.Partition] = r
		}
	}
	positions, err := untilStored(ctx, i, func(ctx context.Context) ([]repository.Position, error) {
		return i.stores.Records.OpenPosition(ctx, open)
	})
	if err != nil {
		return nil, left, err
	}
	left = b
	left.Ranges, left.Messages = nil, nil
	within := map[repository.Partition]int64{}
	for _, p := range positions {
		switch r := ranges[p.Partition]; {
		case p.Next == r.To:
			ended = append(ended, p.Partition)
		case r.From < p.Next && p.Next < r.To:
			r.From, within[p.Partition] = p.Next, p.Next
			left.Ranges = append(left.Ranges, r)
		}
	}
	for n := range b.Messages {
		source := &b.Messages[n].Source
		next, some := within[repository.Partition{Incarnation: source.Incarnation, Partition: source.Partition}]
		if some && source.Offset >= next {
			left.Messages = append(left.Messages, b.Messages[n])
		}
	}
	return ended, left, nil
}

// tries collects the results of tries to store a batch. Abandoned tries may still be running and add results later.
type tries struct {
	mu     sync.Mutex
	begun  int
	before repository.Stored // returns and quarantined records that earlier tries stored before they failed
}

func (t *tries) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun++
}

func (t *tries) end(stored repository.Stored, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.before.Returns = append(t.before.Returns, stored.Returns...)
		t.before.Quarantined = append(t.before.Quarantined, stored.Quarantined...)
	}
}

// failed returns the returns and the quarantined records that tries stored before they failed. some reports whether
// there was more than one try, so that an earlier try may have stored ranges.
func (t *tries) failed() (before repository.Stored, some bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.before, t.begun > 1
}
