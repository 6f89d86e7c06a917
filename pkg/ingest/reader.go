package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// idleCheckInterval is the pause between two checks whether a partition without a fetcher is due.
const idleCheckInterval = 100 * time.Millisecond

// reader gives every partition of a generation to its leader's fetcher and takes back the partitions that cannot be
// read, so that a missing leader, broker or topic never delays the reading of other partitions.
type reader struct {
	i        *Ingester
	budget   *semaphore.Weighted
	commits  *committer
	assigned context.Context // ends with the generation

	total    int
	returned chan *partition // partitions that fetchers return; has capacity for all partitions
	fetchers map[int32]*fetcher
	failing  atomic.Int64 // number of partitions whose last request failed

	unpacking *errgroup.Group
	unpackers *semaphore.Weighted // one permit for each unpacker that may run at the same time
	topics    sync.Map            // for each topic, a *semaphore.Weighted that the running unpacker of the topic holds
	large     *semaphore.Weighted // held while a record, or an answer, that is larger than a portion is in memory
}

// maxUnpackers limits the number of unpackers that run at the same time; each uses up to 25 MB in addition to
// Config.BufferBytes. A topic has at most one unpacker, because its producer could keep an unpacker busy for minutes.
const maxUnpackers = 2

func newReader(assigned context.Context, i *Ingester, total int, budget *semaphore.Weighted, commits *committer) *reader {
	return &reader{
		i: i, budget: budget, commits: commits, assigned: assigned, total: total,
		returned: make(chan *partition, total), fetchers: map[int32]*fetcher{},
		unpackers: semaphore.NewWeighted(maxUnpackers), large: semaphore.NewWeighted(1),
	}
}

// unpackersOf returns the semaphore that the running unpacker of a topic holds.
func (r *reader) unpackersOf(topic string) *semaphore.Weighted {
	slot, _ := r.topics.LoadOrStore(topic, semaphore.NewWeighted(1))
	return slot.(*semaphore.Weighted)
}

// run reads partitions until ctx ends, which is not an error.
func (r *reader) run(ctx context.Context, partitions []*partition) error {
	g, ctx := errgroup.WithContext(ctx)
	r.unpacking = g
	g.Go(func() error { return r.deal(ctx, g, partitions) })
	return g.Wait()
}

