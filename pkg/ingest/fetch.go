package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// A broker answers as soon as there is a record, however long it may wait for
// one. So waiting long delays nothing, and it is what an idle ingester costs: a
// request names every partition.
const (
	fetchWait      = 500 * time.Millisecond // while things happen
	idleWait       = 5 * time.Second        // when nothing has for a while
	fetchBytes     = 4 << 20                // of one answer; a larger record comes alone
	idleShare      = 64                     // of the buffer, for an answer that may be long in coming
	partitionBytes = 1 << 20
)

// fetcher reads the partitions of one leader, one request at a time, so one
// connection serves thousands of partitions.
type fetcher struct {
	r          *reader
	i          *Ingester
	leader     int32
	loop       string          // its name for the watchdog
	inbox      chan *partition // has room for all
	partitions []*partition
	turn       int
	asked      []*partition // of the request under way, in its order
	gone       map[*partition]bool
	expected   int64 // bytes of the next answer, by what came before
	quiet      int   // answers in a row that brought nothing and lost nobody

	interrupt atomic.Pointer[context.CancelFunc] // ends a long wait; nil while there is none
}

func newFetcher(r *reader, leader int32) *fetcher {
	return &fetcher{r: r, i: r.i, leader: leader, loop: fetchLoop(leader), inbox: make(chan *partition, r.total), gone: map[*partition]bool{}}
}

// run reads until ctx ends. A failure gives partitions back to the reader; it
// never ends the fetcher.
func (f *fetcher) run(ctx context.Context) error {
	defer f.i.watchdog.rest(f.loop)
	for ctx.Err() == nil {
		f.takeIn(ctx)
		f.round(ctx)
		f.giveBack()
	}
	return nil
}

// add gives the fetcher partitions to read, which it asks for at once. It may be
// called while the fetcher runs.
func (f *fetcher) add(partitions ...*partition) {
	for _, p := range partitions {
		f.inbox <- p
	}
	if stop := f.interrupt.Load(); stop != nil {
		(*stop)()
	}
}

// takeIn adds what the reader sent, and waits for something when there is
// nothing to read.
func (f *fetcher) takeIn(ctx context.Context) {
	f.i.watchdog.rest(f.loop)
	defer f.i.watchdog.turn(f.loop)
	if len(f.partitions) == 0 {
		select {
		case <-ctx.Done():
			return
		case p := <-f.inbox:
			f.take(p)
		}
	}
	for {
		select {
		case p := <-f.inbox:
			f.take(p)
		default:
			return
		}
	}
}

func (f *fetcher) take(p *partition) {
	f.partitions = append(f.partitions, p)
	f.quiet = 0
}

// giveBack returns the partitions that this fetcher is not to read any more.
func (f *fetcher) giveBack() {
	if len(f.gone) == 0 {
		return
	}
	var kept []*partition
	for _, p := range f.partitions {
		if f.gone[p] {
			f.r.returned <- p
		} else {
			kept = append(kept, p)
		}
	}
	f.partitions = kept
	clear(f.gone)
}

// round is one request. Room for its answer is taken before it is sent, which
// is what bounds memory: while the writers are behind, nothing is fetched.
func (f *fetcher) round(ctx context.Context) {
	limit := min(int64(fetchBytes), f.i.cfg.BufferBytes)
	if f.quiet > 0 {
		// Other leaders' records need the room meanwhile. What comes after the
		// first is asked for in full.
		limit = min(limit, f.i.cfg.BufferBytes/idleShare)
	}
	req := f.request(time.Now(), limit)
	if len(req.Partitions) == 0 {
		wait(ctx, fetchWait) // all of them rest
		return
	}
	room := min(max(limit, f.expected), f.i.cfg.BufferBytes)
	f.i.watchdog.rest(f.loop)
	if f.r.budget.Acquire(ctx, room) != nil {
		return // ctx ended
	}
	f.i.watchdog.turn(f.loop)
	left, throttle := f.fetch(ctx, req, room)
	f.r.budget.Release(left)
	f.i.watchdog.rest(f.loop)
	wait(ctx, throttle)
}

