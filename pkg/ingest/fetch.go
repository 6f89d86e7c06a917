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

// The longest waits of a fetch, and the sizes of answers. A broker answers as soon as there is a record, so long waits
// delay no record and make an idle ingester cheap.
const (
	fetchWait      = 500 * time.Millisecond // longest wait while records arrive
	idleWait       = 5 * time.Second        // longest wait when no record has arrived for a while
	fetchBytes     = 4 << 20                // size of one answer
	idleShare      = 64                     // the buffer's size is divided by this for an answer that may take long
	partitionBytes = 1 << 20
)

// fetcher reads the partitions of one leader, with one request at a time, on one connection.
type fetcher struct {
	r          *reader
	i          *Ingester
	leader     int32
	loop       string          // name of the fetcher's loop for the watchdog
	inbox      chan *partition // has capacity for all partitions of the generation
	partitions []*partition
	turn       int
	asked      []*partition        // partitions of the current request, in its order
	gone       map[*partition]bool // partitions to be returned to the reader
	away       map[*partition]bool // partitions given to an unpacker
	starved    bool                // the last answer was incomplete for lack of memory
	quiet      int                 // answers in a row without records and without a lost partition

	interrupt atomic.Pointer[context.CancelFunc] // ends a long wait; nil without one
}

func newFetcher(r *reader, leader int32) *fetcher {
	return &fetcher{r: r, i: r.i, leader: leader, loop: fetchLoop(leader), inbox: make(chan *partition, r.total), gone: map[*partition]bool{}, away: map[*partition]bool{}}
}

// run reads until ctx ends. A failure returns partitions to the reader; it never ends the fetcher.
func (f *fetcher) run(ctx context.Context) error {
	defer f.i.watchdog.Idle(f.loop)
	for ctx.Err() == nil {
		f.drain(ctx)
		f.poll(ctx)
		f.release()
	}
	return nil
}

// add gives the fetcher partitions to read, which it requests at once. It may be called while the fetcher runs.
func (f *fetcher) add(partitions ...*partition) {
	for _, p := range partitions {
		f.inbox <- p
	}
	if stop := f.interrupt.Load(); stop != nil {
		(*stop)()
	}
}

// drain adds the partitions that the reader sent, and waits for a partition when there is nothing to read.
func (f *fetcher) drain(ctx context.Context) {
	f.i.watchdog.Idle(f.loop)
	defer f.i.watchdog.Active(f.loop)
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

// release returns the partitions that this fetcher must no longer read to the reader.
func (f *fetcher) release() {
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

// poll sends one request. Before it sends the request, it reserves memory for the answer, plus half as much for
// decoding. While it decodes, it takes more memory only if some is free. So the fetcher fetches nothing while the
// writers are late.
func (f *fetcher) poll(ctx context.Context) {
	limit := f.i.cfg.unit()
	if f.quiet > 0 {
		// The last answer was empty, so this answer may take long, and its memory should be free for the records of
		// other leaders meanwhile. After the first record, answers are requested in full size again.
		limit = min(limit, f.i.cfg.BufferBytes/idleShare)
	}
	reserved := limit + limit/2
	if f.starved {
		reserved = 2 * limit
	}
	req := f.request(time.Now(), limit)
	if len(req.Partitions) == 0 {
		wait.Sleep(ctx, fetchWait) // all partitions are in a pause
		return
	}
	f.i.watchdog.Idle(f.loop)
	if f.r.budget.Acquire(ctx, reserved) != nil {
		return // ctx ended
	}
	f.i.watchdog.Active(f.loop)
	req.Memory = &broker.MemoryReservation{Free: reserved - limit, Done: ctx.Done(), More: func(bytes int64) bool {
		if !f.r.budget.TryAcquire(bytes) {
			return false
		}
		reserved += bytes
		return true
	}}
	throttle := f.fetch(ctx, req, &reserved)
	f.r.budget.Release(reserved)
	f.i.watchdog.Idle(f.loop)
	wait.Sleep(ctx, throttle)
}

// request asks for every partition that is not in a pause, starting with a different partition each time: the broker
// fills its answer in order, and sends a record that is larger than the limit of the answer only for the first
// partition.
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
			p.backOff(quarantineInterval)
		}
		if left := p.backoffUntil.Sub(now); left > 0 {
			// The long wait must not extend the partition's pause.
			req.MaxWait = min(req.MaxWait, max(left, fetchWait))
			continue
		}
		f.asked = append(f.asked, p)
		req.Partitions = append(req.Partitions, broker.FetchPartition{
			TopicPartition: p.TopicPartition, Offset: p.next, MaxBytes: partitionBytes, SkipUnreadable: p.skipUnreadable(),
		})
	}
	return req
}

