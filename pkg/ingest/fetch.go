package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// The longest waits for an answer to a fetch request, and the sizes of answers. A broker answers as soon as it has a
// record. Therefore a long wait delays no record, and an idle ingester causes little work.
const (
	fetchWait      = 500 * time.Millisecond // longest wait for an answer while the answers contain records
	idleWait       = 5 * time.Second        // longest wait for an answer after several answers without records
	fetchBytes     = 4 << 20                // maximum size in bytes of one answer to a fetch request
	idleShare      = 64                     // after an empty answer, the next answer is limited to the buffer's size divided by this number
	partitionBytes = 1 << 20
)

// fetcher reads the partitions of one leader, with one request at a time, on one connection.
type fetcher struct {
	r          *reader
	i          *Ingester
	leader     int32
	loop       string          // name of the fetcher's loop for the watchdog
	inbox      chan *partition // new partitions for this fetcher; has capacity for all partitions of the generation
	partitions []*partition
	turn       int
	asked      []*partition        // partitions of the current request, in the order of the request
	gone       map[*partition]bool // partitions that this fetcher must return to the reader
	away       map[*partition]bool // partitions that this fetcher has given to an unpacker
	starved    bool                // the last answer was incomplete because there was too little memory
	quiet      int                 // number of answers in a row without records or errors; a new partition sets it to 0

	interrupt atomic.Pointer[context.CancelFunc] // ends the long wait for the answer to the present request; nil when no such wait is in progress
}

func newFetcher(r *reader, leader int32) *fetcher {
	return &fetcher{r: r, i: r.i, leader: leader, loop: fetchLoop(leader), inbox: make(chan *partition, r.total), gone: map[*partition]bool{}, away: map[*partition]bool{}}
}

// run reads until ctx ends. When a request fails, the fetcher returns partitions to the reader and goes on.
func (f *fetcher) run(ctx context.Context) error {
	defer f.i.watchdog.Idle(f.loop)
	for ctx.Err() == nil {
		f.drain(ctx)
		f.poll(ctx)
		f.release()
	}
	return nil
}

// add gives the fetcher partitions to read. It ends a long wait, so that the partitions are requested at once. It may
// be called while the fetcher runs.
func (f *fetcher) add(partitions ...*partition) {
	for _, p := range partitions {
		f.inbox <- p
	}
	if stop := f.interrupt.Load(); stop != nil {
		(*stop)()
	}
}

// drain takes the partitions that the reader has added. When there is nothing to read, it waits for a partition.
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

// release removes the partitions that this fetcher must no longer read. It returns the removed partitions to the
// reader, except those that an unpacker reads.
func (f *fetcher) release() {
	now := time.Now()
	for _, p := range f.partitions {
		if !f.away[p] && (p.fenced.Load() || f.r.belongsToOther(p, now)) {
			f.leave(p)
		}
	}
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

// poll sends one request. It first reserves memory for the answer and half as much for decoding. So a fetcher sends no
// request while the buffer is full of records that the writers have not stored. Decoding uses more memory only if some
// is free at that moment.
func (f *fetcher) poll(ctx context.Context) {
	limit := f.i.cfg.unit()
	if f.quiet > 0 {
		// The last answer was empty, so the next answer may take long, and little memory should be reserved for it,
		// because other leaders may send records meanwhile. After an answer with records, answers are requested in full
		// size again.
		limit = min(limit, f.i.cfg.BufferBytes/idleShare)
	}
	reserved := limit + limit/2
	if f.starved {
		reserved = 2 * limit
	}
	req := f.request(time.Now(), limit)
	if len(req.Partitions) == 0 {
		wait.Sleep(ctx, fetchWait) // every partition is in a pause, so there is nothing to request
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

// request returns a request for every partition that is not in a pause. It starts with a different partition each time,
// because the broker fills its answer in the order of the request, and sends a record that is larger than the limit of
// the answer only for the first partition.
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
			// A long wait for records of the other partitions must not make the pause of this partition longer.
			req.MaxWait = min(req.MaxWait, max(left, fetchWait))
			continue
		}
		if p.waiting.Load() > 0 {
			// If another ingester stores these records first, the partition must soon be opened again.
			req.MaxWait = min(req.MaxWait, fetchWait)
		}
		f.asked = append(f.asked, p)
		req.Partitions = append(req.Partitions, broker.FetchPartition{
			TopicPartition: p.TopicPartition, Offset: p.next, MaxBytes: partitionBytes, SkipUnreadable: p.skipUnreadable(),
		})
	}
	return req
}

