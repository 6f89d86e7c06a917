package bulk

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// lease is one batch that this process holds. The workers send its messages in parallel parts. When the last part is
// done, the results are stored and the lease ends.
type lease struct {
	pass  *pass
	owner uuid.UUID // id of this lease alone: a process may lease the same batch again
	batch *repository.RedriveBatch
	items *items
	span  batchSpan // the span of the whole batch
	begun bool      // an earlier owner has begun to send the batch
	done  chan struct{}

	mu    sync.Mutex
	holds int
}

// nextLease leases a batch, and settles the attempts of its earlier owner; nil when no batch is available.
func (p *pass) nextLease(ctx context.Context) (*lease, error) {
	asked := time.Now()
	owner := entity.NewID()
	b, err := p.deps.store.LeaseBatch(ctx, p.redrive.ID, owner, p.deps.cfg.ClaimExpiry, p.without.list()...)
	if err != nil {
		return nil, fmt.Errorf("lease a batch: %w", err)
	}
	if b == nil {
		return nil, nil
	}
	l := &lease{pass: p, owner: owner, batch: b, holds: 1, done: make(chan struct{})}
	l.span.span = startSpan(p.ctx, p.deps.tracer, p.redrive, b)
	l.items, l.begun = newItems(b)
	l.begun = l.begun || b.TakenOver
	p.run.leases.add(owner, asked.Add(p.deps.cfg.ClaimExpiry))
	if err := l.prepare(l.span.within(ctx)); err != nil {
		l.span.fail(traces.NotDone)
		l.release()
		return nil, err
	}
	return l, nil
}

// prepare reads the results of an earlier owner of the batch, and the keys that earlier batches have blocked.
func (l *lease) prepare(ctx context.Context) error {
	if l.begun {
		if err := l.catchUp(ctx); err != nil {
			l.items.markDoubtful() // otherwise save would store the batch as if none of its messages had been sent
			return err
		}
	}
	r := l.pass.run
	if !l.pass.redrive.Options.KeepKeyOrder {
		return nil
	}
	if r.keys == nil || l.begun || r.after != (batchOf{l.batch.Topic, l.batch.Number - 1}) {
		keys, err := loadKeyOrder(ctx, r.deps, r.id, l.items.results)
		if err != nil {
			return err
		}
		r.keys = keys
	}
	r.after = batchOf{number: none} // until this batch is finished: another process may finish it
	return nil
}

// held returns the redrive, the batch and the owner by which the store identifies the lease.
func (l *lease) held() repository.Lease {
	return repository.Lease{RedriveID: l.pass.redrive.ID, Number: l.batch.Number, Owner: l.owner}
}

func (l *lease) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds++
}

// release ends the use of the lease by one part; the call for the last part stores the results.
func (l *lease) release() {
	l.mu.Lock()
	l.holds--
	last := l.holds == 0
	l.mu.Unlock()
	if last && !l.park() {
		l.end()
	}
}

// park reports whether the lease is kept until the end of the pass. It is kept when some of its messages are locked or
// withheld, or are unreachable in a pass that can send nothing. If such a batch were saved now, it would be leased again
// at once.
func (l *lease) park() bool {
	why := errUnreachable
	switch {
	case l.items.locked:
		why = errLocked
	case l.items.withheld && l.pass.without.has(l.batch.Topic):
		return false
	case l.items.withheld:
		why = errWithheld
	case len(l.items.unreachable) == 0 || l.pass.canSend():
		return false
	}
	if l.pass.run.keys != nil { // with an order of keys, no other batch may be sent before this one, so the pass ends
		l.pass.stop(why)
		return false
	}
	l.pass.mu.Lock()
	defer l.pass.mu.Unlock()
	l.pass.parked = append(l.pass.parked, l)
	if len(l.pass.parked) >= parkedLimit {
		l.pass.stop(why)
	}
	return true
}

