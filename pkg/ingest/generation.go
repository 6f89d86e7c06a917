package ingest

import (
	"context"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

// reading reads the partitions of one assignment. It goes on after the generation of the consumer group has ended,
// until the member has its next assignment, because a rebalance waits for the sessions of members that died. The store's
// positions prevent that a record is stored twice if another ingester reads the same partition meanwhile.
type reading struct {
	partitions []*partition
	commits    *committer
	assigned   context.Context // ends with the generation
	over       context.CancelFunc
	stop       context.CancelFunc
	expiry     *time.Timer // stops the reading; runs while there is no generation
	ended      chan struct{}
	err        error // valid when ended is closed
}

// read starts to read the given partitions, until ctx ends.
func (i *Ingester) read(ctx context.Context, partitions []*partition, commit commitFunc) *reading {
	r := &reading{partitions: partitions, commits: newCommitter(commit, i.metrics, i.log), ended: make(chan struct{})}
	ctx, r.stop = context.WithCancel(ctx)
	r.assigned, r.over = context.WithCancel(ctx)
	r.expiry = time.AfterFunc(i.cfg.SessionTimeout, r.stop)
	r.expiry.Stop()
	go func() {
		defer close(r.ended)
		if r.err = i.generation(ctx, r); r.err != nil && ctx.Err() == nil {
			i.log.Error("reading has ended", zap.Error(r.err)) // the member joins the consumer group again
		}
	}()
	return r
}

// outlive limits the time for which the reading may go on without a generation, counted from now.
func (r *reading) outlive(limit time.Duration) {
	if r != nil {
		r.expiry.Reset(limit)
	}
}

// end stops the reading and waits for its end.
func (r *reading) end() {
	if r != nil {
		r.stop()
		<-r.ended
	}
}

// generation reads the partitions of r until ctx ends. It returns when all its goroutines have ended.
func (i *Ingester) generation(ctx context.Context, r *reading) error {
	i.metrics.rebalances.Inc()
	if len(r.partitions) == 0 {
		i.health.Set(databaseHealth, nil) // this ingester has no partitions to read, so it does not depend on the database
		<-ctx.Done()
		return nil
	}
	defer i.health.Set(fetchHealth, nil)

	g, ctx := errgroup.WithContext(ctx)
	budget := semaphore.NewWeighted(i.cfg.BufferBytes)
	writers := make([]*writer, i.cfg.Writers)
	for n := range writers {
		w := newWriter(i, budget, r.commits)
		writers[n] = w
		g.Go(func() error { return w.run(ctx) })
	}
	for n, p := range r.partitions {
		p.writer = writers[n%len(writers)]
	}
	defer i.metrics.forgetLag(r.partitions)
	g.Go(func() error { return r.commits.run(r.assigned) })
	g.Go(func() error {
		return newReader(r.assigned, i, len(r.partitions), budget, r.commits).run(ctx, r.partitions)
	})
	return g.Wait()
}
