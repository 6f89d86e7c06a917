package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/bulk/internal/reach"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/internal/harm"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// supervision is how often the limits of a redrive are checked during a pass.
const supervision = time.Second

// newPass returns a pass that has not begun.
func newPass(r *run, redrive entity.Redrive) *pass {
	p := &pass{
		deps: r.deps, run: r, redrive: redrive, refused: map[string]entity.ErrorClass{}, reach: reach.New(),
		held: map[string]bool{},
	}
	for original := range r.targets {
		p.without.add(original)
	}
	return p
}

// work sends the messages that can be sent now, and returns when no attempt is under way. worked reports whether some
// message got a result. After an error, another pass would fail too if it began at once, because no partition is
// reachable, rows are locked or the store is unavailable.
func (p *pass) work(ctx context.Context) (worked bool, err error) {
	ctx, p.stop = context.WithCancelCause(ctx)
	defer p.stop(nil)
	p.ctx = ctx
	var helpers sync.WaitGroup
	over := make(chan struct{})
	helpers.Go(func() { p.watch(ctx, over) })

	parts := make(chan part)
	var workers sync.WaitGroup
	for range p.deps.cfg.Workers {
		workers.Go(func() {
			for next := range parts {
				p.sendPart(ctx, next)
			}
		})
	}
	if err := p.walk(ctx, parts); err != nil {
		p.stop(err)
	}
	close(parts)
	workers.Wait()
	for _, l := range p.parked {
		l.end()
	}
	close(over)
	helpers.Wait()
	return p.worked, p.result(ctx)
}

// result returns why the pass was stopped. For a pass that was not stopped it returns nil, unless no message got a
// result because no partition was reachable or rows were locked.
func (p *pass) result(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case errors.Is(cause, errWithheld):
		return nil
	case cause != nil || p.worked:
		return cause
	case p.reach.Nowhere():
		return p.unreachable
	case p.someLocked:
		return errLocked
	}
	return nil
}

// watch checks the limits on failures and returns during the pass, and stops the redrive when it exceeds a limit.
func (p *pass) watch(ctx context.Context, over <-chan struct{}) {
	ticker := time.NewTicker(supervision)
	defer ticker.Stop()
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if !harm.Watched(p.redrive.Options) {
			continue
		}
		redrive, err := p.deps.store.Redrive(ctx, p.redrive.ID)
		if err != nil || !redrive.State.Active() {
			continue
		}
		if why := harm.Excess(redrive); why != "" {
			if _, err := p.run.redrives.move(ctx, p.redrive.ID, stopMove(redrive, why)); err != nil {
				p.run.warn(ctx, "cannot stop the redrive", err)
			}
		}
	}
}

// walk leases batches. For the action retry it splits each batch into parts and passes the parts to the workers; other
// actions it carries out itself.
func (p *pass) walk(ctx context.Context, parts chan<- part) error {
	first := make(chan struct{})
	close(first)
	turn := (<-chan struct{})(first)
	for ctx.Err() == nil {
		l, err := p.nextLease(ctx)
		if err != nil || l == nil {
			return err
		}
		if l.batch.OnlyCatchUp {
			l.release()
			continue
		}
		turn, err = p.act(l.span.within(ctx), l, parts, turn)
		if err != nil && ctx.Err() == nil {
			l.span.fail(traces.NotDone)
		}
		l.release() // walk ends its own use of the lease
		if err != nil {
			return err
		}
		if p.redrive.Options.KeepKeyOrder {
			l.wait() // with an order of keys, the next batch is leased only after this batch is saved
		}
	}
	return ctx.Err()
}

// act carries out the action of the redrive on the messages of a lease. Messages to retry are passed to the workers.
func (p *pass) act(ctx context.Context, l *lease, parts chan<- part, turn <-chan struct{}) (<-chan struct{}, error) {
	var away error
	if p.redrive.Selection.Archived {
		var err error
		if away, err = p.unarchive(ctx, l); err != nil {
			return turn, err
		}
	}
	var err error
	if p.redrive.Action == entity.RedriveRetry {
		turn, err = p.split(ctx, l, parts, turn)
	} else {
		err = p.change(ctx, l)
	}
	if err == nil && away != nil {
		select {
		case <-turn: // the error ends the pass, and so it must not come before the restored messages were sent
		case <-ctx.Done():
		}
	}
	return turn, cmp.Or(err, away)
}

// split loads the messages of a lease in parts that fit into memory, plans each part, and passes it to the workers.
func (p *pass) split(ctx context.Context, l *lease, parts chan<- part, turn <-chan struct{}) (<-chan struct{}, error) {
	for ids := l.items.todo; len(ids) > 0 && !p.without.has(l.batch.Topic); {
		messages, taken, memory, err := p.deps.parts.Loader.Load(ctx, partOf(p.redrive, l.batch.Topic, ids), p.copies())
		if err != nil {
			return turn, err
		}
		l.items.skipMissing(ids[:taken], messages)
		ids = ids[taken:]
		var planned []entity.Outgoing
		if messages, err = p.withoutTaken(ctx, l, messages); err == nil {
			planned, err = p.plan(ctx, l, messages)
		}
		if err == nil {
			planned, err = p.withinBounds(ctx, l, planned)
		}
		if err == nil {
			err = p.requeueDead(ctx, l, planned)
		}
		if err != nil {
			memory.Release()
			return turn, err
		}
		next := part{lease: l, planned: planned, memory: memory, turn: turn, sent: make(chan struct{})}
		l.hold()
		select {
		case parts <- next:
			turn = next.sent
		case <-ctx.Done():
			l.release()
			memory.Release()
			return turn, ctx.Err()
		}
	}
	return turn, nil
}

// copies returns how many copies of a message's value the pass has in memory.
func (p *pass) copies() attempt.ValueCopies {
	if p.run.patch != nil {
		return attempt.Patched
	}
	return attempt.Unpatched
}

// requeueDead requeues the DEAD messages that can be sent, for a redrive with the option requeue. A message that became
// DEAD after the redrive began stays DEAD, because an operator may have marked it.
func (p *pass) requeueDead(ctx context.Context, l *lease, planned []entity.Outgoing) error {
	if !p.redrive.Options.Requeue {
		return nil
	}
	var dead []uuid.UUID
	for _, out := range planned {
		if m := out.Message; m.Status == entity.Dead && !m.UpdatedAt.After(p.redrive.CreatedAt) {
			dead = append(dead, m.ID)
		}
	}
	if len(dead) == 0 {
		return nil
	}
	change := repository.Change{Action: entity.RedriveRequeue, IDs: dead, Lease: l.held()}
	if _, err := p.deps.selected.Change(ctx, change, p.cause()); err != nil {
		return fmt.Errorf("requeue messages: %w", err)
	}
	return nil
}