// fetch sends one request and passes its records to the writers, with their reserved memory. It returns the broker's
// throttle time.
func (f *fetcher) fetch(ctx context.Context, req broker.FetchRequest, reserved *int64) (throttle time.Duration) {
	res, err := f.ask(ctx, req)
	if errors.Is(err, errInterrupted) {
		return 0
	}
	hurried := f.quiet > 0
	f.quiet++
	if err == nil {
		// Requests name topics, not ids: an answer that began before a topic was created again may have records of the
		// deleted topic.
		var others []*partition
		if others, err = f.r.verifyTopicIDs(ctx, f.asked, res); err == nil {
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
	f.i.watchdog.Idle(f.loop) // the next steps may wait for the writers
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
			*reserved -= f.r.enqueue(ctx, p, got, *reserved, nil)
		}
		if got.HighWatermark >= 0 {
			f.i.metrics.showLag(p, got.HighWatermark-got.Next)
		}
		switch {
		case moved(got.Err):
			lost, reason = append(lost, p), got.Err
		case got.Err != nil:
			f.unreadable(p, got.Err)
		// A batch that was too large for a small answer is first requested in full size.
		case got.Heavy > 0 && !hurried:
			f.unpack(ctx, p, int64(got.Heavy))
		case got.HighWatermark >= 0:
			f.r.answered(p)
		}
	}
	f.lose(ctx, reason, lost...)
	return res.Throttle
}

// unpack passes a partition to an unpacker, which returns it to the reader.
func (f *fetcher) unpack(ctx context.Context, p *partition, size int64) {
	f.away[p] = true
	f.r.unpacking.Go(func() error {
		(&unpacker{r: f.r, leader: f.leader, p: p, size: size}).run(ctx)
		return nil
	})
}

// errInterrupted says that there are new partitions to request.
var errInterrupted = errors.New("the wait for records was cut short")

// ask sends one request. Added partitions end a long wait; the records that the interrupted request asked for are
// requested again.
func (f *fetcher) ask(ctx context.Context, req broker.FetchRequest) (broker.FetchResponse, error) {
	if req.MaxWait <= fetchWait {
		return f.i.cluster.Fetch(ctx, req)
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	f.interrupt.Store(&stop)
	defer f.interrupt.Store(nil)
	if len(f.inbox) > 0 { // partitions came before the request could be interrupted
		return broker.FetchResponse{}, errInterrupted
	}
	res, err := f.i.cluster.Fetch(asking, req)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		return res, errInterrupted
	}
	return res, err
}

// lose gives up partitions because the broker did not answer for them, or no longer leads them.
func (f *fetcher) lose(ctx context.Context, reason error, partitions ...*partition) {
	f.r.failed(ctx, fmt.Sprintf("fetch from broker %d", f.leader), reason, partitions...)
	f.leave(partitions...)
}

// leave marks partitions to be returned.
func (f *fetcher) leave(partitions ...*partition) {
	for _, p := range partitions {
		f.gone[p] = true
	}
}

// moved reports whether err may be solved by reading the partition's leader again.
func moved(err error) bool {
	return errors.Is(err, broker.ErrNotLeader) || errors.Is(err, broker.ErrNoLeader) || errors.Is(err, broker.ErrUnavailable)
}

// unreadable handles an error of only p.
func (f *fetcher) unreadable(p *partition, err error) {
	f.r.unreadable(p, err)
	if !p.opened {
		f.leave(p)
	}
}
