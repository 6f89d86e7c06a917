package redrive

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// lease is one batch that this process holds. When the last of its parallel parts releases it, the results are stored.
type lease struct {
	p       *pass
	owner   uuid.UUID // of this lease alone: a process may lease the same batch again
	batch   *repository.RedriveBatch
	numbers map[uuid.UUID]int // number of each message in the selection
	todo    []uuid.UUID
	resumed bool // an earlier owner has begun the batch
	done    chan struct{}
	span    trace.Span // span of the whole batch

	mu       sync.Mutex
	holds    int
	results  map[uuid.UUID]entity.RedriveItem
	stranded []uuid.UUID             // no broker was reachable for them
	locked   bool                    // another session locks some of its messages
	failure  string                  // error of the batch's span; "" for none
	keys     map[uuid.UUID]recordKey // of the messages sent since the last wave
	doubtful bool                    // some attempts have no known result yet
}

// nextLease leases a batch, and settles the attempts of its earlier owner; nil when no batch is available.
func (p *pass) nextLease(ctx context.Context) (*lease, error) {
	asked := p.now()
	owner := entity.NewID()
	b, err := p.store.LeaseBatch(ctx, p.id, owner, p.cfg.ClaimExpiry)
	if err != nil {
		return nil, fmt.Errorf("lease a batch: %w", err)
	}
	if b == nil {
		return nil, nil
	}
	l := &lease{
		p: p, owner: owner, batch: b, holds: 1, done: make(chan struct{}),
		numbers: make(map[uuid.UUID]int, len(b.Items)), results: map[uuid.UUID]entity.RedriveItem{},
		resumed: b.TakenOver, span: p.traceBatch(b),
	}
	p.leases.add(l, asked.Add(p.cfg.ClaimExpiry))
	for i, item := range b.Items {
		l.numbers[item.MessageID] = b.First + i
		if item.Result == entity.ItemWaiting {
			l.todo = append(l.todo, item.MessageID)
		} else {
			l.resumed = true
		}
	}
	if err := l.prepare(l.within(ctx)); err != nil {
		l.fail(notDone)
		l.release()
		return nil, err
	}
	return l, nil
}

// prepare reads what others have done in and before the batch.
func (l *lease) prepare(ctx context.Context) error {
	if l.resumed {
		if err := l.catchUp(ctx); err != nil {
			l.doubt() // saved without them, the batch would look untouched
			return err
		}
	}
	r := l.p.run
	if !l.p.redrive.Options.KeepKeyOrder {
		return nil
	}
	if r.keys == nil || l.resumed || l.batch.Number != r.last+1 {
		keys, err := r.blockedKeys(ctx, l.results)
		if err != nil {
			return err
		}
		r.keys = keys
	}
	r.last = l.batch.Number
	return nil
}

// held identifies the lease to the store.
func (l *lease) held() repository.Lease {
	return repository.Lease{RedriveID: l.p.id, Number: l.batch.Number, Owner: l.owner}
}

func (l *lease) hold() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds++
}

// release ends one part's use of the lease; the last one stores the results.
func (l *lease) release() {
	l.mu.Lock()
	l.holds--
	last := l.holds == 0
	l.mu.Unlock()
	if last && !l.park() {
		l.end()
	}
}

// park keeps a lease until the end of the pass when it has locked messages, or stranded messages in a pass that made
// no progress: if it were saved now, it would be leased again at once.
func (l *lease) park() bool {
	if !l.locked && (len(l.stranded) == 0 || l.p.gotOn()) {
		return false
	}
	why := errStranded
	if l.locked {
		why = errLocked
	}
	if l.p.keys != nil { // no other batch may begin before this one is done
		l.p.stop(why)
		return false
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	l.p.parked = append(l.p.parked, l)
	if len(l.p.parked) >= parkedLimit {
		l.p.stop(why)
	}
	return true
}

// end stores the results of the batch and releases it.
func (l *lease) end() {
	l.save()
	l.endTrace()
	l.p.leases.remove(l)
	close(l.done)
}

// wait returns when the results are stored.
func (l *lease) wait() { <-l.done }

func (l *lease) set(item entity.RedriveItem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	item.Number = l.numbers[item.MessageID]
	l.results[item.MessageID] = item
}

func (l *lease) skip(id uuid.UUID, reason string) {
	l.set(entity.RedriveItem{MessageID: id, Result: entity.ItemSkipped, Reason: reason, Offset: -1})
}

// strand records a message that could not be sent anywhere. Its result is decided once it is known whether the pass
// makes progress.
func (l *lease) strand(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stranded = append(l.stranded, id)
}

// gone skips the ids that could not be loaded.
func (l *lease) gone(ids []uuid.UUID, loaded []entity.Message) {
	if len(ids) == len(loaded) {
		return
	}
	there := make(map[uuid.UUID]bool, len(loaded))
	for _, m := range loaded {
		there[m.ID] = true
	}
	l.skipOthers(ids, there, repository.SkippedGone)
}

// skipOthers skips the ids that are not in some.
func (l *lease) skipOthers(ids []uuid.UUID, some map[uuid.UUID]bool, reason string) {
	for _, id := range ids {
		if !some[id] {
			l.skip(id, reason)
		}
	}
}

// save stores the known results; other messages wait for the next lease. It also runs when the pass has been stopped.
// While attempts are in doubt the lease is kept until they are settled, by the next owner if the process dies.
func (l *lease) save() {
	p := l.p
	if l.doubtful && !l.settle(l.within(p.ctx)) {
		l.fail(unknownEnd)
		return // draining: the next owner of the batch settles them
	}
	l.judgeStranded()
	items := slices.Collect(maps.Values(l.results))
	ctx := l.within(context.WithoutCancel(p.ctx))
	saved, err := p.store.SaveBatch(ctx, repository.BatchResults{
		RedriveID: p.id, Number: l.batch.Number, Owner: l.owner, Items: items,
	})
	switch {
	case err != nil:
		l.fail(notDone)
		p.stop(fmt.Errorf("save a batch: %w", err))
	case !saved:
		l.fail(takenOver)
		p.log.Warn("a batch was taken over by another process", zap.Stringer("redrive_id", p.id), zap.Int("batch", l.batch.Number),
			traces.LogOf(l.span))
	case len(items) > 0:
		p.progress()
	}
}

// judgeStranded skips stranded messages if others could be sent, or if the cluster answers while leader after leader
// is missing. Otherwise they wait until a broker is reachable.
func (l *lease) judgeStranded() {
	if len(l.stranded) == 0 || !l.p.gotOn() && !l.p.forsaken {
		return
	}
	for _, id := range l.stranded {
		l.skip(id, string(entity.BrokerUnavailable))
	}
}

// settle waits until every attempt of the batch has a result; it returns false when the pass ended first.
func (l *lease) settle(ctx context.Context) bool {
	try := 0
	defer func() { traces.Told(ctx, try) }()
	for {
		open, err := l.lookUp(context.WithoutCancel(traces.Try(ctx, try)), l.unknown())
		try++
		if err == nil && open == 0 {
			return true
		}
		if err != nil {
			l.p.complain(ctx, "cannot read the attempts of a batch", err)
		}
		if !wait.Sleep(ctx, lookAgain) {
			return false
		}
	}
}

// unknown returns the messages without a result.
func (l *lease) unknown() []uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []uuid.UUID
	for _, id := range l.todo {
		if _, known := l.results[id]; !known {
			ids = append(ids, id)
		}
	}
	return ids
}