// end stores the results of the batch's messages and ends the lease of the batch.
func (l *lease) end() {
	l.save()
	l.span.end(l.items, context.Cause(l.pass.ctx))
	l.pass.run.leases.remove(l.owner)
	close(l.done)
}

// wait waits until end has stored the results of the batch's messages.
func (l *lease) wait() { <-l.done }

// save stores the results of the batch's messages that are known; the other messages wait for the next lease. It is
// also called after the pass was stopped. While attempts are in doubt, the lease is kept until they are settled; if the
// pass or the process ends before, the next owner settles them.
func (l *lease) save() {
	p := l.pass
	if l.items.doubtful && !l.settle(l.span.within(p.ctx)) {
		l.span.fail(unknownEnd)
		return // the pass has ended; the next owner of the batch settles the attempts
	}
	l.decideUnreachable()
	items := slices.Collect(maps.Values(l.items.results))
	ctx := l.span.within(context.WithoutCancel(p.ctx))
	p.holdAgain(ctx, l.items.unknown())
	saved, err := p.deps.store.SaveBatch(ctx, repository.BatchResults{
		RedriveID: p.redrive.ID, Number: l.batch.Number, Owner: l.owner, Items: items,
	})
	switch {
	case err != nil:
		l.span.fail(traces.NotDone)
		p.stop(fmt.Errorf("save a batch: %w", err))
	case !saved:
		l.span.fail(takenOver)
		p.deps.log.Warn("a batch was taken over by another process", zap.Stringer("redrive_id", p.redrive.ID), zap.Int("batch", l.batch.Number),
			traces.LogOf(l.span.span))
	case len(items) > 0:
		p.progress()
	}
	if p.redrive.Options.KeepKeyOrder && saved && len(l.items.unknown()) == 0 {
		p.run.after = batchOf{l.batch.Topic, l.batch.Number}
	}
}

// restoredHold is how long the messages that a redrive has restored are not due for automatic retry, which would send
// them without the redrive's patch. It is renewed by each lease of their batch, so that a redrive may wait for the object
// store, for brokers or for other redrives. When the redrive never acts on them, they become due by themselves.
const restoredHold = time.Hour

// holdTime returns how long the messages that the redrive restores are kept from being due for automatic retry.
func (p *pass) holdTime() time.Duration {
	if !p.redrive.Selection.Archived || p.redrive.Action == entity.RedriveRestore || p.redrive.Action == entity.RedriveDelete {
		return 0
	}
	return max(restoredHold, 3*p.deps.cfg.ClaimExpiry)
}

// hold keeps restored messages that the redrive has not acted on yet from being due for automatic retry.
func (p *pass) hold(ctx context.Context, ids []uuid.UUID) error {
	t := p.holdTime()
	if t == 0 || len(ids) == 0 {
		return nil
	}
	return p.deps.archive.Hold(ctx, ids, t)
}

// holdAgain is like hold for messages whose attempts were given back, which makes them due at once. A failure only makes
// them due too early.
func (p *pass) holdAgain(ctx context.Context, ids []uuid.UUID) {
	if err := p.hold(ctx, ids); err != nil {
		p.run.warn(ctx, "cannot keep restored messages from automatic retry", err)
	}
}

// decideUnreachable skips unreachable messages if other messages could be sent, or if the cluster answers but the
// leaders of many batches in a row are missing. Otherwise the messages wait until a broker is reachable.
func (l *lease) decideUnreachable() {
	if len(l.items.unreachable) == 0 || !l.pass.canSend() && !l.pass.noLeaders {
		return
	}
	for _, id := range l.items.unreachable {
		l.items.skip(id, string(entity.BrokerUnavailable))
	}
}

// settle waits until every attempt on the batch's messages has a result. It returns false when the pass ended before.
func (l *lease) settle(ctx context.Context) bool {
	try := 0
	defer func() { traces.RecordTries(ctx, try) }()
	for {
		open, err := l.queryResults(context.WithoutCancel(traces.Try(ctx, try)), l.items.unknown())
		try++
		if err == nil && open == 0 {
			return true
		}
		if err != nil {
			l.pass.run.warn(ctx, "cannot read the attempts of a batch", err)
		}
		if !wait.Sleep(ctx, pollInterval) {
			return false
		}
	}
}