// request asks for every partition that does not rest, beginning with another
// one each time: the broker fills its answer in order, and a record larger than
// the answer is only sent for the first.
func (f *fetcher) request(now time.Time, limit int64) broker.FetchRequest {
	req := broker.FetchRequest{
		Leader: f.leader, MaxWait: idleWait, MaxBytes: int32(limit), ReadCommitted: true,
		Partitions: make([]broker.FetchPartition, 0, len(f.partitions)),
	}
	if f.quiet < 4 {
		req.MaxWait = min(req.MaxWait, fetchWait<<f.quiet)
	}
	f.asked = f.asked[:0]
	f.turn++
	for n := range f.partitions {
		p := f.partitions[(n+f.turn)%len(f.partitions)]
		if left := p.restUntil.Sub(now); left > 0 {
			req.MaxWait = min(req.MaxWait, max(left, fetchWait)) // it is not forgotten over the others
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
// how much of room is free again at once, and how long the broker wants peace.
func (f *fetcher) fetch(ctx context.Context, req broker.FetchRequest, room int64) (left int64, throttle time.Duration) {
	res, err := f.ask(ctx, req)
	if errors.Is(err, errInterrupted) {
		return room, 0
	}
	f.quiet++
	if err == nil {
		// An answer that began before a topic was made again must not be taken for
		// the new topic's records, nor the other way round; fetches go by name.
		err = f.sameLives(ctx, res)
	}
	if err != nil {
		f.quiet = 0
		if ctx.Err() == nil {
			f.lose(ctx, err, f.asked...)
		}
		return room, 0
	}
	f.i.watchdog.rest(f.loop) // what follows may wait for the writers
	room = f.widen(res, room)
	var lost []*partition
	var reason error
	for n, got := range res.Partitions {
		p := f.asked[n]
		if f.gone[p] {
			continue
		}
		if got.Next > p.next || got.Err != nil {
			f.quiet = 0
		}
		if got.Next > p.next {
			room -= f.hand(ctx, p, got, room)
		}
		if got.HighWatermark >= 0 {
			f.i.metrics.showLag(p, got.HighWatermark-got.Next)
		}
		switch {
		case moved(got.Err):
			lost, reason = append(lost, p), got.Err
		case got.Err != nil:
			f.unreadable(p, got.Err)
		case got.HighWatermark >= 0:
			f.r.answered(p)
		}
	}
	f.lose(ctx, reason, lost...)
	return room, res.Throttle
}

// errInterrupted says that there is something new to ask for.
var errInterrupted = errors.New("the wait for records was cut short")

// ask sends one request. While its answer may be long in coming, partitions that
// are added end the wait; what the broker answers then is asked for again.
func (f *fetcher) ask(ctx context.Context, req broker.FetchRequest) (broker.FetchResponse, error) {
	if req.MaxWait <= fetchWait {
		return f.i.cluster.Fetch(ctx, req)
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	f.interrupt.Store(&stop)
	defer f.interrupt.Store(nil)
	if len(f.inbox) > 0 { // it came before there was anything to interrupt
		return broker.FetchResponse{}, errInterrupted
	}
	res, err := f.i.cluster.Fetch(asking, req)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		return res, errInterrupted
	}
	return res, err
}

// lose gives up partitions because their leader did not answer for them, or is
// another broker by now.
func (f *fetcher) lose(ctx context.Context, reason error, partitions ...*partition) {
	f.r.failed(ctx, fmt.Sprintf("fetch from broker %d", f.leader), reason, partitions...)
	f.leave(partitions...)
}

// leave marks partitions to be given back.
func (f *fetcher) leave(partitions ...*partition) {
	for _, p := range partitions {
		f.gone[p] = true
	}
}

// widen takes more of the budget for an answer that turned out larger than its
// room, as far as there is more: large records come whole, and compressed ones
// grow. It does not wait, for nobody could store what it waits for; but the next
// answer is expected to be as large, and its room is waited for.
func (f *fetcher) widen(res broker.FetchResponse, room int64) int64 {
	var need int64
	for _, got := range res.Partitions {
		for n := range got.Records {
			need += recordBytes(&got.Records[n])
		}
	}
	f.expected = max(need, f.expected/2)
	for extra := min(need, f.i.cfg.BufferBytes) - room; extra > 0; extra /= 2 {
		if f.r.budget.TryAcquire(extra) {
			return room + extra
		}
	}
	return room
}

// hand cuts what came for p into chunks and passes them on. It returns the room
// that they take until they are stored.
func (f *fetcher) hand(ctx context.Context, p *partition, got broker.FetchedPartition, room int64) (taken int64) {
	for _, c := range cut(p, got) {
		c.room = min(c.bytes, room-taken)
		p.waiting.Add(1)
		select {
		case p.writer.chunks <- c:
			taken += c.room
			p.next = c.to
		case <-ctx.Done():
			p.waiting.Add(-1)
			return taken
		}
	}
	return taken
}

// moved reports whether another look at who leads a partition may mend err.
func moved(err error) bool {
	return errors.Is(err, broker.ErrNotLeader) || errors.Is(err, broker.ErrNoLeader) || errors.Is(err, broker.ErrUnavailable)
}

// unreadable handles an error of p alone: a topic that is going, a right that is
// missing, a batch that is damaged. Its neighbours are read on, and it is asked
// again in a while; nothing of it is skipped. Where the log does not hold the
// position any more, the position is looked up again.
func (f *fetcher) unreadable(p *partition, err error) {
	f.r.unreadable(p, err)
	if errors.Is(err, broker.ErrOutOfRange) {
		p.rest(reopenRest)
		p.reopen()
		f.leave(p)
	}
}

// sameLives asks for the ids of the topics that brought something. Partitions of
// a topic that is another one now leave, and what came for them is dropped.
func (f *fetcher) sameLives(ctx context.Context, res broker.FetchResponse) error {
	var parts []broker.TopicPartition
	for n, got := range res.Partitions {
		if p := f.asked[n]; got.Next > p.next && p.topicID != "" {
			parts = append(parts, p.TopicPartition)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	topics, err := f.i.cluster.Topics(ctx, topicNames(parts)...)
	if err != nil {
		return fmt.Errorf("ask for topic ids: %w", err)
	}
	ids := make(map[string]string, len(topics))
	for _, t := range topics {
		ids[t.Name] = t.ID
	}
	for _, p := range f.asked {
		if id, ok := ids[p.Topic]; ok && p.topicID != "" && id != p.topicID {
			p.rest(reopenRest)
			p.reopen()
			f.leave(p)
			f.i.log.Warn("a topic was deleted and perhaps made again", zapPartition(p)...)
		}
	}
	return nil
}
