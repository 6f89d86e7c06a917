package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

const (
	batchMessages = 500 // number of messages that are leased, claimed, sent and stored together

	// waitPatience is how long Wait waits for a redrive that makes no progress. The redrive itself waits without limit.
	waitPatience  = 30 * time.Second
	watchPause    = 20 * time.Millisecond // how often Wait polls a redrive that another process runs
	watchPauseMax = 500 * time.Millisecond
)

// Reasons for which Wait returns before the end of a redrive.
var (
	errStranded  = errors.New("a server cannot be reached; the redrive continues when it can")
	errHeld      = errors.New("the redrive was paused or stopped itself")
	errNotWaited = errors.New("the program is shutting down; another process continues the redrive")
)

// understand validates the fields that only this package can validate, and returns the compiled patch.
func understand(n repository.NewRedrive) (patcher, error) {
	if n.Action == entity.RedriveMap && !entity.ValidTopic(n.Options.OriginalTopic) {
		return nil, &entity.FieldError{Field: "original_topic", Reason: fmt.Sprintf("%q cannot be the name of a topic", n.Options.OriginalTopic)}
	}
	return compilePatch(n.Options.Patch)
}

// Begin creates a redrive and returns at once; any process may run it. Cause.Operation becomes its id; if a redrive
// with that id exists, Begin returns it. An invalid patch or original topic is an *entity.FieldError.
func (s *Service) Begin(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	if n.ID = n.Cause.Operation; n.ID == uuid.Nil {
		n.ID = entity.NewID()
	}
	n.BatchSize = batchMessages
	if _, err := understand(n); err != nil {
		return entity.Redrive{}, err
	}
	r, err := s.store.CreateRedrive(ctx, n)
	if err != nil {
		return entity.Redrive{}, fmt.Errorf("create redrive: %w", err)
	}
	if r.Cause.RequestID == n.Cause.RequestID { // otherwise an earlier request created it
		s.log.Info("redrive began", append(redriveFields(r), zap.String("actor", r.Cause.Actor), traces.InLog(ctx))...)
	}
	s.bell.ring()
	return r, nil
}

// Wait returns the redrive once it is over and none of its attempts is under way. If the redrive makes no progress
// for 30 s, was paused or stopped, or ctx ends, the error is an *entity.InterruptedError with the redrive, which
// continues.
func (s *Service) Wait(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	var stranded time.Time
	last := entity.Redrive{ID: id, State: entity.RedriveRunning}
	for wait := watchPause; ; wait = min(2*wait, watchPauseMax) {
		changed := s.bell.listen()
		r, err := s.store.Redrive(ctx, id)
		if err != nil {
			r = last
		}
		last = r
		switch {
		case err != nil && ctx.Err() == nil && !errors.Is(err, entity.ErrUnavailable):
			return entity.Redrive{}, fmt.Errorf("read redrive: %w", err)
		case r.State.Over() && r.Counts.UnderWay == 0:
			return r, nil
		case r.State.Over(): // wait for the attempts under way
		case !r.State.Active():
			return r, &entity.InterruptedError{Redrive: r, Err: errHeld}
		case err == nil && r.WaitingSince.IsZero():
			stranded = time.Time{}
		case stranded.IsZero():
			stranded = s.now()
		case s.now().Sub(stranded) >= waitPatience:
			return r, &entity.InterruptedError{Redrive: r, Err: errStranded}
		}
		if !until(ctx, changed, wait) || s.draining.Load() {
			return r, &entity.InterruptedError{Redrive: r, Err: errNotWaited}
		}
	}
}

// Pause lets the attempts under way end and starts no more until Resume.
func (s *Service) Pause(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Redrive, error) {
	return s.move(ctx, id, repository.RedriveMove{To: entity.RedrivePaused, Action: entity.ActionPause, Cause: cause})
}

// Resume continues a redrive: a paused one where it was, one that stopped itself as if its canary had passed and
// nothing had failed so far, and one that waits for its canary as if the canary had passed.
func (s *Service) Resume(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Redrive, error) {
	r, err := s.store.Redrive(ctx, id)
	if err != nil {
		return entity.Redrive{}, fmt.Errorf("read redrive: %w", err)
	}
	move := repository.RedriveMove{
		To: entity.RedriveRunning, Action: entity.ActionResume, Cause: cause,
		From: []entity.RedriveState{entity.RedrivePaused, entity.RedriveStopped, entity.RedriveCanary},
	}
	switch {
	case r.State == entity.RedrivePaused && !r.CanaryPassed:
		move.To = entity.RedriveCanary
	case r.State == entity.RedriveCanary:
		move.PassCanary = true
	}
	return s.move(ctx, id, move)
}

// Cancel ends a redrive: attempts under way end, the other messages are not changed.
func (s *Service) Cancel(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Redrive, error) {
	return s.move(ctx, id, repository.RedriveMove{To: entity.RedriveCancelled, Action: entity.ActionCancel, Cause: cause})
}

// move changes a redrive's state and wakes all waiting goroutines of this process.
func (s *Service) move(ctx context.Context, id uuid.UUID, m repository.RedriveMove) (entity.Redrive, error) {
	r, err := s.store.MoveRedrive(ctx, id, m)
	if err != nil {
		return entity.Redrive{}, fmt.Errorf("%s redrive: %w", m.Action, err)
	}
	if r.State == m.To {
		s.metrics.redrives.WithLabelValues(string(r.Action), string(m.To)).Inc()
		s.log.Info("redrive is "+string(r.State), append(redriveFields(r), zap.String("actor", m.Cause.Actor), zap.String("note", r.Note), traces.InLog(ctx))...)
	}
	s.bell.ring()
	return r, nil
}

func redriveFields(r entity.Redrive) []zap.Field {
	c := r.Counts
	return []zap.Field{
		zap.Stringer("redrive_id", r.ID), zap.String("action", string(r.Action)), zap.String("state", string(r.State)),
		zap.String("topic", r.Selection.Topic), zap.Int("selected", r.Selected),
		zap.Int("succeeded", c.Succeeded), zap.Int("failed", c.Failed), zap.Int("dead", c.Dead),
		zap.Int("in_doubt", c.InDoubt), zap.Int("skipped", c.Skipped), zap.Any("reasons", c.Reasons),
	}
}