// fetch sends one request and passes the records of the answer to the writers, together with their part of the reserved
// memory. It returns the time for which the broker asks the client to pause.
func (f *fetcher) fetch(ctx context.Context, req broker.FetchRequest, reserved *int64) (throttle time.Duration) {
	res, err := f.ask(ctx, req)
	if errors.Is(err, errInterrupted) {
		return 0
	}
	if err == nil && refused(res) {
		f.r.refusedByQuota(ctx, f.asked[0])
		return res.Throttle // it is not known whether there are records, so the next answer is requested in the same size
	}
	hurried := f.quiet > 0
	f.quiet++
	if err == nil {
		// Requests name topics, not ids: the answer to a request from before a topic was created again may contain
		// records of the deleted topic.
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
	f.i.watchdog.Idle(f.loop) // the steps below may wait for the writers, which the watchdog must not report as a hanging loop
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
		if got.Next > p.next || got.Err != nil || atEnd(got) {
			f.r.readInQuota(ctx, p)
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
		// A batch that did not fit into the small answer of an idle fetcher is first requested with the full size of an
		// answer.
		case got.Heavy > 0 && !hurried:
			f.unpack(ctx, p, int64(got.Heavy))
		case got.HighWatermark >= 0:
			f.r.answered(p)
		}
	}
	f.lose(ctx, reason, lost...)
	return res.Throttle
}

// refused reports whether the broker answered only that the client must pause, because of a quota.
func refused(res broker.FetchResponse) bool {
	answered := func(p broker.FetchedPartition) bool { return p.HighWatermark >= 0 || p.Err != nil }
	return res.Throttle > 0 && !slices.ContainsFunc(res.Partitions, answered)
}

// atEnd reports whether the broker has no record to send from the position on.
func atEnd(got broker.FetchedPartition) bool {
	end := got.HighWatermark
	if got.LastStable >= 0 {
		end = min(end, got.LastStable)
	}
	return end >= 0 && got.Next >= end
}

// unpack passes a partition to a new unpacker. When the unpacker has ended, it returns the partition to the reader.
func (f *fetcher) unpack(ctx context.Context, p *partition, size int64) {
	f.away[p] = true
	f.r.unpacking.Go(func() error {
		(&unpacker{r: f.r, leader: f.leader, p: p, size: size}).run(ctx)
		return nil
	})
}

// errInterrupted says that the wait for an answer was ended because there are new partitions to request.
var errInterrupted = errors.New("the wait for records was cut short")

// ask sends one request. When the reader adds a partition, a long wait ends with errInterrupted. After errInterrupted,
// the next request covers all partitions, old and new.
func (f *fetcher) ask(ctx context.Context, req broker.FetchRequest) (broker.FetchResponse, error) {
	if req.MaxWait <= fetchWait {
		return f.i.cluster.Fetch(ctx, req)
	}
	asking, stop := context.WithCancel(ctx)
	defer stop()
	f.interrupt.Store(&stop)
	defer f.interrupt.Store(nil)
	if len(f.inbox) > 0 { // the reader added partitions before it could interrupt this request
		return broker.FetchResponse{}, errInterrupted
	}
	res, err := f.i.cluster.Fetch(asking, req)
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		return res, errInterrupted
	}
	return res, err
}

// lose returns partitions to the reader because the broker did not answer for them or no longer leads them.
func (f *fetcher) lose(ctx context.Context, reason error, partitions ...*partition) {
	f.r.failed(ctx, fmt.Sprintf("fetch from broker %d", f.leader), reason, partitions...)
	f.leave(partitions...)
}

// leave marks partitions that release must return to the reader.
func (f *fetcher) leave(partitions ...*partition) {
	for _, p := range partitions {
		f.gone[p] = true
	}
}

// moved reports whether an error may mean that the partition has another leader, so that asking for the leader again
// may help.
func moved(err error) bool {
	return errors.Is(err, broker.ErrNotLeader) || errors.Is(err, broker.ErrNoLeader) || errors.Is(err, broker.ErrUnavailable)
}

// unreadable handles an error that concerns only the partition p.
func (f *fetcher) unreadable(p *partition, err error) {
	f.r.unreadable(p, err)
	if !p.opened {
		f.leave(p)
	}
}