// deal passes the partitions that are due to fetchers, again and again. It begins with the partitions in idle, and adds
// those that fetchers return.
func (r *reader) deal(ctx context.Context, g *errgroup.Group, idle []*partition) error {
	idle = slices.Clone(idle)
	ticker := time.NewTicker(idleCheckInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		now := time.Now()
		var due, resting []*partition
		for _, p := range idle {
			switch {
			case r.belongsToOther(p, now):
				r.leave(p)
			case p.opened && p.fenced.Load():
				if p.guest != nil {
					p.guest.looked = false
				}
				p.reopen()
				p.backOff(reopenBackoff)
				resting = append(resting, p)
			case p.due(now):
				due = append(due, p)
			default:
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

// belongsToOther reports whether the partition must no longer be read until the next assignment: when its time as a
// guest is over, or when there is no generation and another ingester reads it.
func (r *reader) belongsToOther(p *partition, now time.Time) bool {
	over := r.assigned.Err() != nil
	if p.guest != nil {
		return !over && now.After(p.guest.until)
	}
	return over && p.fenced.Load()
}

// leave stops to read the partition.
func (r *reader) leave(p *partition) {
	r.answered(p)
	r.i.metrics.forgetLag([]*partition{p})
}

// assign passes partitions to their leaders' fetchers and returns the partitions that cannot be read now, for example
// because they have no leader.
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
	topics, err := r.i.cluster.Topics(ctx, broker.TopicNames(parts)...)
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

// failed pauses partitions whose request failed. The pause gets longer with each failure in a row.
func (r *reader) failed(ctx context.Context, doing string, err error, partitions ...*partition) {
	if len(partitions) == 0 {
		return
	}
	for _, p := range partitions {
		if p.failures == 0 {
			r.failing.Add(1)
		}
		p.backOff(backoff(p.failures))
		p.failures++
	}
	r.i.kafkaFailed(ctx, fetchHealth, doing, err, zap.Stringer("partition", partitions[0]), zap.Int("partitions", len(partitions)))
}

// answered records that the leader of p has answered a request for p, which ends a series of failures.
func (r *reader) answered(p *partition) {
	if p.failures == 0 {
		return
	}
	p.failures = 0
	if r.failing.Add(-1) == 0 {
		r.i.health.Set(fetchHealth, nil)
	}
}

// damageBackoff is the pause before a damaged batch is fetched again.
const damageBackoff = 250 * time.Millisecond

// unreadable handles an error that concerns only the partition p, such as a deleted topic, a missing permission or a
// damaged batch. The partition is read again after a pause. When the log no longer contains the position, the partition
// is opened again, which finds a valid position.
func (r *reader) unreadable(p *partition, err error) {
	p.backOff(partitionBackoff)
	switch {
	case errors.Is(err, broker.ErrCorrupt):
		p.damage.times, p.damage.at = p.damaged()+1, p.next
		if p.damage.times < damageTries {
			p.backOff(damageBackoff)
		}
	case errors.Is(err, broker.ErrOutOfRange):
		p.backOff(reopenBackoff)
		p.reopen()
	}
	r.i.metrics.of(r.i.metrics.partitionErrors, p.Topic).Inc()
	r.i.log.Warn("a partition cannot be read", zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
		zap.Int64("offset", p.next), zap.Error(err))
}

var errQuota = errors.New("broker only asks for pauses: the fetch quota of this user is perhaps smaller than the next batch")

// refusedByQuota counts an answer that contained only a pause. The request began with the partition p. A broker sends the
// first batch of an answer whole, however small the request is; so if p has records before the first record of an open
// transaction, its next batch is too large for the quota.
func (r *reader) refusedByQuota(ctx context.Context, p *partition) {
	if !p.quota.pauses.Add() {
		return
	}
	switch ends, err := r.i.cluster.StableOffsets(ctx, []broker.TopicPartition{p.TopicPartition}); {
	case err != nil: // the next answer without records asks again
		return
	case ends[p.TopicPartition] <= p.next:
		r.readInQuota(ctx, p)
		return
	}
	r.i.metrics.of(r.i.metrics.partitionErrors, p.Topic).Inc()
	r.reportQuota(ctx, p, errQuota)
}

// readInQuota forgets the answers that contained only a pause, because a batch of p was read, or there is none to read.
func (r *reader) readInQuota(ctx context.Context, p *partition) {
	if p.quota.pauses.Any() {
		p.quota.pauses.Reset()
		r.reportQuota(ctx, p, nil)
	}
}

func (r *reader) reportQuota(ctx context.Context, p *partition, err error) {
	log := r.i.log.With(zap.String("topic", p.Topic), zap.Int32("partition", p.Partition), zap.Int64("offset", p.next))
	p.quota.outage.Report(ctx, log, err, "a partition cannot be read", "a partition can be read again")
}

// verifyTopicIDs reads the ids of the topics of the fetched records. It returns those partitions of the request whose
// topic has another id now. The returned partitions must be opened again, and their fetched records must not be stored,
// because the records may belong to the deleted topic.
func (r *reader) verifyTopicIDs(ctx context.Context, asked []*partition, res broker.FetchResponse) (others []*partition, err error) {
	var parts []broker.TopicPartition
	for n, got := range res.Partitions {
		if p := asked[n]; p.topicID != "" && (got.Next > p.next || got.Portions != nil) {
			parts = append(parts, p.TopicPartition)
		}
	}
	if len(parts) == 0 {
		return nil, nil
	}
	topics, err := r.i.cluster.Topics(ctx, broker.TopicNames(parts)...)
	if err != nil {
		return nil, fmt.Errorf("ask for topic ids: %w", err)
	}
	described := make(map[string]broker.Topic, len(topics))
	for _, t := range topics {
		described[t.Name] = t
	}
	for _, p := range asked {
		if t, ok := described[p.Topic]; ok && p.topicID != "" && t.ID != p.topicID {
			p.backOff(reopenBackoff)
			p.reopen()
			others = append(others, p)
			if !errors.Is(t.Err, broker.ErrUnauthorized) { // else the reader says so when it opens the partition again
				r.i.log.Warn("a topic was deleted and perhaps made again", zapPartition(p)...)
			}
		}
	}
	return others, nil
}

// enqueue cuts the fetched records of p into chunks and passes them to the writers. The chunks keep a part of the
// reserved memory until they are stored; the result taken is the size of this part. The function done, which may be
// nil, is called when the last chunk is stored.
func (r *reader) enqueue(ctx context.Context, p *partition, got broker.FetchedPartition, reserved int64, done func()) (taken int64) {
	r.logUnreadable(p, got.Records)
	chunks := cut(p, got)
	chunks[len(chunks)-1].done = done
	for _, c := range chunks {
		c.reserved = min(c.bytes, reserved-taken)
		p.waiting.Add(1)
		select {
		case p.writer.chunks <- c:
			taken += c.reserved
			p.next = c.to
		case <-ctx.Done():
			p.waiting.Add(-1)
			return taken
		}
	}
	return taken
}

// logUnreadable logs the first offset that is skipped because it cannot be read.
func (r *reader) logUnreadable(p *partition, records []broker.Record) {
	for n := range records {
		if d := records[n].Defect; d != nil && d.Reason != "" {
			r.i.log.Error("offsets cannot be read; a placeholder is stored", zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
				zap.Int64("offset", records[n].Offset), zap.String("reason", d.Reason))
			return
		}
	}
}
