package ingest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// A broker answers as soon as there is a record: long waits delay nothing and make an idle ingester cheap.
const (
	fetchWait      = 500 * time.Millisecond // while things happen
	idleWait       = 5 * time.Second        // when nothing has for a while
	fetchBytes     = 4 << 20                // of one answer
	idleShare      = 64                     // of the buffer, for an answer that may be long in coming
	partitionBytes = 1 << 20
)

// fetcher reads the partitions of one leader by one request at a time, on one connection.
type fetcher struct {
	r          *reader
	i          *Ingester
	leader     int32
	loop       string          // its name for the watchdog
	inbox      chan *partition // has room for all
	partitions []*partition
	turn       int
	asked      []*partition        // of the request under way, in its order
	gone       map[*partition]bool // to be given back
	away       map[*partition]bool // given to an unpacker
	starved    bool                // the last answer was cut short for want of memory
	quiet      int                 // answers in a row that brought nothing and lost nobody

	interrupt atomic.Pointer[context.CancelFunc] // ends a long wait; nil while there is none
}

func newFetcher(r *reader, leader int32) *fetcher {
	return &fetcher{r: r, i: r.i, leader: leader, loop: fetchLoop(leader), inbox: make(chan *partition, r.total), gone: map[*partition]bool{}, away: map[*partition]bool{}}
}

// run reads until ctx ends. A failure gives partitions back to the reader; it never ends the fetcher.
func (f *fetcher) run(ctx context.Context) error {
	defer f.i.watchdog.rest(f.loop)
	for ctx.Err() == nil {
		f.takeIn(ctx)
		f.round(ctx)
		f.giveBack()
	}
	return nil
}

// add gives the fetcher partitions to read, which it asks for at once. It may be called while the fetcher runs.
func (f *fetcher) add(partitions ...*partition) {
	for _, p := range partitions {
		f.inbox <- p
	}
	if stop := f.interrupt.Load(); stop != nil {
		(*stop)()
	}
}

// takeIn adds what the reader sent, and waits for something when there is nothing to read.
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
	if len(f.gone)+len(f.away) == 0 {
		return
	}
	var kept []*partition
	for _, p := range f.partitions {
		switch {
		case f.away[p]:
		case f.gone[p]:
			f.r.returned <- p
		default:
			kept = append(kept, p)
		}
	}
	f.partitions = kept
	clear(f.gone)
	clear(f.away)
}

// unit is how much one answer brings, and one portion of a large batch takes.
func (c Config) unit() int64 { return min(fetchBytes, c.BufferBytes/4) }

// round is one request. Memory for its answer is reserved before it is sent, half as much again for decoding, and
// more only if it is free. So nothing is fetched while the writers lag.
func (f *fetcher) round(ctx context.Context) {
	limit := f.i.cfg.unit()
	if f.quiet > 0 {
		// Other leaders' records need the room meanwhile. What comes after the first is asked for in full.
		limit = min(limit, f.i.cfg.BufferBytes/idleShare)
	}
	room := limit + limit/2
	if f.starved {
		room = 2 * limit
	}
	req := f.request(time.Now(), limit)
	if len(req.Partitions) == 0 {
		wait.Sleep(ctx, fetchWait) // all of them rest
		return
	}
	f.i.watchdog.rest(f.loop)
	if f.r.budget.Acquire(ctx, room) != nil {
		return // ctx ended
	}
	f.i.watchdog.turn(f.loop)
	req.Room = &broker.Room{Free: room - limit, Done: ctx.Done(), More: func(bytes int64) bool {
		if !f.r.budget.TryAcquire(bytes) {
			return false
		}
		room += bytes
		return true
	}}
	throttle := f.fetch(ctx, req, &room)
	f.r.budget.Release(room)
	f.i.watchdog.rest(f.loop)
	wait.Sleep(ctx, throttle)
}

