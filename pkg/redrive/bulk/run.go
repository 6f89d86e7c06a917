package bulk

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/internal/harm"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// canaryPatience is how long a canary waits before its note says for what.
const canaryPatience = 5 * time.Second

const (
	minPause = 5 * time.Millisecond // shortest pause between polls of the store when a rate limits a redrive
	// unreachablePause is the first pause after a pass that reached no partition. Each further pause is twice as long,
	// up to unreachablePauseMax.
	unreachablePause    = time.Second
	unreachablePauseMax = 5 * time.Second
)

func newRun(r *Runner, id uuid.UUID) *run {
	return &run{
		deps: r.deps, redrives: r.redrives, leases: &r.leases, passes: r.passes, id: id,
		sources: map[string]bool{}, targets: map[string]string{}, gone: map[string]time.Time{},
		after: batchOf{number: none}, locked: lockedMessages{lastRetry: map[uuid.UUID]time.Time{}},
	}
}

// work works on the redrive until it is no longer active, or ctx ends.
func (r *run) work(ctx context.Context) {
	for pause := time.Duration(0); ctx.Err() == nil; {
		var bounds []entity.TopicBound
		changed := r.redrives.changed.Listen()
		redrive, err := r.deps.store.Redrive(ctx, r.id)
		switch {
		case err != nil:
			r.warn(ctx, "cannot read the redrive", err)
		case !redrive.State.Active() && redrive.Counts.UnderWay == 0:
			return
		case redrive.State.Active() && r.supervise(ctx, redrive):
			return
		default:
			bounds = r.look(ctx, redrive)
			worked, err := r.turn(ctx, redrive)
			if err == nil && worked {
				pause = 0
				r.setWaiting(ctx, false, "")
				continue
			}
			if err != nil && ctx.Err() == nil {
				pause = nextPause(pause, err)
				// a shorter pause waits for locked rows, which usually are free after milliseconds
				if pause >= unreachablePause {
					r.reportWaiting(ctx, err)
				}
				wait.Sleep(ctx, pause)
				continue
			}
			if note, endless := r.waitingNote(ctx, redrive, bounds); note != "" && (redrive.State == entity.RedriveRunning || r.canary.SentAt.IsZero()) {
				r.setWaiting(ctx, endless, note)
			}
		}
		wait.Until(ctx, changed, r.pause(redrive, bounds))
	}
}

// nextPause returns the pause after a pass in which no message got a result. The parameter last is the pause before
// that pass.
func nextPause(last time.Duration, err error) time.Duration {
	first := unreachablePause
	if errors.Is(err, errLocked) {
		first = lockedPause
	}
	return max(first, min(2*last, unreachablePauseMax))
}

// turn waits until fewer than maxPasses passes run in the process, and then makes a pass over the redrive.
func (r *run) turn(ctx context.Context, redrive entity.Redrive) (worked bool, err error) {
	select {
	case r.passes <- struct{}{}:
	case <-ctx.Done():
		return false, nil
	}
	defer func() { <-r.passes }()
	r.compile(redrive.Options)
	return newPass(r, redrive).work(ctx)
}

// pause returns the pause before the next poll. The pause is shorter than usual if the usual pause would make the
// redrive slower than its requested rate, and while outcomes are expected at any moment.
func (r *run) pause(redrive entity.Redrive, bounds []entity.TopicBound) time.Duration {
	pause := pollInterval
	if slices.ContainsFunc(bounds, func(b entity.TopicBound) bool { return b.Unknown() > 0 && time.Since(b.AdmittedAt) < outcomePatience }) {
		pause = boundPause
	}
	rate := redrive.Options.Rate
	if rate <= 0 {
		return pause
	}
	batch := min(batchMessages, max(1, rate)) / rate * float64(time.Second)
	return min(pause, max(time.Duration(batch)/20, minPause))
}

