package ingest

import (
	"context"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// generation reads the given partitions until ctx ends or another ingester moves the position of one of them. It
// returns when all its goroutines have ended.
func (i *Ingester) generation(ctx context.Context, parts []broker.TopicPartition, commit commitFunc) error {
	i.metrics.rebalances.Inc()
	if len(parts) == 0 {
		i.health.Set(databaseHealth, nil) // this ingester has no partitions to read, so it does not depend on the database
		<-ctx.Done()
		return nil
	}
	defer i.health.Set(fetchHealth, nil)

	g, ctx := errgroup.WithContext(ctx)
	commits := newCommitter(commit, i.metrics, i.log)
	budget := semaphore.NewWeighted(i.cfg.BufferBytes)
	writers := make([]*writer, i.cfg.Writers)
	for n := range writers {
		w := newWriter(i, budget, commits)
		writers[n] = w
		g.Go(func() error { return w.run(ctx) })
	}
	partitions := make([]*partition, len(parts))
	for n, tp := range parts {
		partitions[n] = &partition{TopicPartition: tp, writer: writers[n%len(writers)]}
	}
	defer i.metrics.forgetLag(partitions)
	g.Go(func() error { return commits.run(ctx) })
	g.Go(func() error { return newReader(i, len(parts), budget, commits).run(ctx, partitions) })
	err := g.Wait()
	commits.flush()
	return err
}
