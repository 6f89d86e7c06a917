package redrive

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	maxPasses        = 8                    // redrives that a process carries on at once, without waiting ones
	lookAgain        = time.Second          // between looks for redrives, and for work, when nothing wakes it
	minRest          = 5 * time.Millisecond // bounds how often the store is asked whether a rate allows more
	strandedPause    = time.Second          // A redrive of which nothing can be reached is tried again after a pause
	strandedPauseMax = 5 * time.Second
)

// RunRedrives carries on redrives until ctx ends, and returns when nothing is under way: results are stored,
// unsent claims given back, and leases free for others. With Config.Workers 0 it only waits.
func (s *Service) RunRedrives(ctx context.Context) {
	context.AfterFunc(ctx, s.drain)
	if s.cfg.Workers == 0 {
		<-ctx.Done()
		return
	}
	renewing, stopRenewing := context.WithCancel(context.WithoutCancel(ctx))
	var renewal sync.WaitGroup
	renewal.Go(func() { s.renewLeases(renewing) })

	var runs sync.WaitGroup
	var mu sync.Mutex
	running := map[uuid.UUID]bool{}
	for ctx.Err() == nil {
		changed := s.bell.listen()
		ids, err := s.store.ActiveRedrives(ctx)
		if err != nil && ctx.Err() == nil {
			s.log.Warn("redrives cannot be looked for", zap.Error(err))
		}
		for _, id := range ids {
			mu.Lock()
			free := !running[id]
			if free {
				running[id] = true
			}
			mu.Unlock()
			if !free {
				continue
			}
			runs.Go(func() {
				newRun(s, id).work(ctx)
				mu.Lock()
				defer mu.Unlock()
				delete(running, id)
			})
		}
		until(ctx, changed, lookAgain)
	}
	runs.Wait()
	stopRenewing()
	renewal.Wait()
}

// drain sends away who waits for redrives: others carry them on.
func (s *Service) drain() {
	s.draining.Store(true)
	s.bell.ring()
}

// renewLeases prolongs what this process has leased. It goes on during a drain, until the last batch is saved. A
// lease is as long as a claim: once a batch of a dead process can be taken over, its claims can be settled.
func (s *Service) renewLeases(ctx context.Context) {
	for wait.Sleep(ctx, s.cfg.ClaimExpiry/4) {
		for _, l := range s.leases.all() {
			asked := s.now()
			if err := s.store.RenewLeases(ctx, l.owner, s.cfg.ClaimExpiry); err != nil {
				if ctx.Err() == nil {
					s.log.Warn("leases were not renewed", zap.Error(err))
				}
				break
			}
			s.leases.renewed(l, asked, asked.Add(s.cfg.ClaimExpiry))
		}
	}
}

// work carries the redrive on until it is no longer active, or ctx ends.
func (r *run) work(ctx context.Context) {
	for rest := time.Duration(0); ctx.Err() == nil; {
		changed := r.bell.listen()
		redrive, err := r.store.Redrive(ctx, r.id)
		switch {
		case err != nil:
			r.complain(ctx, "redrive cannot be looked at", err)
		case !redrive.State.Active() && redrive.Counts.UnderWay == 0:
			return
		case redrive.State.Active() && r.supervise(ctx, redrive):
			return
		default:
			worked, err := r.turn(ctx, redrive)
			if err == nil && worked {
				rest = 0
				r.noteWaiting(ctx, false, "")
				continue
			}
			if err != nil && ctx.Err() == nil {
				rest = nextPause(rest, err)
				if rest >= strandedPause { // a lock is usually held for milliseconds
					r.strand(ctx, err)
				}
				wait.Sleep(ctx, rest)
				continue
			}
		}
		until(ctx, changed, r.rest(redrive))
	}
}

// nextPause is how long a redrive rests after a pass that got nowhere, given the pause before that.
func nextPause(last time.Duration, err error) time.Duration {
	first := strandedPause
	if errors.Is(err, errLocked) {
		first = lockedPause
	}
	return max(first, min(2*last, strandedPauseMax))
}

// turn makes a pass when it is the redrive's turn.
func (r *run) turn(ctx context.Context, redrive entity.Redrive) (worked bool, err error) {
	select {
	case r.passes <- struct{}{}:
	case <-ctx.Done():
		return false, nil
	}
	defer func() { <-r.passes }()
	return r.pass(ctx, redrive)
}

// rest is how long a run waits before it looks again: shorter where the rate would be missed by waiting.
func (r *run) rest(redrive entity.Redrive) time.Duration {
	rate := redrive.Options.Rate
	if rate <= 0 {
		return lookAgain
	}
	batch := min(batchMessages, max(1, rate)) / rate * float64(time.Second)
	return min(lookAgain, max(time.Duration(batch)/20, minRest))
}

func (r *run) strand(ctx context.Context, err error) {
	r.complain(ctx, "redrive waits", err)
	r.noteWaiting(ctx, true, err.Error())
}

// noteWaiting writes to the store only when waiting has changed.
func (r *run) noteWaiting(ctx context.Context, waiting bool, note string) {
	if waiting == r.waiting {
		return
	}
	if err := r.store.SaveWaiting(ctx, r.id, waiting, storable(note)); err != nil {
		r.complain(ctx, "redrive's waiting was not noted", err)
		return
	}
	r.waiting = waiting
}

func (r *run) complain(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		r.log.Warn(what, zap.Stringer("redrive_id", r.id), zap.Error(err), traces.InLog(ctx))
	}
}

// supervise decides what follows from the counts, and reports whether this process is done with the redrive.
func (r *run) supervise(ctx context.Context, redrive entity.Redrive) (over bool) {
	move, due := r.next(ctx, redrive)
	if !due {
		return false
	}
	moved, err := r.move(ctx, r.id, move)
	var other *entity.RedriveStateError
	if errors.As(err, &other) { // another process or an operator was faster
		return !other.From.Active()
	}
	if err != nil {
		r.complain(ctx, "redrive's state was not changed", err)
		return false
	}
	r.waiting = false // a move forgets it
	return !moved.State.Active()
}

// next is the move that a redrive is due for by itself.
func (r *run) next(ctx context.Context, redrive entity.Redrive) (repository.RedriveMove, bool) {
	if redrive.Counts.Waiting == 0 {
		finish := repository.RedriveMove{
			To: entity.RedriveFinished, Action: entity.ActionFinish, Cause: entity.By(redrive.Cause.Actor), Note: redrive.Note,
		}
		if !redrive.WaitingSince.IsZero() {
			finish.Note = "" // what it waited for is over
		}
		return finish, true
	}
	if why := excess(redrive); why != "" {
		return stop(redrive, why), true
	}
	if redrive.State != entity.RedriveCanary {
		return repository.RedriveMove{}, false
	}
	return r.canary.judge(ctx, r, redrive)
}

func stop(redrive entity.Redrive, why string) repository.RedriveMove {
	return repository.RedriveMove{
		To: entity.RedriveStopped, Action: entity.ActionStop, Note: why, Cause: entity.By(redrive.Cause.Actor),
		From: []entity.RedriveState{entity.RedriveCanary, entity.RedriveRunning},
	}
}
