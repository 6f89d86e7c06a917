package redrive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	// leaderPatience is how long a redrive waits for a partition without a leader before it leaves the partition out.
	leaderPatience = 30 * time.Second
	leaderPause    = 5 * time.Second // longest pause between two tries

	// hopeless is how many batches in a row may fail wholly: at one partition, which is then left out, or at all,
	// which ends the pass. The broker then counts as unavailable, so that messages keep their attempts.
	hopeless = 2

	// strandedLimit is how many batches in a row may find no reachable leader before any other was reached. It is not
	// small, because dead letters of one partition often arrive one after another.
	strandedLimit = 20
	parkedLimit   = 200         // limit of parked batches; the pass ends there
	supervision   = time.Second // how often the limits of a redrive are checked during a pass
)

// Reasons for skipped messages, in addition to the error classes and the store's reasons.
const (
	skippedGivenBack  = "given_back"  // its turn came too late to send it safely
	skippedKeyBlocked = "key_blocked" // an earlier message of the same key did not succeed

	// skippedNotPermitted: the original topic is not declared, and the creator has no role on the dead-letter topic.
	skippedNotPermitted = "not_permitted"

	// skippedPatchFailed: the patch does not apply to the value, or the message does not carry its value (too large
	// to store, or a pointer), so the result cannot be shown before it is sent.
	skippedPatchFailed = "patch_failed"
)

var (
	errHopeless  = errors.New("the broker does not acknowledge anything")
	errLeaseOver = errors.New("leases were not renewed for too long; others may have taken them over")
)

// run is one process's work on one active redrive.
type run struct {
	*Service
	id      uuid.UUID
	canary  canary
	patch   patcher   // nil: values are sent unchanged
	waiting bool      // the store has the redrive marked as waiting
	keys    *keyOrder // nil when no order is kept, or not loaded yet
	last    int       // number of the last batch that keys includes
	locked  locked
}

func newRun(s *Service, id uuid.UUID) *run {
	return &run{Service: s, id: id, last: -1, locked: locked{lastRetry: map[uuid.UUID]time.Time{}}}
}

// pass goes through the available batches once. One goroutine leases, loads and plans; several send in parallel.
// Sending takes turns, which keeps the order within a partition, as far as one process is concerned.
type pass struct {
	*run
	redrive entity.Redrive
	ctx     context.Context         //nolint:containedctx // the scope of everything that the pass leased
	stop    context.CancelCauseFunc // stops taking and sending

	mu       sync.Mutex                   // guards the fields below
	refused  map[string]entity.ErrorClass // target topics that refuse records, with the class
	places   places
	parked   []*lease
	held     bool  // another session locked some message
	away     error // why nothing was reachable
	forsaken bool  // the cluster answers, but leader after leader is missing
	worked   bool
}

// part is a set of planned messages of one lease, for a worker.
type part struct {
	lease   *lease
	planned []entity.Outgoing
	room    *room
	turn    <-chan struct{} // closed when the part before has been sent
	sent    chan struct{}   // closed when this part has been sent, or will not be
}

// pass sends what can be sent now and returns when nothing is under way. worked reports that some message got a
// result. An error means that another pass at once is useless: nothing is reachable, or the store is unavailable.
func (r *run) pass(ctx context.Context, redrive entity.Redrive) (worked bool, err error) {
	r.compile(redrive.Options.Patch)
	p := &pass{run: r, redrive: redrive, refused: map[string]entity.ErrorClass{}, places: newPlaces()}
	ctx, p.stop = context.WithCancelCause(ctx)
	defer p.stop(nil)
	p.ctx = ctx
	var helpers sync.WaitGroup
	over := make(chan struct{})
	helpers.Go(func() { p.watch(ctx, over) })

	parts := make(chan part)
	var workers sync.WaitGroup
	for range r.cfg.Workers {
		workers.Go(func() {
			for next := range parts {
				p.carry(ctx, next)
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
	return p.worked, p.verdict(ctx)
}

// watch stops the pass when the redrive has left its state, by itself or by an operator.
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
		if !watched(p.redrive.Options) {
			continue
		}
		redrive, err := p.store.Redrive(ctx, p.id)
		if err != nil || !redrive.State.Active() {
			continue
		}
		if why := excess(redrive); why != "" {
			if _, err := p.move(ctx, p.id, stop(redrive, why)); err != nil {
				p.complain(ctx, "cannot stop the redrive", err)
			}
		}
	}
}

// walk leases batches and hands them to the workers, part by part.
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
		if p.redrive.Action == entity.RedriveRetry {
			turn, err = p.split(l.within(ctx), l, parts, turn)
		} else {
			err = p.change(l.within(ctx), l)
		}
		if err != nil && ctx.Err() == nil {
			l.fail(notDone)
		}
		l.release() // the hold of walk itself
		if err != nil {
			return err
		}
		if p.redrive.Options.KeepKeyOrder {
			l.wait() // the next batch is leased when this one is done
		}
	}
	return ctx.Err()
}

