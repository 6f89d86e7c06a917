package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// flow is records that are produced at a steady rate.
type flow struct {
	cancel context.CancelFunc
	over   chan struct{}
	acked  atomic.Int64
	err    error // after over
}

// startFlow produces as many a second as it is told, until it is stopped: so many of
// one partition in a row, as of a consumer that fails at what it read of one. A record
// that is due while the client holds all that it may is never sent: later ones do not
// wait for it, and none are sent in a heap to make up for it. What was really produced is
// what Kafka has acknowledged.
func startFlow(ctx context.Context, to *cluster, perSecond int) *flow {
	ctx, cancel := context.WithCancel(ctx)
	f := &flow{cancel: cancel, over: make(chan struct{})}
	letters, pool := newLetters(), make([]*kgo.Record, 80*mixedRun)
	for n := range pool {
		pool[n] = letters.letter(mixedName(n/mixedRun%mixedTopics), n)
	}
	go func() {
		defer close(f.over)
		f.err = f.produce(ctx, to, pool, perSecond)
	}()
	return f
}

func (f *flow) produce(ctx context.Context, to *cluster, pool []*kgo.Record, perSecond int) error {
	var failed atomic.Pointer[error]
	ticker := time.NewTicker(mixedTick)
	defer ticker.Stop()
	start, made := time.Now(), 0
	for failed.Load() == nil {
		for due := dueBy(time.Since(start), perSecond); made < due && ctx.Err() == nil; made++ {
			r := *pool[made%len(pool)]
			r.Partition = int32(made / mixedRun / mixedTopics % partitions)
			to.client.TryProduce(context.WithoutCancel(ctx), &r, func(_ *kgo.Record, err error) {
				switch {
				case err == nil:
					f.acked.Add(1)
				case !errors.Is(err, kgo.ErrMaxBuffered):
					failed.Store(&err)
				}
			})
		}
		select {
		case <-ctx.Done():
			return errors.Join(to.client.Flush(context.WithoutCancel(ctx)), cause(failed.Load()))
		case <-ticker.C:
		}
	}
	return cause(failed.Load())
}

// dueBy is how many records of a steady rate are due after some time.
func dueBy(after time.Duration, perSecond int) int { return int(after.Seconds() * float64(perSecond)) }

func cause(err *error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("produce: %w", *err)
}

// sent is how many records Kafka has acknowledged.
func (f *flow) sent() int64 { return f.acked.Load() }

// stop ends the flow and waits for the last acknowledgement. It may be called
// again.
func (f *flow) stop() (int64, error) {
	f.cancel()
	<-f.over
	return f.sent(), f.err
}