// request asks for every partition that does not rest, beginning with another one each time: the broker fills its
// answer in order, and a record larger than the answer is only sent for the first.
func (f *fetcher) request(now time.Time, limit int64) broker.FetchRequest {
	req := broker.FetchRequest{
		Leader: f.leader, MaxWait: idleWait, MaxBytes: int32(limit), ReadCommitted: true,
		MaxBatchBytes: limit, Limits: f.i.cfg.limits(),
		Partitions: make([]broker.FetchPartition, 0, len(f.partitions)),
	}
	if f.quiet < 4 {
		req.MaxWait = min(req.MaxWait, fetchWait<<f.quiet)
	}
	f.asked = f.asked[:0]
	f.turn++
	for n := range f.partitions {
		p := f.partitions[(n+f.turn)%len(f.partitions)]
		if f.i.quarantine.paused(p.Topic) {
			p.rest(quarantineInterval)
		}
		if left := p.restUntil.Sub(now); left > 0 {
			req.MaxWait = min(req.MaxWait, max(left, fetchWait)) // it is not forgotten over the others
			continue
		}
		f.asked = append(f.asked, p)
		req.Partitions = append(req.Partitions, broker.FetchPartition{
			TopicPartition: p.TopicPartition, Offset: p.next, MaxBytes: partitionBytes, GiveUp: p.givenUp(),
		})
	}
	return req
}

// fetch sends one request and gives its records to the writers, with their room. It returns the throttle.
func (f *fetcher) fetch(ctx context.Context, req broker.FetchRequest, room *int64) (throttle time.Duration) {
	res, err := f.ask(ctx, req)
	if errors.Is(err, errInterrupted) {
		return 0
	}
	hurried := f.quiet > 0
	f.quiet++
	if err == nil {
		// An answer that began before a topic was made again is not of the new topic: fetches go by name.
		var others []*partition
		if others, err = f.r.sameLives(ctx, f.asked, res); err == nil {
			f.leave(others...)
		}
	}
	if err != nil {
		f.quiet = 0
		if ctx.Err() == nil {
			f.lose(ctx, err, f.asked...)
		}
		return 0
	}
	f.i.watchdog.rest(f.loop) // what follows may wait for the writers
	if f.starved = res.Starved; f.starved {
		f.quiet = 0
	}
	var lost []*partition
	var reason error
	for n, got := range res.Partitions {
		p := f.asked[n]
		if f.gone[p] {
			continue
		}
		if got.Next > p.next || got.Err != nil || got.Heavy > 0 {
			f.quiet = 0
		}
		if got.Next > p.next {
			*room -= f.r.hand(ctx, p, got, *room, nil)
		}
		if got.HighWatermark >= 0 {
			f.i.metrics.showLag(p, got.HighWatermark-got.Next)
		}
		switch {
		case moved(got.Err):
			lost, reason = append(lost, p), got.Err
		case got.Err != nil:
			f.unreadable(p, got.Err)
		case got.Heavy > 0 && !hurried: // else it is asked for in full first
			f.unpack(ctx, p, int64(got.Heavy))
		case got.HighWatermark >= 0:
			f.r.answered(p)
		}
	}
	f.lose(ctx, reason, lost...)
	return res.Throttle
}

// unpack leaves a partition to an unpacker, which gives it back to the reader.
func (f *fetcher) unpack(ctx context.Context, p *partition, size int64) {
	f.away[p] = true
	f.r.unpacking.Go(func() error {
		(&unpacker{r: f.r, leader: f.leader, p: p, size: size}).run(ctx)
		return nil
	})
}

// errInterrupted says that there is something new to ask for.
var errInterrupted = errors.New("the wait for records was cut short")

// ask sends one request. Partitions that are added end a long wait; its records are asked for again.
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

// lose gives up partitions because their leader did not answer for them, or is another broker by now.
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

// moved reports whether another look at who leads a partition may mend err.
func moved(err error) bool {
	return errors.Is(err, broker.ErrNotLeader) || errors.Is(err, broker.ErrNoLeader) || errors.Is(err, broker.ErrUnavailable)
}

// unreadable handles an error of p alone.
func (f *fetcher) unreadable(p *partition, err error) {
	f.r.unreadable(p, err)
	if !p.opened {
		f.leave(p)
	}
}
