package republisher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

var errTooLate = errors.New("it was not sent in time")

// Publish sends claimed messages, and returns the results in their order. It sends to partitions in parallel, and keeps
// the order of messages within a partition.
//
// When ctx ends, because the process shuts down or because the claims are too old, Publish sends nothing more, and the
// result of unsent messages is GivenBack. A send that has begun ends within the configured timeout. When the broker
// rejects a message alone, or its value may not be read from its topic, the others are still sent. After any other failure, the later messages of the partition are
// GivenBack with its class or, if the topic was refused during the same send, Refused. Delivery.Throttle is the longest
// time that the broker asked for during the send.
func (r *Republisher) Publish(ctx context.Context, batch []entity.Outgoing) []entity.Delivery {
	p := &publication{
		r: r, batch: batch, deliveries: make([]entity.Delivery, len(batch)), slots: semaphore.NewWeighted(parallel),
	}
	var all sync.WaitGroup
	for tp, indices := range byTarget(batch) {
		all.Go(func() { p.publishTo(ctx, tp, indices) })
	}
	all.Wait()
	return p.deliveries
}

// publication is the state of one call of Publish.
type publication struct {
	r          *Republisher
	batch      []entity.Outgoing
	deliveries []entity.Delivery
	slots      *semaphore.Weighted // held while a partition is written; limits how many are written at a time
}

func byTarget(batch []entity.Outgoing) map[broker.TopicPartition][]int {
	byPartition := map[broker.TopicPartition][]int{}
	for i, out := range batch {
		tp := broker.TopicPartition{Topic: out.Target.Topic, Partition: out.Target.Partition}
		byPartition[tp] = append(byPartition[tp], i)
	}
	return byPartition
}

// publishTo writes the messages at indices, all of one partition; messages whose value must be fetched are sent one
// by one. After a message that was neither written nor rejected, the later ones are given back, because they would
// overtake it.
func (p *publication) publishTo(ctx context.Context, tp broker.TopicPartition, indices []int) {
	var together []int
	var stop *entity.Delivery // result of the first message that was neither written nor rejected; nil: none
	note := func(sent ...int) {
		for _, i := range sent {
			if stop == nil && stops(p.deliveries[i]) {
				stop = &p.deliveries[i]
			}
		}
	}
	flush := func() {
		p.send(ctx, tp, together)
		note(together...)
		together = nil
	}
	for n, i := range indices {
		_, fetched := sourceOf(&p.batch[i])
		if fetched {
			flush()
		}
		if stop != nil {
			together = indices[n:]
			break
		}
		if !fetched {
			together = append(together, i)
			continue
		}
		p.deliveries[i] = p.sendFetched(ctx, tp, i)
		note(i)
	}
	if stop == nil {
		flush()
	}
	for _, i := range together {
		p.deliveries[i] = givenBack(tp.Partition)
		p.deliveries[i].Class, p.deliveries[i].Err = stop.Class, fmt.Errorf("%w: an earlier message of the partition: %w", broker.ErrNotTried, stop.Err)
	}
}

// stops reports whether later messages of the partition must wait for a message with this result. They need not wait for
// a message that can never be written, nor for a message whose value may not be read.
func stops(d entity.Delivery) bool {
	return d.Verdict != entity.Acknowledged && d.Verdict != entity.Rejected && !d.OfValue
}

// enter waits until the broker that leads the partition accepts records, and then takes one permit of each of slots. So
// a broker that asks for a pause takes no permit away from messages for other brokers. It returns false when ctx ends
// before that.
func (p *publication) enter(ctx context.Context, tp broker.TopicPartition, slots ...*semaphore.Weighted) (leave func(), ok bool) {
	for {
		for pause := p.r.producer.Throttle(ctx, tp); pause > 0; pause = p.r.producer.Throttle(ctx, tp) {
			if !wait.Sleep(ctx, pause) {
				return nil, false
			}
		}
		leave = func() {}
		for _, slot := range slots {
			if slot.Acquire(ctx, 1) != nil {
				leave()
				return nil, false
			}
			before := leave
			leave = func() { slot.Release(1); before() }
		}
		if over(ctx) {
			leave()
			return nil, false
		}
		if p.r.producer.Throttle(ctx, tp) == 0 {
			return leave, true
		}
		leave()
	}
}

