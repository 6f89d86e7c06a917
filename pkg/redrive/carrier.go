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
	maxPasses        = 8                    // redrives that a process works on at once, waiting ones excluded
	lookAgain        = time.Second          // pause between polls for redrives, and for work, without a wake-up
	minRest          = 5 * time.Millisecond // shortest pause between polls of the store when a rate limits a redrive
	strandedPause    = time.Second          // pause of a redrive that can reach nothing, doubled up to the maximum
	strandedPauseMax = 5 * time.Second
)

// RunRedrives works on active redrives until ctx ends. It returns when no attempt is under way: results are stored,
// unsent claims given back, and leases released. With Config.Workers 0 it only waits for ctx.
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
			s.log.Warn("cannot list active redrives", zap.Error(err))
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

// drain ends the waiting of callers of Wait: other processes continue their redrives.
func (s *Service) drain() {
	s.draining.Store(true)
	s.bell.ring()
}

// renewLeases extends the leases of this process. It continues during a drain, until the last batch is saved. A lease
// is as long as a claim: when a batch of a dead process can be taken over, its claims can be settled.
func (s *Service) renewLeases(ctx context.Context) {
	for wait.Sleep(ctx, s.cfg.ClaimExpiry/4) {
		for _, l := range s.leases.all() {
			asked := s.now()
			if err := s.store.RenewLeases(ctx, l.owner, s.cfg.ClaimExpiry); err != nil {
				if ctx.Err() == nil {
					s.log.Warn("cannot renew leases", zap.Error(err))
				}
				break
			}
			s.leases.renewed(l, asked, asked.Add(s.cfg.ClaimExpiry))
		}
	}
}

// work works on the redrive until it is no longer active, or ctx ends.
func (r *run) work(ctx context.Context) {
	for rest := time.Duration(0); ctx.Err() == nil; {
		changed := r.bell.listen()
		redrive, err := r.store.Redrive(ctx, r.id)
		switch {
		case err != nil:
			r.complain(ctx, "cannot read the redrive", err)
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
				if rest >= strandedPause { // database locks usually last milliseconds
					r.strand(ctx, err)
				}
				wait.Sleep(ctx, rest)
				continue
			}
		}
		until(ctx, changed, r.rest(redrive))
	}
}

// nextPause returns the pause after a pass without progress; last is the pause before it.
func nextPause(last time.Duration, err error) time.Duration {
	first := strandedPause
	if errors.Is(err, errLocked) {
		first = lockedPause
	}
	return max(first, min(2*last, strandedPauseMax))
}

// turn makes a pass once fewer than maxPasses passes run.
func (r *run) turn(ctx context.Context, redrive entity.Redrive) (worked bool, err error) {
	select {
	case r.passes <- struct{}{}:
	case <-ctx.Done():
		return false, nil
	}
	defer func() { <-r.passes }()
	return r.pass(ctx, redrive)
}

// rest returns the pause before the next poll: shorter where a longer one would miss the requested rate.
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

// noteWaiting saves whether the redrive waits, and why, when that has changed.
func (r *run) noteWaiting(ctx context.Context, waiting bool, note string) {
	if waiting == r.waiting {
		return
	}
	if err := r.store.NoteWaiting(ctx, r.id, waiting, storable(note)); err != nil {
		r.complain(ctx, "cannot save that the redrive waits", err)
		return
	}
	r.waiting = waiting
}

func (r *run) complain(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		r.log.Warn(what, zap.Stringer("redrive_id", r.id), zap.Error(err), traces.InLog(ctx))
	}
}

// supervise makes the state change that the counts require, and reports whether the redrive is no longer active.
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
		r.complain(ctx, "cannot change the redrive's state", err)
		return false
	}
	r.waiting = false // the state change has cleared it in the store
	return !moved.State.Active()
}

// next returns the state change that is due without an operator, and whether there is one.
func (r *run) next(ctx context.Context, redrive entity.Redrive) (repository.RedriveMove, bool) {
	if redrive.Counts.Waiting == 0 {
		finish := repository.RedriveMove{
			To: entity.RedriveFinished, Action: entity.ActionFinish, Cause: entity.By(redrive.Cause.Actor), Note: redrive.Note,
		}
		if !redrive.WaitingSince.IsZero() {
			finish.Note = "" // its waiting is over
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
