package bulk

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

var (
	errNotAcknowledged = errors.New("the broker does not acknowledge anything")
	errLeaseOver       = errors.New("leases were not renewed for too long; others may have taken them over")
)

// sendPart claims a part. It sends the part after all earlier parts were sent, and stores the results while the next
// part is being sent.
func (p *pass) sendPart(ctx context.Context, next part) {
	defer next.lease.release()
	ctx = next.lease.span.within(ctx)
	var once sync.Once
	sent := func() {
		once.Do(func() {
			dropRecords(next.planned)
			next.memory.Release()
			close(next.sent)
		})
	}
	defer sent()
	planned := next.planned
	for len(planned) > 0 && ctx.Err() == nil {
		var wave []entity.Outgoing
		wave, planned = p.run.keys.wave(planned, next.lease.items)
		passOn := sent
		if len(planned) > 0 {
			passOn = func() {}
		}
		p.sendWave(ctx, next, wave, passOn)
		p.run.keys.learn(next.lease.items)
	}
}

// sendWave makes an attempt on each of the planned messages; it calls sent when they have been sent.
func (p *pass) sendWave(ctx context.Context, next part, planned []entity.Outgoing, sent func()) {
	taken := p.claim(ctx, next.lease, planned)
	<-next.turn
	var deliveries []entity.Delivery
	if len(taken.Outgoing) > 0 {
		deliveries = p.send(ctx, taken)
	}
	dropRecords(taken.Outgoing)
	dropRecords(planned)
	sent()
	if len(deliveries) == 0 {
		return
	}
	outcomes, err := p.deps.parts.Executor.Finish(taken, deliveries)
	if err != nil {
		p.stop(err)
	}
	p.holdAgain(context.WithoutCancel(ctx), p.recordOutcomes(next.lease, outcomes, err != nil))
}

// send publishes a part and stops the pass when no partition accepts records. It does not send to partitions that were
// closed since the part was planned. It stops the pass before the next part is sent, so that the messages of that part
// are given back and do not fail too.
func (p *pass) send(ctx context.Context, taken attempt.Batch) []entity.Delivery {
	deliveries := make([]entity.Delivery, len(taken.Outgoing))
	var open []entity.Outgoing
	var at []int
	p.mu.Lock()
	for i, out := range taken.Outgoing {
		if p.reach.Closed(attempt.PartitionOf(out.Target)) {
			deliveries[i] = notSent(out.Target)
			continue
		}
		open = append(open, out)
		at = append(at, i)
	}
	p.mu.Unlock()
	if len(at) == 0 {
		return deliveries
	}
	sent := p.deps.parts.Executor.Publish(ctx, taken.Part(open))
	for n, i := range at {
		deliveries[i] = sent[n]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reach.RecordDeliveries(open, sent) {
		p.stop(errNotAcknowledged)
	}
	return deliveries
}

func notSent(t entity.Target) entity.Delivery {
	return entity.Delivery{
		Verdict: entity.GivenBack, Class: entity.BrokerUnavailable, Err: errNotAcknowledged, Partition: t.Partition, Offset: -1,
	}
}

func (p *pass) claim(ctx context.Context, l *lease, planned []entity.Outgoing) attempt.Batch {
	if len(planned) == 0 || ctx.Err() != nil {
		return attempt.Batch{}
	}
	if !p.run.leases.holds(l.owner, time.Now().Add(p.deps.cfg.ClaimExpiry/3)) {
		p.stop(errLeaseOver)
		return attempt.Batch{}
	}
	taken, err := p.deps.parts.Executor.Claim(ctx, planned, attempt.ClaimOptions{Cause: p.cause(), RedriveID: p.redrive.ID})
	if err != nil {
		l.items.markDoubtful() // the store may have made the claims although its answer was lost
		p.stop(err)
		return attempt.Batch{}
	}
	got := make(map[uuid.UUID]bool, len(taken.Outgoing))
	for _, out := range taken.Outgoing {
		got[out.Message.ID] = true
		p.run.locked.forget(out.Message.ID)
	}
	var rest []entity.Message
	for _, out := range planned {
		if !got[out.Message.ID] {
			rest = append(rest, out.Message)
		}
	}
	p.decideUnclaimed(ctx, l, rest)
	return taken
}

// decideUnclaimed handles messages that the store did not claim. A message that can no longer be claimed, for example
// because another attempt holds it, is skipped. A message that can still be claimed counts as locked by another
// database session: it gets no result, so that the next lease of its batch contains it again.
func (p *pass) decideUnclaimed(ctx context.Context, l *lease, left []entity.Message) {
	if len(left) == 0 {
		return
	}
	ids := make([]uuid.UUID, len(left))
	for i, m := range left {
		ids[i] = m.ID
	}
	free, err := p.deps.store.Claimable(context.WithoutCancel(ctx), ids)
	if err != nil {
		p.run.warn(ctx, "cannot read messages that were not claimed", err)
		free = ids
	}
	claimable := make(map[uuid.UUID]bool, len(free))
	for _, id := range free {
		claimable[id] = true
	}
	for _, m := range left {
		if claimable[m.ID] {
			p.markLocked(l, m)
		} else {
			l.items.skip(m.ID, repository.SkippedTaken)
			p.run.locked.forget(m.ID)
		}
	}
}

func (p *pass) markLocked(l *lease, m entity.Message) {
	p.run.locked.add(m)
	l.items.markLocked()
	p.mu.Lock()
	p.someLocked = true
	p.mu.Unlock()
}

// recordOutcomes records the results of a lease's attempts, and returns the messages that were given back. Results that
// the store has not confirmed, and results in doubt, are read from the store before the lease is saved.
func (p *pass) recordOutcomes(l *lease, outcomes []attempt.Outcome, unsaved bool) (back []uuid.UUID) {
	for _, o := range outcomes {
		switch {
		case unsaved, o.Finished.Status == "", o.Delivery.Verdict == entity.InDoubt:
			l.items.markDoubtful()
		case missedTarget(o.Delivery.Verdict, o.Delivery.Class) && p.awaitRefused(l, &o.Outgoing.Message):
			back = append(back, o.Outgoing.Message.ID)
		case !p.recordEnded(l, o):
			back = append(back, o.Outgoing.Message.ID)
		}
	}
	return back
}

// recordEnded records an attempt's result. It returns false for a message that was given back, which has no result yet.
// If it was given back because of an error, the message counts as unreachable; otherwise it waits for a later lease.
func (p *pass) recordEnded(l *lease, o attempt.Outcome) (ended bool) {
	item, ended := itemOf(attemptOf(o))
	if !ended {
		if o.Delivery.Class != "" {
			l.items.addUnreachable(o.Outgoing.Message.ID)
		}
		return false
	}
	item.Group = o.Outgoing.Message.Failure.ConsumerGroup
	if o.Delivery.Verdict == entity.Refused && !o.Delivery.OfValue {
		p.refuse(o.Outgoing.Message.OriginalTopic, o.Delivery.Class)
	}
	l.items.set(item)
	return true
}

// dropRecords drops the records of sent messages to free memory, because results are stored without records.
func dropRecords(sent []entity.Outgoing) {
	for i := range sent {
		sent[i].Message.Record, sent[i].Edit = entity.Record{}, nil
	}
}