func (r *run) reportWaiting(ctx context.Context, err error) {
	r.warn(ctx, "redrive waits", err)
	r.setWaiting(ctx, true, err.Error())
}

// supervise changes the redrive's state if its counts require that, for example when no message waits any more. It
// reports whether the redrive is no longer active.
func (r *run) supervise(ctx context.Context, redrive entity.Redrive) (over bool) {
	move, due := r.next(ctx, redrive)
	if !due {
		return false
	}
	moved, err := r.redrives.move(ctx, r.id, move)
	var other *entity.RedriveStateError
	if errors.As(err, &other) { // another process or an operator has changed the state first
		return !other.From.Active()
	}
	if err != nil {
		r.warn(ctx, "cannot change the redrive's state", err)
		return false
	}
	r.waiting, r.note = false, "" // with the state change, the store has also removed the mark that the redrive waits
	return !moved.State.Active()
}

// next returns the state change that the counts of a redrive require; the second result is false if none is required.
func (r *run) next(ctx context.Context, redrive entity.Redrive) (repository.RedriveMove, bool) {
	if redrive.Counts.Waiting == 0 {
		finish := repository.RedriveMove{
			To: entity.RedriveFinished, Action: entity.ActionFinish, Cause: entity.By(redrive.Cause.Actor), Note: redrive.Note,
		}
		if !redrive.WaitingSince.IsZero() {
			finish.Note = "" // while a redrive waits, its note says why; a finished redrive does not wait
		}
		return finish, true
	}
	if why := harm.Excess(redrive); why != "" {
		return stopMove(redrive, why), true
	}
	if redrive.State != entity.RedriveCanary {
		return repository.RedriveMove{}, false
	}
	return r.judgeCanary(ctx, redrive)
}

// judgeCanary returns the state change that follows from the results of the canary; the second result is false while
// the canary is undecided.
func (r *run) judgeCanary(ctx context.Context, redrive entity.Redrive) (repository.RedriveMove, bool) {
	size := min(redrive.Options.Canary, redrive.Selected-redrive.LeftOut)
	if done := redrive.Selected - redrive.LeftOut - redrive.Counts.Waiting; done < size {
		return repository.RedriveMove{}, false
	}
	items, err := r.deps.selected.RedriveItems(ctx, redrive.ID, repository.ItemQuery{Limit: size})
	if err != nil {
		r.warn(ctx, "cannot read the canary's messages", err)
		return repository.RedriveMove{}, false
	}
	r.follow(ctx, harm.Unknown(items))
	t := harm.Count(items, r.hidden)
	pass, why := r.canary.Decide(t, redrive.Options, time.Now())
	switch {
	case why == "" && time.Since(r.canary.SentAt) >= min(canaryPatience, redrive.Options.CanaryWait) && len(t.Groups) > 0:
		until := r.canary.SentAt.Add(redrive.Options.CanaryWait)
		r.setWaiting(ctx, t.Awaited > 0, "canary: "+r.outcomeNote(ctx, t.Topic, t.Groups, t.Awaited+t.Hidden, until))
		return repository.RedriveMove{}, false
	case why == "":
		return repository.RedriveMove{}, false
	case !pass:
		return stopMove(redrive, "canary: "+why), true
	}
	return repository.RedriveMove{
		To: entity.RedriveRunning, From: []entity.RedriveState{entity.RedriveCanary}, Action: entity.ActionPass,
		Note: "canary: " + why, Cause: entity.By(redrive.Cause.Actor), PassCanary: true,
	}, true
}

// compile compiles the redrive's patch once per run. If the stored patch is invalid, although Begin rejects invalid
// patches, it applies to no message.
func (r *run) compile(o entity.RedriveOptions) {
	if r.patch != nil {
		return
	}
	p, err := compilePatch(o, r.deps.cfg)
	if err != nil {
		p = &patcher{raw: o.Patch, fault: err}
	}
	r.patch = p
}
