package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

const (
	fetchWait      = 500 * time.Millisecond
	fetchBytes     = 4 << 20 // of one answer; a larger record comes alone
	partitionBytes = 1 << 20
	partitionRest  = 5 * time.Second
)

// fetchAll reads all partitions, each from its leader, until ctx ends. When
// leaders move it asks who leads now and goes on from where each partition is.
func (i *Ingester) fetchAll(ctx context.Context, partitions []*partition, writers []*writer, budget *semaphore.Weighted) error {
	owner := make(map[broker.TopicPartition]*writer, len(partitions))
	for n, p := range partitions {
		owner[p.TopicPartition] = writers[n%len(writers)]
	}
	for attempt := 0; ctx.Err() == nil; attempt++ {
		leaders, err := i.byLeader(ctx, partitions)
		if err == nil {
			err = i.fetchFrom(ctx, leaders, owner, budget, func() { attempt = 0 })
		}
		if errors.Is(err, errNewLife) || errors.Is(err, errOutOfRange) || ctx.Err() != nil {
			return err
		}
		i.kafkaFailed(ctx, "fetch", err)
		wait(ctx, backoff(attempt))
	}
	return nil
}

// fetchFrom runs one fetcher for each leader. The first that cannot go on ends
// them all.
func (i *Ingester) fetchFrom(ctx context.Context, leaders map[int32][]*partition,
	owner map[broker.TopicPartition]*writer, budget *semaphore.Weighted, progress func(),
) error {
	g, ctx := errgroup.WithContext(ctx)
	for leader, partitions := range leaders {
		if leader < 0 {
			// The others are read meanwhile; the leaderless are looked for again soon.
			g.Go(func() error {
				wait(ctx, 2*time.Second)
				return fmt.Errorf("%d partitions: %w", len(partitions), broker.ErrNoLeader)
			})
			continue
		}
		f := &fetcher{i: i, leader: leader, partitions: partitions, owner: owner, budget: budget, progress: progress}
		g.Go(func() error { return f.run(ctx) })
	}
	return g.Wait()
}

func (i *Ingester) byLeader(ctx context.Context, partitions []*partition) (map[int32][]*partition, error) {
	var names []string
	byName := map[broker.TopicPartition]*partition{}
	parts := make([]broker.TopicPartition, len(partitions))
	for n, p := range partitions {
		parts[n] = p.TopicPartition
		byName[p.TopicPartition] = p
		if !slices.Contains(names, p.Topic) {
			names = append(names, p.Topic)
		}
	}
	topics, err := i.cluster.Topics(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("find leaders: %w", err)
	}
	out := map[int32][]*partition{}
	for leader, led := range broker.GroupByLeader(topics, parts) {
		for _, tp := range led {
			out[leader] = append(out[leader], byName[tp])
		}
	}
	return out, nil
}

// fetcher reads the partitions of one leader, one request at a time, so one
// connection serves thousands of partitions.
type fetcher struct {
	i          *Ingester
	leader     int32
	partitions []*partition
	owner      map[broker.TopicPartition]*writer
	budget     *semaphore.Weighted
	progress   func()
	turn       int
	asked      []*partition // of the request under way, in its order
}

func (f *fetcher) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := f.round(ctx); err != nil {
			return err
		}
	}
	return nil
}

// round is one request. Room for its answer is taken before it is sent, which
// is what bounds memory: while the writers are behind, nothing is fetched.
func (f *fetcher) round(ctx context.Context) error {
	req := f.request(time.Now())
	if len(req.Partitions) == 0 {
		wait(ctx, fetchWait) // all of them rest
		return nil
	}
	room := min(int64(fetchBytes), f.i.cfg.BufferBytes)
	if f.budget.Acquire(ctx, room) != nil {
		return nil // ctx ended
	}
	left, err := f.fetch(ctx, req, room)
	f.budget.Release(left)
	return err
}

// request asks for every partition that does not rest, beginning with another
// one each time: the broker fills its answer in order, and a record larger than
// the answer is only sent for the first.
func (f *fetcher) request(now time.Time) broker.FetchRequest {
	req := broker.FetchRequest{Leader: f.leader, MaxWait: fetchWait, MaxBytes: fetchBytes, ReadCommitted: true}
	f.asked = f.asked[:0]
	f.turn++
	for n := range f.partitions {
		p := f.partitions[(n+f.turn)%len(f.partitions)]
		if now.Before(p.restUntil) {
			continue
		}
		f.asked = append(f.asked, p)
		req.Partitions = append(req.Partitions, broker.FetchPartition{
			TopicPartition: p.TopicPartition, Offset: p.next, MaxBytes: partitionBytes,
		})
	}
	return req
}