// queryResults reads from the store what the redrive has already done to the messages: attempts, or changes. It keeps
// their results in the lease, and returns the number of attempts that have no result yet.
func (l *lease) queryResults(ctx context.Context, ids []uuid.UUID) (open int, err error) {
	if l.pass.redrive.Action != entity.RedriveRetry {
		return 0, l.queryChanges(ctx, ids)
	}
	attempts, err := l.pass.deps.store.AttemptsOf(ctx, l.pass.redrive.ID, ids)
	if err != nil {
		return 0, fmt.Errorf("list attempts: %w", err)
	}
	for _, a := range attempts {
		item, ended := itemOf(a)
		switch {
		case missedTarget(a.Verdict, a.Class): // the message may be withheld, and is tried again
		case ended:
			item.Group = a.ConsumerGroup
			l.items.set(item)
		case a.Verdict == entity.InDoubt && !l.unsettled(ctx, a):
			open++
		}
	}
	return open, nil
}

// unsettled handles an attempt that cannot be settled without an operator: it records the result in doubt. It returns
// false for all other attempts.
func (l *lease) unsettled(ctx context.Context, a entity.Attempt) bool {
	m, err := l.pass.deps.store.Get(ctx, a.MessageID, 0)
	if err != nil || !m.Unsettled || m.Claim.ID != a.ID {
		return false
	}
	l.items.set(entity.RedriveItem{
		MessageID: a.MessageID, Result: entity.ItemInDoubt, Reason: string(entity.UnknownClass),
		Topic: a.Topic, TopicID: a.TopicID, Partition: a.Partition, Offset: -1, Group: a.ConsumerGroup,
	})
	return true
}

// catchUp settles the attempts of an earlier owner of the batch. Their results become results of this batch, so no
// message is sent twice. The settler gives messages back that the earlier owner claimed and never sent; they are sent
// now.
func (l *lease) catchUp(ctx context.Context) error {
	try := 0
	defer func() { traces.RecordTries(ctx, try) }()
	for {
		asking := traces.Try(ctx, try)
		open, err := l.queryResults(asking, l.items.unknown())
		try++
		if err != nil {
			return err
		}
		if open == 0 {
			break
		}
		if err := l.pass.deps.parts.Settler.Settle(asking); err != nil {
			l.pass.run.warn(ctx, "cannot settle the claims of an earlier owner", err)
		}
		if !wait.Sleep(ctx, pollInterval) {
			return context.Cause(ctx)
		}
	}
	l.items.todo = l.items.unknown()
	return nil
}

// queryChanges reads from the audit trail which messages the redrive has changed.
func (l *lease) queryChanges(ctx context.Context, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	changed, err := l.pass.deps.selected.PerformedOn(ctx, l.pass.redrive.ID, auditAction(l.pass.redrive), ids)
	if err != nil {
		return fmt.Errorf("list changes: %w", err)
	}
	for _, id := range changed {
		l.items.set(entity.RedriveItem{MessageID: id, Result: entity.ItemSucceeded, Offset: -1})
	}
	return nil
}

// auditAction returns the action in the audit trail for a redrive's change of a message.
func auditAction(r entity.Redrive) entity.Action {
	switch r.Action {
	case entity.RedriveRequeue:
		return entity.ActionRequeue
	case entity.RedriveDead:
		return entity.ActionDead
	case entity.RedriveDelete:
		if r.Selection.Archived {
			return entity.ActionErase
		}
		return entity.ActionDelete
	case entity.RedriveRestore:
		return entity.ActionRestore
	case entity.RedriveMap:
		return entity.ActionMap
	case entity.RedriveRetry:
	}
	return entity.ActionAttempt
}
