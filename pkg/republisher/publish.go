package republisher

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

var errTooLate = errors.New("it was not sent in time")

// Publish sends claimed messages, and returns the results in their order. It sends to partitions in parallel, and keeps
// the order of messages within a partition.
//
// When ctx ends, because the process shuts down or because the claims are too old, Publish sends nothing more, and the
// result of unsent messages is GivenBack. A send that has begun ends within the configured timeout. When the broker
// rejects a message alone, the others are still sent. After any other failure, the later messages of the partition are
// GivenBack with its class or, if the topic was refused during the same send, Refused. Delivery.Throttle is the longest
// time that the broker asked for during the send.
func (r *Republisher) Publish(ctx context.Context, batch []entity.Outgoing) []entity.Delivery {
	deliveries := make([]entity.Delivery, len(batch))
	var all sync.WaitGroup
	slots := make(chan struct{}, parallel)
	for tp, indices := range byTarget(batch) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			r.publishTo(ctx, tp, batch, indices, deliveries)
		})
	}
	all.Wait()
	return deliveries
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
func (r *Republisher) publishTo(ctx context.Context, tp broker.TopicPartition, batch []entity.Outgoing, indices []int, deliveries []entity.Delivery) {
	var together []int
	var stop *entity.Delivery // result of the first message that was neither written nor rejected; nil: none
	note := func(sent ...int) {
		for _, i := range sent {
			if stop == nil && stops(deliveries[i]) {
				stop = &deliveries[i]
			}
		}
	}
	flush := func() {
		r.send(ctx, tp, batch, together, deliveries)
		note(together...)
		together = nil
	}
	for n, i := range indices {
		_, fetched := sourceOf(&batch[i])
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
		deliveries[i] = r.sendFetched(ctx, tp, batch, i)
		note(i)
	}
	if stop == nil {
		flush()
	}
	for _, i := range together {
		deliveries[i] = givenBack(tp.Partition)
		deliveries[i].Class, deliveries[i].Err = stop.Class, fmt.Errorf("%w: an earlier message of the partition: %w", broker.ErrNotTried, stop.Err)
	}
}

// stops reports whether later messages of the partition must wait for a message with this result. They need not wait for
// a message that can never be written.
func stops(d entity.Delivery) bool {
	return d.Verdict != entity.Acknowledged && d.Verdict != entity.Rejected
}

func (r *Republisher) send(ctx context.Context, tp broker.TopicPartition, batch []entity.Outgoing, indices []int, deliveries []entity.Delivery) {
	if len(indices) == 0 {
		return
	}
	records := make([]broker.Record, len(indices))
	for n, i := range indices {
		records[n] = r.record(&batch[i], batch[i].Message.Record)
	}
	for n, d := range r.produce(ctx, tp, batch, indices, records) {
		deliveries[indices[n]] = d
	}
}

// sendFetched fetches a value that the store does not hold and sends it; it does so for only one value at a time in
// this process, to limit memory.
func (r *Republisher) sendFetched(ctx context.Context, tp broker.TopicPartition, batch []entity.Outgoing, i int) entity.Delivery {
	if r.fetching.Acquire(ctx, 1) != nil {
		return givenBack(tp.Partition)
	}
	defer r.fetching.Release(1)
	record, err := r.fetch(ctx, &batch[i])
	if err != nil && over(ctx) {
		return givenBack(tp.Partition)
	}
	if err != nil {
		return valueError(tp.Partition, err)
	}
	return r.produce(ctx, tp, batch, []int{i}, []broker.Record{r.record(&batch[i], record)})[0]
}

// produce writes the records of the messages at indices, unless ctx has ended, once the broker accepts records.
func (r *Republisher) produce(
	ctx context.Context, tp broker.TopicPartition, batch []entity.Outgoing, indices []int, records []broker.Record,
) []entity.Delivery {
	deliveries := make([]entity.Delivery, len(records))
	if !r.producer.AwaitThrottle(ctx, tp) || over(ctx) {
		for i := range deliveries {
			deliveries[i] = givenBack(tp.Partition)
		}
		return deliveries
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.cfg.Timeout)
	defer cancel()
	ctx, span := r.trace(ctx, tp, len(records))
	produced := r.producer.Produce(ctx, tp, records)
	for i, result := range produced.Records {
		deliveries[i] = delivery(tp.Partition, result)
		deliveries[i].Throttle = produced.Throttle
	}
	end(span, batch, indices, deliveries)
	return deliveries
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