// fetch sends one request and hands what it brings to the writers. It returns
// how much of room is free again at once.
func (f *fetcher) fetch(ctx context.Context, req broker.FetchRequest, room int64) (left int64, err error) {
	res, err := f.i.cluster.Fetch(ctx, req)
	if err != nil {
		if ctx.Err() != nil {
			return room, nil
		}
		return room, err
	}
	f.i.health.set(kafkaHealth, nil)
	// An answer that began before a topic was made again must not be taken for
	// the new topic's records, nor the other way round; fetches go by name.
	if err := f.i.sameLives(ctx, f.asked, res); err != nil {
		return room, err
	}
	for n, got := range res.Partitions {
		p := f.asked[n]
		if got.Next > p.next {
			f.progress()
			room -= f.hand(ctx, p, got, room)
			p.next = got.Next
		}
		if got.HighWatermark >= 0 {
			f.i.metrics.lag.WithLabelValues(p.Topic, partitionLabel(p.Partition)).Set(float64(got.HighWatermark - got.Next))
		}
		if got.Err != nil {
			if err := f.partitionFailed(p, got.Err); err != nil {
				return room, err
			}
		}
	}
	wait(ctx, res.Throttle)
	return room, nil
}

// hand cuts what came for p into chunks and passes them on. It returns the room
// that they take until they are stored.
func (f *fetcher) hand(ctx context.Context, p *partition, got broker.FetchedPartition, room int64) (taken int64) {
	for _, c := range cut(p, got) {
		c.room = min(c.bytes, room-taken)
		taken += c.room
		select {
		case f.owner[p.TopicPartition].chunks <- c:
		case <-ctx.Done():
			return taken // nobody will store it: everything ends with ctx
		}
	}
	return taken
}

// partitionFailed returns an error when the fetcher must end for it.
func (f *fetcher) partitionFailed(p *partition, err error) error {
	switch {
	case errors.Is(err, broker.ErrOutOfRange):
		return fmt.Errorf("%s at %d: %w", p.TopicPartition, p.next, errOutOfRange)
	case errors.Is(err, broker.ErrNotLeader), errors.Is(err, broker.ErrNoLeader), errors.Is(err, broker.ErrUnavailable):
		return fmt.Errorf("%s: %w", p.TopicPartition, err)
	}
	// A topic that is going, a right that is missing, a batch that is damaged:
	// its neighbours are read on, and it is asked again in a while. Nothing of it
	// is skipped.
	p.restUntil = time.Now().Add(partitionRest)
	f.i.metrics.partitionErrors.WithLabelValues(p.Topic).Inc()
	f.i.log.Warn("a partition cannot be read", zap.String("topic", p.Topic), zap.Int32("partition", p.Partition),
		zap.Int64("offset", p.next), zap.Error(err))
	return nil
}

// sameLives asks for the ids of the topics that brought something.
func (i *Ingester) sameLives(ctx context.Context, asked []*partition, res broker.FetchResponse) error {
	want := map[string]string{}
	var names []string
	for n, got := range res.Partitions {
		p := asked[n]
		if _, seen := want[p.Topic]; got.Next > p.next && p.topicID != "" && !seen {
			want[p.Topic] = p.topicID
			names = append(names, p.Topic)
		}
	}
	if len(names) == 0 {
		return nil
	}
	topics, err := i.cluster.Topics(ctx, names...)
	if err != nil {
		return fmt.Errorf("ask for topic ids: %w", err)
	}
	for _, t := range topics {
		if t.ID != want[t.Name] {
			return fmt.Errorf("%s: %w", t.Name, errNewLife)
		}
	}
	return nil
}

// chunk is a run of one partition's offsets and the records within it.
type chunk struct {
	p        *partition
	from, to int64
	records  []broker.Record
	bytes    int64
	room     int64 // of the budget, given back when the chunk is stored
}

// A chunk is at most a batch: the knee of inserts a second lies at a thousand
// rows, and a few megabytes keep one statement short.
const (
	batchRows  = 1000
	batchBytes = 4 << 20
)

// cut splits what came for p. The last chunk reaches to the next offset to
// fetch, over control records and gaps.
func cut(p *partition, got broker.FetchedPartition) []chunk {
	var chunks []chunk
	c := chunk{p: p, from: p.next}
	for n, r := range got.Records {
		size := recordBytes(r)
		if len(c.records) == batchRows || len(c.records) > 0 && c.bytes+size > batchBytes {
			c.to = r.Offset
			chunks = append(chunks, c)
			c = chunk{p: p, from: r.Offset}
		}
		c.records = append(c.records, got.Records[n])
		c.bytes += size
	}
	c.to = got.Next
	return append(chunks, c)
}

func recordBytes(r broker.Record) int64 {
	n := len(r.Key) + len(r.Value) + 64
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 16
	}
	return int64(n)
}
