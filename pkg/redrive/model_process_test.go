package redrive

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

var (
	errCrashed = errors.New("the process is dead")
	errAway    = fmt.Errorf("away: %w", entity.ErrUnavailable)
)

// process is one replica: a Service with its loops. Its calls to the store and to the broker pass through points at
// which the process can die, be suspended, or lose an answer.
type process struct {
	*Service
	store  *modelStore
	w      *world
	number int
	ctx    context.Context //nolint:containedctx // the context ends with the process
	cancel context.CancelFunc
	loops  sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	rng    *rand.Rand
	dead   bool
	ended  bool          // the process shuts down after it has finished its work
	fuse   int           // number of calls of point after which the process dies; -1: it does not die
	losing int           // number of answers after which the process loses one; -1: it loses no answer
	frozen time.Time     // the process is suspended until this time
	chill  int           // number of calls of point after which the process is suspended; -1: it is not suspended
	rest   time.Duration // how long the process is then suspended
	auto   context.CancelFunc
}

// startProcess starts a replica that runs redrives and the settler. Automatic retry is off.
func (w *world) startProcess() *process {
	p := &process{w: w, number: len(w.processes), fuse: -1, losing: -1, chill: -1}
	p.rng = rand.New(rand.NewPCG(w.seed, uint64(100+p.number)))
	cfg := DefaultConfig()
	cfg.Workers = 1 + p.rng.IntN(3)
	cfg.Auto.Topics = []string{orders}
	cfg.Auto.Batch = 1 + p.rng.IntN(6)
	cfg.Auto.Parallelism = 1 + p.rng.IntN(2)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.store = &modelStore{p: p, store: w.store}
	parts := Stores{Attempts: p.store, Redrives: p.store, Due: p.store, Selections: p.store, Outcomes: p.store}
	p.Service = New(cfg, parts, &modelBroker{p}, prometheus.NewRegistry(), zap.NewNop(),
		func(o *options) { o.attempt.Random = p.random })
	p.loops.Go(func() { p.RunRedrives(p.ctx) })
	p.loops.Go(func() { p.RunSettler(p.ctx) })
	w.alive.Lock()
	defer w.alive.Unlock()
	w.processes = append(w.processes, p)
	return p
}

func (p *process) random() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rng.Float64()
}

func (p *process) coin() bool { return p.random() < 0.5 }

// die ends the process like kill -9. Calls that it has already sent may still be executed.
func (p *process) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	p.cancel()
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// end shuts the process down, after it has finished its work.
func (p *process) end() {
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	p.cancel()
	p.loops.Wait()
}

// lives reports whether the process accepts requests.
func (p *process) lives() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.dead && !p.ended
}

// toggle turns the automatic retry of the process on if it is off, and off if it is on.
func (p *process) toggle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.auto != nil {
		p.auto()
		p.auto = nil
		return
	}
	ctx, cancel := context.WithCancel(p.ctx)
	p.auto = cancel
	p.loops.Go(func() { p.RunAuto(ctx) })
}

// heal removes the faults of the process that have not occurred yet. Calls that wait for the end of a suspension
// continue to wait.
func (p *process) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fuse, p.losing, p.chill, p.frozen = -1, -1, -1, time.Time{}
}

// point is called at each moment at which the process may die or be suspended. It reports whether the process is dead.
func (p *process) point() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fuse == 0 {
		p.dead = true
		p.cancel()
	}
	if p.chill == 0 {
		p.frozen = time.Now().Add(p.rest)
	}
	p.fuse, p.chill = max(-1, p.fuse-1), max(-1, p.chill-1)
	return p.dead
}

// thaw waits until the suspension of the process is over. It reports whether the process was suspended.
func (p *process) thaw() bool {
	was := false
	for {
		p.mu.Lock()
		rest := time.Until(p.frozen)
		p.mu.Unlock()
		if rest <= 0 {
			return was
		}
		was = true
		elapse(rest)
	}
}

// travel waits for the duration of a call, which is different each time so that concurrent calls get an order. It ends
// early when ctx ends.
func (p *process) travel(ctx context.Context) error { return p.travelFor(ctx, 12*time.Second) }

// travelFor waits like travel. The parameter most limits the duration, and few calls take that long.
func (p *process) travelFor(ctx context.Context, most time.Duration) error {
	p.mu.Lock()
	d := time.Duration(100_000 + p.rng.IntN(3_000_000))
	switch n := p.rng.IntN(1000); {
	case n < 3:
		d += time.Duration(p.rng.Int64N(int64(most)))
	case n < 30:
		d += time.Duration(p.rng.Int64N(int64(time.Second)))
	}
	p.mu.Unlock()
	if !wait.Sleep(ctx, d) {
		return p.cut(ctx)
	}
	return nil
}

// cut returns the error of a store call whose context ended before the answer came. The store may still execute the
// call.
func (p *process) cut(ctx context.Context) error {
	switch {
	case p.isDead():
		return errCrashed
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", errAway, ctx.Err())
	default:
		return ctx.Err()
	}
}

// loses reports whether the process loses the answer that has just arrived.
func (p *process) loses() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := p.losing == 0
	p.losing = max(-1, p.losing-1)
	return lost
}

// ask sends a call of the process to the store, and its answer back. On both ways the process may die or the call may
// time out, so the caller of a failed call does not know whether the store has executed it.
func ask[T any](ctx context.Context, p *process, do func(ctx context.Context) (T, error)) (T, error) {
	return askAt(ctx, p, p.point, p.loses, do)
}

// look calls the store like ask, but the call is no point at which the process dies, is suspended or loses an answer.
// Loops use it for their polls, because they poll too often.
func look[T any](ctx context.Context, p *process, do func(ctx context.Context) (T, error)) (T, error) {
	return askAt(ctx, p, p.isDead, func() bool { return false }, do)
}

func askAt[T any](ctx context.Context, p *process, point, loses func() bool, do func(ctx context.Context) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, p.cut(ctx)
	}
	if p.thaw() {
		return none, errAway // the connection to the store has ended while the process was suspended
	}
	if point() {
		return none, errCrashed
	}
	lost := p.travel(ctx)
	if lost != nil && p.coin() {
		return none, lost
	}
	if p.w.isStoreAway() {
		return none, errAway
	}
	result, err := func() (T, error) {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		return do(context.WithoutCancel(ctx))
	}()
	if lost != nil {
		return none, lost
	}
	if point() {
		return none, errCrashed
	}
	p.thaw()
	if lost := p.travel(ctx); lost != nil {
		return none, lost
	}
	if loses() {
		return none, errAway
	}
	return result, err
}

// tell calls the store like ask, for a call that returns only an error.
func tell(ctx context.Context, p *process, do func(ctx context.Context) error) error {
	_, err := ask(ctx, p, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}
