package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Bounds of one call to the store: how long it may take at all, how long it may
// go on when its generation has ended (the group waits for us meanwhile), and
// how long a driver has to notice that it was cancelled.
const (
	storeTimeout = time.Minute
	storeGrace   = 2500 * time.Millisecond
	cancelGrace  = 250 * time.Millisecond
	// maxAbandoned is how many calls that do not come back are left behind while
	// their generation lives. Each may hold a batch.
	maxAbandoned = 4
)

// untilStored repeats work with the store until it is done, however long the
// store is away, or ctx ends.
func untilStored[T any](ctx context.Context, i *Ingester, work func(context.Context) (T, error)) (T, error) {
	attempt := 0
	defer func() { traces.Told(ctx, attempt+1) }()
	for ; ; attempt++ {
		if err := ctx.Err(); err != nil {
			var none T
			return none, err
		}
		got, err := once(traces.Try(ctx, attempt), i, work)
		if err == nil {
			i.health.set(databaseHealth, nil)
			return got, nil
		}
		if ctx.Err() != nil {
			return got, err
		}
		i.metrics.storeFailures.Inc()
		what := "other sessions change the same rows; ingest tries again"
		if !errors.Is(err, entity.ErrContended) {
			i.health.set(databaseHealth, err)
			what = "the store does not take records; ingest waits"
		}
		i.log.Warn(what, zap.Int("attempt", attempt+1), zap.Error(err), traces.InLog(ctx))
		if !wait(ctx, backoff(attempt)) {
			return got, err
		}
	}
}

// once does work that outlives ctx by a moment, so that a statement under way
// ends in a known state and its offsets can still be committed. A driver whose
// server went silent may never come back: then it is left behind. Should what it
// sent take effect later, the positions keep it from being stored twice.
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
				continue // until the driver comes back or the generation ends
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

// storeBatch stores b and returns the ranges up to whose ends everything is
// stored. That may be so without our doing: the answer to a try before this one
// may have been lost after it took effect. Then the returns of that try are not
// told; the messages themselves show them.
func (i *Ingester) storeBatch(ctx context.Context, b repository.Batch) (repository.Stored, error) {
	stored, err := untilStored(ctx, i, func(ctx context.Context) (repository.Stored, error) {
		return i.store.Store(ctx, b)
	})
	if err != nil || len(stored.Ranges) == len(b.Ranges) {
		return stored, err
	}
	counted := make(map[repository.Partition]bool, len(stored.Ranges))
	for _, p := range stored.Ranges {
		counted[p] = true
	}
	var open []repository.Position
	ends := map[repository.Partition]int64{}
	for _, r := range b.Ranges {
		if !counted[r.Partition] {
			open = append(open, repository.Position{Partition: r.Partition, Next: r.From})
			ends[r.Partition] = r.To
		}
	}
	positions, err := untilStored(ctx, i, func(ctx context.Context) ([]repository.Position, error) {
		return i.store.OpenPosition(ctx, open)
	})
	if err != nil {
		return repository.Stored{}, err
	}
	for _, p := range positions {
		if p.Next == ends[p.Partition] {
			stored.Ranges = append(stored.Ranges, p.Partition)
		}
	}
	return stored, nil
}