// lookUp records the results of attempts, or of changes, on messages, and returns how many are still open.
func (l *lease) lookUp(ctx context.Context, ids []uuid.UUID) (open int, err error) {
	if l.p.redrive.Action != entity.RedriveRetry {
		return 0, l.lookUpChanges(ctx, ids)
	}
	attempts, err := l.p.store.AttemptsOf(ctx, l.p.id, ids)
	if err != nil {
		return 0, fmt.Errorf("list attempts: %w", err)
	}
	for _, a := range attempts {
		item, ended := itemOf(a)
		switch {
		case ended:
			item.Group = a.ConsumerGroup
			l.set(item)
		case a.Verdict == entity.InDoubt && !l.unsettled(ctx, a):
			open++
		}
	}
	return open, nil
}

// unsettled records an attempt that only an operator can settle, and reports whether it is one.
func (l *lease) unsettled(ctx context.Context, a entity.Attempt) bool {
	m, err := l.p.store.Get(ctx, a.MessageID, 0)
	if err != nil || !m.Unsettled || m.Claim.ID != a.ID {
		return false
	}
	l.set(entity.RedriveItem{
		MessageID: a.MessageID, Result: entity.ItemInDoubt, Reason: string(entity.UnknownClass),
		Topic: a.Topic, TopicID: a.TopicID, Partition: a.Partition, Offset: -1, Group: a.ConsumerGroup,
	})
	return true
}

// itemOf returns the result of an attempt; ended is false for an open attempt, and for one that was given back.
func itemOf(a entity.Attempt) (item entity.RedriveItem, ended bool) {
	item = entity.RedriveItem{
		MessageID: a.MessageID, Reason: string(a.Class),
		Topic: a.Topic, TopicID: a.TopicID, Partition: a.Partition, Offset: a.Offset,
	}
	switch {
	case a.Verdict == entity.Abandoned: // its record may be in the topic, whatever the operator did next
		item.Result, item.Offset = entity.ItemInDoubt, -1
	case a.To == entity.Resolved:
		item.Result, item.Reason = entity.ItemSucceeded, ""
		if a.Verdict == entity.Skipped {
			item.Topic, item.Offset = "", -1
		}
	case a.To == entity.Dead:
		item.Result = entity.ItemDead
	case a.Verdict == entity.Failed:
		item.Result = entity.ItemFailed
	case a.Verdict == entity.Refused:
		item.Result, item.Topic = entity.ItemSkipped, ""
	default:
		return entity.RedriveItem{}, false
	}
	return item, true
}

// catchUp settles the attempts of an earlier owner of the batch. They count as results, so no message is sent twice.
// Messages that it claimed and never sent are given back by the settler and sent now.
func (l *lease) catchUp(ctx context.Context) error {
	try := 0
	defer func() { traces.Told(ctx, try) }()
	for {
		asking := traces.Try(ctx, try)
		open, err := l.lookUp(asking, l.unknown())
		try++
		if err != nil {
			return err
		}
		if open == 0 {
			break
		}
		if err := l.p.Settle(asking); err != nil {
			l.p.complain(ctx, "cannot settle the claims of an earlier owner", err)
		}
		if !wait.Sleep(ctx, lookAgain) {
			return context.Cause(ctx)
		}
	}
	l.todo = l.unknown()
	return nil
}

// lookUpChanges reads from the audit trail which messages the redrive has changed.
func (l *lease) lookUpChanges(ctx context.Context, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	changed, err := l.p.selected.PerformedOn(ctx, l.p.id, auditAction(l.p.redrive.Action), ids)
	if err != nil {
		return fmt.Errorf("list changes: %w", err)
	}
	for _, id := range changed {
		l.set(entity.RedriveItem{MessageID: id, Result: entity.ItemSucceeded, Offset: -1})
	}
	return nil
}
