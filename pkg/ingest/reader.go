package ingest

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// lookAround is how often the reader sees whether an idle partition is due.
const lookAround = 100 * time.Millisecond

// reader gives every partition of a generation to the fetcher of its leader and
// takes back those that cannot be read there. So a partition without a leader, a
// broker that is gone, or a topic that is being deleted never holds up the rest.
type reader struct {
	i       *Ingester
	budget  *semaphore.Weighted
	commits *committer

	total    int
	returned chan *partition // from fetchers; has room for all
	fetchers map[int32]*fetcher
	failing  atomic.Int64 // partitions whose last answer was a failure
}

func newReader(i *Ingester, total int, budget *semaphore.Weighted, commits *committer) *reader {
	return &reader{
		i: i, budget: budget, commits: commits, total: total,
		returned: make(chan *partition, total), fetchers: map[int32]*fetcher{},
	}
}

// run reads partitions until ctx ends, which is no error, or another ingester
// turns out to own one.
func (r *reader) run(ctx context.Context, partitions []*partition) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.deal(ctx, g, partitions) })
	return g.Wait()
}

// deal finds a fetcher for every idle partition that is due, over and over.
func (r *reader) deal(ctx context.Context, g *errgroup.Group, idle []*partition) error {
	idle = slices.Clone(idle)
	ticker := time.NewTicker(lookAround)
	defer ticker.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		var due, resting []*partition
		for _, p := range idle {
			if p.due(now) {
				due = append(due, p)
			} else {
				resting = append(resting, p)
			}
		}
		left, err := r.assign(ctx, g, due)
		if err != nil {
			return err
		}
		idle = append(resting, left...)
		tick := ticker.C
		if len(idle) == 0 {
			tick = nil
		}
		select {
		case <-ctx.Done():
		case <-tick:
		case p := <-r.returned:
			idle = append(idle, p)
		}
	}
	return nil
}

// assign hands partitions to their leaders' fetchers and returns those that
// have none.
func (r *reader) assign(ctx context.Context, g *errgroup.Group, due []*partition) (left []*partition, err error) {
	if len(due) == 0 {
		return nil, nil
	}
	if err := r.open(ctx, due); err != nil {
		return nil, err
	}
	var open []*partition
	for _, p := range due {
		if p.opened {
			open = append(open, p)
		} else {
			left = append(left, p)
		}
	}
	leaders, err := r.byLeader(ctx, open)
	if err != nil {
		r.failed(ctx, "find leaders", err, open...)
		return append(left, open...), nil
	}
	for leader, led := range leaders {
		if leader < 0 {
			r.failed(ctx, "find leaders", broker.ErrNoLeader, led...)
			left = append(left, led...)
			continue
		}
		f := r.fetchers[leader]
		if f == nil {
			f = newFetcher(r, leader)
			r.fetchers[leader] = f
			g.Go(func() error { return f.run(ctx) })
		}
		f.add(led...)
	}
	return left, nil
}

func (r *reader) byLeader(ctx context.Context, partitions []*partition) (map[int32][]*partition, error) {
	if len(partitions) == 0 {
		return nil, nil
	}
	byName := make(map[broker.TopicPartition]*partition, len(partitions))
	parts := make([]broker.TopicPartition, len(partitions))
	for n, p := range partitions {
		parts[n] = p.TopicPartition
		byName[p.TopicPartition] = p
	}
	topics, err := r.i.cluster.Topics(ctx, topicNames(parts)...)
	if err != nil {
		return nil, err
	}
	out := map[int32][]*partition{}
	for leader, led := range broker.GroupByLeader(topics, parts) {
		for _, tp := range led {
			out[leader] = append(out[leader], byName[tp])
		}
	}
	return out, nil
}

// failed notes that nobody answered for partitions. Each rests longer the more
// often that happens in a row.
func (r *reader) failed(ctx context.Context, doing string, err error, partitions ...*partition) {
	if len(partitions) == 0 {
		return
	}
	for _, p := range partitions {
		if p.failures == 0 {
			r.failing.Add(1)
		}
		p.rest(backoff(p.failures))
		p.failures++
	}
	r.i.kafkaFailed(ctx, fetchHealth, doing, err, zap.Stringer("partition", partitions[0]), zap.Int("partitions", len(partitions)))
}

// answered notes that p's leader speaks for it.
func (r *reader) answered(p *partition) {
	if p.failures == 0 {
		return
	}
	p.failures = 0
	if r.failing.Add(-1) == 0 {
		r.i.health.set(fetchHealth, nil)
	}
}

// unreadable notes an error that is p's own, which says nothing of Kafka as a
// whole.
func (r *reader) unreadable(p *partition, err error) {
	p.rest(partitionRest)
	r.i.metrics.of(r.i.metrics.partitionErrors, p.Topic).Inc()
	r.i.log.Warn("a partition cannot be read", zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
		zap.Int64("offset", p.next), zap.Error(err))
}

// topicNames returns each topic of parts once, in the order of parts.
func topicNames(parts []broker.TopicPartition) []string {
	var names []string
	seen := map[string]bool{}
	for _, tp := range parts {
		if !seen[tp.Topic] {
			seen[tp.Topic] = true
			names = append(names, tp.Topic)
		}
	}
	return names
}
