package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// What ends a generation from within. Each is mended by reading the store's
// positions and the topics' ids again.
var (
	errFenced     = errors.New("another ingester moved a position")
	errNewLife    = errors.New("a topic was deleted and made again")
	errOutOfRange = errors.New("the log does not hold the position")
)

// partition is one assigned partition and how far it has been fetched. Only its
// fetcher touches next.
type partition struct {
	broker.TopicPartition
	topicID string // Kafka's; "" where the broker gives none
	ref     repository.TopicRef
	next    int64

	restUntil time.Time // after an error of its own
}

func (p *partition) key() repository.Partition {
	return repository.Partition{Incarnation: p.ref.Incarnation, Partition: p.Partition}
}

// generation reads parts until ctx ends or something above happens. It returns
// when all its goroutines have.
func (i *Ingester) generation(ctx context.Context, parts []broker.TopicPartition, commit commitFunc) error {
	if len(parts) == 0 {
		<-ctx.Done()
		return nil
	}
	partitions, err := i.open(ctx, parts)
	if err != nil {
		return err
	}
	defer i.metrics.forget(parts)

	g, ctx := errgroup.WithContext(ctx)
	commits := newCommitter(commit, i.metrics, i.log)
	writers := make([]*writer, i.cfg.Writers)
	budget := semaphore.NewWeighted(i.cfg.BufferBytes)
	for n := range writers {
		w := newWriter(i, budget, commits)
		writers[n] = w
		g.Go(func() error { return w.run(ctx) })
	}
	g.Go(func() error { return commits.run(ctx) })
	g.Go(func() error { return i.fetchAll(ctx, partitions, writers, budget) })
	err = g.Wait()
	commits.flush()
	return err
}

// open finds out where each partition goes on. Kafka's offsets are not asked.
func (i *Ingester) open(ctx context.Context, parts []broker.TopicPartition) ([]*partition, error) {
	topics, err := i.lives(ctx, parts)
	if err != nil {
		return nil, err
	}
	partitions := make([]*partition, len(parts))
	for n, tp := range parts {
		partitions[n] = &partition{TopicPartition: tp, topicID: topics[tp.Topic].id, ref: topics[tp.Topic].ref}
	}
	return partitions, i.place(ctx, partitions)
}

// life is one existence of a topic, as Kafka and the store know it.
type life struct {
	id  string
	ref repository.TopicRef
}

func (i *Ingester) lives(ctx context.Context, parts []broker.TopicPartition) (map[string]life, error) {
	var names []string
	seen := map[string]bool{}
	for _, tp := range parts {
		if !seen[tp.Topic] {
			seen[tp.Topic] = true
			names = append(names, tp.Topic)
		}
	}
	described, err := i.cluster.Topics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describe topics: %w", err)
	}
	open := make([]repository.Topic, len(described))
	for n, t := range described {
		if t.Err != nil {
			return nil, fmt.Errorf("describe topic %s: %w", t.Name, t.Err)
		}
		open[n] = repository.Topic{Name: t.Name, Incarnation: t.ID}
	}
	var refs []repository.TopicRef
	err = i.untilStored(ctx, func(ctx context.Context) (err error) {
		refs, err = i.store.OpenTopics(ctx, open)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := make(map[string]life, len(described))
	for n, t := range described {
		out[t.Name] = life{id: t.ID, ref: refs[n]}
	}
	return out, nil
}

// place sets every partition's next offset: the store's position, the log's
// start where there is none, and whatever the log allows where it does not
// reach the position any more.
func (i *Ingester) place(ctx context.Context, partitions []*partition) error {
	parts := make([]broker.TopicPartition, len(partitions))
	for n, p := range partitions {
		parts[n] = p.TopicPartition
	}
	starts, err := i.cluster.StartOffsets(ctx, parts)
	if err != nil {
		return fmt.Errorf("find log starts: %w", err)
	}
	ends, err := i.cluster.EndOffsets(ctx, parts)
	if err != nil {
		return fmt.Errorf("find log ends: %w", err)
	}
	asked := make([]repository.Position, len(partitions))
	for n, p := range partitions {
		asked[n] = repository.Position{Partition: p.key(), Next: starts[p.TopicPartition]}
	}
	var positions []repository.Position
	err = i.untilStored(ctx, func(ctx context.Context) (err error) {
		positions, err = i.store.OpenPosition(ctx, asked)
		return err
	})
	if err != nil {
		return err
	}
	for n, p := range partitions {
		p.next = positions[n].Next
		if err := i.fit(ctx, p, starts[p.TopicPartition], ends[p.TopicPartition]); err != nil {
			return err
		}
	}
	return nil
}

// fit moves a position that the log cannot serve. Below the log's start,
// records were removed before they could be read: that is a loss which nobody
// can mend, so it is said aloud. Above its end, the log was cut off (an unclean
// election) or, where the broker gives topics no ids, made again: then what it
// holds now was never read.
func (i *Ingester) fit(ctx context.Context, p *partition, start, end int64) error {
	to := p.next
	switch {
	case p.next < start:
		to = start
		i.metrics.gaps.WithLabelValues(p.Topic).Add(float64(start - p.next))
		i.log.Error("kafka removed records before they were read",
			zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
			zap.Int64("from", p.next), zap.Int64("to", start))
	case p.next > end && p.topicID != "":
		to = end
		i.log.Error("the log ends before what was read of it; it was cut off",
			zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
			zap.Int64("position", p.next), zap.Int64("end", end))
	case p.next > end:
		to = start
		i.log.Warn("the log ends before what was read of it; the topic was made again",
			zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
			zap.Int64("position", p.next), zap.Int64("end", end))
	}
	if to == p.next {
		return nil
	}
	step := repository.Batch{Ranges: []repository.Range{{Partition: p.key(), From: p.next, To: to}}}
	return i.untilStored(ctx, func(ctx context.Context) error {
		moved, err := i.store.Store(ctx, step)
		switch {
		case err != nil:
			return err
		case len(moved) == 0:
			return errFenced
		}
		p.next = to
		return nil
	})
}

// untilStored repeats work with the store until it is done, however long the
// store is away, or ctx ends. errFenced is passed on at once.
func (i *Ingester) untilStored(ctx context.Context, work func(context.Context) error) error {
	for attempt := 0; ; attempt++ {
		err := i.once(ctx, work)
		if err == nil || errors.Is(err, errFenced) {
			i.health.set(databaseHealth, nil)
			return err
		}
		if ctx.Err() != nil {
			return err
		}
		i.health.set(databaseHealth, err)
		i.metrics.storeFailures.Inc()
		i.log.Warn("the store does not take records; ingest waits", zap.Int("attempt", attempt+1), zap.Error(err))
		if !wait(ctx, backoff(attempt)) {
			return err
		}
	}
}

// Bounds of one statement: how long it may take at all, and how long it may go
// on when its generation has ended. The group waits for us meanwhile.
const (
	storeTimeout = time.Minute
	storeGrace   = 3 * time.Second
)

// once does work that outlives ctx by a moment, so that a statement under way
// ends in a known state and its offsets can still be committed.
func (i *Ingester) once(ctx context.Context, work func(context.Context) error) error {
	work1, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(storeGrace, cancel) })
	defer stop()
	return work(work1)
}