// split loads a lease's messages as memory allows, plans them, and hands them to the workers.
func (p *pass) split(ctx context.Context, l *lease, parts chan<- part, turn <-chan struct{}) (<-chan struct{}, error) {
	for ids := l.todo; len(ids) > 0; {
		messages, taken, room, err := p.load(ctx, ids, p.form())
		if err != nil {
			return turn, err
		}
		l.gone(ids[:taken], messages)
		ids = ids[taken:]
		var planned []entity.Outgoing
		if messages, err = p.withoutTaken(ctx, l, messages); err == nil {
			planned, err = p.plan(ctx, l, messages)
		}
		if err == nil {
			err = p.revive(ctx, l, planned)
		}
		if err != nil {
			room.release()
			return turn, err
		}
		next := part{lease: l, planned: planned, room: room, turn: turn, sent: make(chan struct{})}
		l.hold()
		select {
		case parts <- next:
			turn = next.sent
		case <-ctx.Done():
			l.release()
			room.release()
			return turn, ctx.Err()
		}
	}
	return turn, nil
}

// form returns how often the pass keeps a message's value in memory.
func (p *pass) form() form {
	if p.patch != nil {
		return patched
	}
	return plain
}

// revive requeues the DEAD messages that can be sent, for a redrive that takes them. A message that became DEAD after
// the redrive began stays DEAD: an operator may have marked it.
func (p *pass) revive(ctx context.Context, l *lease, planned []entity.Outgoing) error {
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
	if _, err := p.selected.Change(ctx, change, p.cause()); err != nil {
		return fmt.Errorf("requeue messages: %w", err)
	}
	return nil
}

// cause is the cause of the changes that the redrive makes.
func (p *pass) cause() entity.Cause {
	c := p.redrive.Cause
	c.Operation = uuid.Nil
	return c
}

// carry claims a part, sends it in its turn, and stores the results while the next part is already being sent.
func (p *pass) carry(ctx context.Context, next part) {
	defer next.lease.release()
	ctx = next.lease.within(ctx)
	var once sync.Once
	sent := func() {
		once.Do(func() {
			forget(next.planned)
			next.room.release()
			close(next.sent)
		})
	}
	defer sent()
	planned := next.planned
	for len(planned) > 0 && ctx.Err() == nil {
		var wave []entity.Outgoing
		wave, planned = p.keys.wave(planned, next.lease)
		passOn := sent
		if len(planned) > 0 {
			passOn = func() {}
		}
		p.attempt(ctx, next, wave, passOn)
		p.keys.learn(next.lease)
	}
}

// attempt makes an attempt on each of the planned messages; it calls sent when they have been sent.
func (p *pass) attempt(ctx context.Context, next part, planned []entity.Outgoing, sent func()) {
	taken := p.take(ctx, next.lease, planned)
	<-next.turn
	var deliveries []entity.Delivery
	if len(taken.outgoing) > 0 {
		deliveries = p.send(ctx, taken)
	}
	forget(taken.outgoing)
	forget(planned)
	sent()
	if len(deliveries) == 0 {
		return
	}
	endings, err := p.finish(taken, deliveries)
	if err != nil {
		p.stop(err)
	}
	p.note(next.lease, endings, err != nil)
}

// send publishes a part, except to places that were shut since it was planned, and stops the pass when sending is
// useless. It stops between turns, so that waiting parts are given back instead of failing too.
func (p *pass) send(ctx context.Context, taken attempts) []entity.Delivery {
	deliveries := make([]entity.Delivery, len(taken.outgoing))
	open := attempts{cause: taken.cause, claimed: taken.claimed}
	var at []int
	p.mu.Lock()
	for i, out := range taken.outgoing {
		if p.places.shut(placeOf(out.Target)) {
			deliveries[i] = shutOut(out.Target)
			continue
		}
		open.outgoing = append(open.outgoing, out)
		at = append(at, i)
	}
	p.mu.Unlock()
	if len(at) == 0 {
		return deliveries
	}
	sent := p.publish(ctx, open)
	for n, i := range at {
		deliveries[i] = sent[n]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places.judge(open.outgoing, sent) {
		p.stop(errHopeless)
	}
	return deliveries
}

func shutOut(t entity.Target) entity.Delivery {
	return entity.Delivery{
		Verdict: entity.GivenBack, Class: entity.BrokerUnavailable, Err: errHopeless, Partition: t.Partition, Offset: -1,
	}
}

func (p *pass) take(ctx context.Context, l *lease, planned []entity.Outgoing) attempts {
	if len(planned) == 0 || ctx.Err() != nil {
		return attempts{}
	}
	if !p.leases.holds(l, p.now().Add(p.cfg.ClaimExpiry/3)) {
		p.stop(errLeaseOver)
		return attempts{}
	}
	taken, err := p.claim(ctx, planned, claiming{cause: p.cause(), redrive: p.id})
	if err != nil {
		l.doubt() // the store may have made the claims although its answer was lost
		p.stop(err)
		return attempts{}
	}
	got := make(map[uuid.UUID]bool, len(taken.outgoing))
	for _, out := range taken.outgoing {
		got[out.Message.ID] = true
		p.locked.forget(out.Message.ID)
	}
	var rest []entity.Message
	for _, out := range planned {
		if !got[out.Message.ID] {
			rest = append(rest, out.Message)
		}
	}
	p.judgeUnclaimed(ctx, l, rest)
	return taken
}

// verdict returns nil after a complete pass, unless no place was reachable or only locked messages remain.
func (p *pass) verdict(ctx context.Context) error {
	cause := context.Cause(ctx)
	switch {
	case cause != nil || p.worked:
		return cause
	case p.places.nowhere():
		return p.away
	case p.held:
		return errLocked
	}
	return nil
}