func (p *publication) send(ctx context.Context, tp broker.TopicPartition, indices []int) {
	if len(indices) == 0 {
		return
	}
	leave, ok := p.enter(ctx, tp, p.slots)
	if !ok {
		for _, i := range indices {
			p.deliveries[i] = givenBack(tp.Partition)
		}
		return
	}
	defer leave()
	records := make([]broker.Record, len(indices))
	for n, i := range indices {
		records[n], _, _ = fit(p.batch[i].Target, p.r.record(&p.batch[i], p.batch[i].Message.Record), 0)
	}
	for n, d := range p.r.produce(ctx, tp, p.batch, indices, records) {
		p.deliveries[indices[n]] = d
	}
}

// sendFetched fetches a value that the store does not hold and sends it. It does so for only one value at a time in this
// process, to limit memory. While a broker asks for a pause, the values of other brokers are fetched.
func (p *publication) sendFetched(ctx context.Context, tp broker.TopicPartition, i int) entity.Delivery {
	for {
		d, pause := p.trySendFetched(ctx, tp, i)
		if pause == 0 {
			return d
		}
		if !wait.Sleep(ctx, pause) {
			return givenBack(tp.Partition)
		}
	}
}

// trySendFetched returns a pause when the broker of the value or of the target asks for one; then it has sent nothing.
func (p *publication) trySendFetched(ctx context.Context, tp broker.TopicPartition, i int) (d entity.Delivery, pause time.Duration) {
	leave, ok := p.enter(ctx, tp, p.r.fetching, p.slots)
	if !ok {
		return givenBack(tp.Partition), 0
	}
	defer leave()
	record, err := p.r.fetch(ctx, &p.batch[i])
	if over(ctx) {
		return givenBack(tp.Partition), 0
	}
	var throttled *broker.ThrottledError
	if errors.As(err, &throttled) {
		return d, throttled.Pause
	}
	if err != nil {
		return valueError(tp.Partition, err), 0
	}
	// A pause that began while the value was fetched is waited for with the value at hand, unless it is long. Otherwise
	// values that need no fetch could always go first.
	if pause = p.r.producer.Throttle(ctx, tp); pause >= p.r.cfg.Timeout {
		return d, pause
	}
	fitting, size, ok := fit(p.batch[i].Target, p.r.record(&p.batch[i], record), 0)
	if !ok {
		d = valueError(tp.Partition, errors.New(tooLarge(p.batch[i].Target, size)))
		d.Verdict, d.Class, d.OfValue = entity.Refused, entity.BadRecord, true // as a plan with the value would have refused it
		return d, 0
	}
	return p.r.produce(ctx, tp, p.batch, []int{i}, []broker.Record{fitting})[0], 0
}

// produce writes the records of the messages at indices.
func (r *Republisher) produce(
	ctx context.Context, tp broker.TopicPartition, batch []entity.Outgoing, indices []int, records []broker.Record,
) []entity.Delivery {
	deliveries := make([]entity.Delivery, len(records))
	ctx, cancel := withTimeout(ctx, r.cfg.Timeout)
	defer cancel()
	ctx, span := r.trace(ctx, tp, len(records))
	target := batch[indices[0]].Target
	produced := r.producer.ProduceWithin(ctx, tp, records, broker.BatchLimit{Bytes: target.MaxBytes, Codec: target.Compression})
	for i, result := range produced.Records {
		deliveries[i] = delivery(tp.Partition, result)
		deliveries[i].Throttle = produced.Throttle
	}
	end(span, batch, indices, deliveries)
	return deliveries
}

// withTimeout returns a context for sending. It ends after the timeout, but at the latest the timeout after the deadline
// of ctx. So records are not sent when the process was suspended after it had compared that deadline with the
// clock.
func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	end := time.Now().Add(timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Add(timeout).Before(end) {
		end = deadline.Add(timeout)
	}
	return context.WithDeadline(context.WithoutCancel(ctx), end)
}

// over reports whether no more records may be sent, because ctx has ended or its deadline has passed. It compares the
// deadline with the clock, because after a suspension of the process the timer of ctx may fire late.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && !time.Now().Before(deadline)
}

func givenBack(partition int32) entity.Delivery {
	return entity.Delivery{Verdict: entity.GivenBack, Err: errTooLate, Partition: partition, Offset: broker.OffsetUnknown}
}
