package bulk

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	// waitTimeout is how long Wait waits while the redrive itself waits, or while the store is unavailable. The redrive
	// itself continues without such a limit.
	waitTimeout = 30 * time.Second
	// shortest pause between two polls of a redrive for which Wait waits, when another process runs it.
	watchPause    = 20 * time.Millisecond
	watchPauseMax = 500 * time.Millisecond
)

// Reasons for which Wait returns before the end of a redrive.
var (
	errHeld      = errors.New("the redrive was paused or stopped itself")
	errNotWaited = errors.New("the program is shutting down; another process continues the redrive")
)

// Redrives creates redrives and changes their states, for operators. It is safe for concurrent use, and many processes
// may share one store.
type Redrives struct {
	deps      *dependencies
	moves     *prometheus.CounterVec // labelled by action and new state
	changed   wait.Broadcast         // Notify is called when the state of a redrive may have changed in this process
	draining  atomic.Bool
	selecting chan struct{} // contains an element while archived messages are selected, or such a selection is in memory
}

// New returns the Redrives for operators' requests, and the Runner that works on the active redrives. cfg must be
// valid. When selected is nil, the store supports only redrives that retry all messages of a topic. tracer makes the
// spans of batches; when it is nil, there are no spans. The metrics are in registry.
func New(
	cfg Config, store Store, selected Selections, parts *attempt.Parts, registry prometheus.Registerer, log *zap.Logger, tracer trace.Tracer,
) (*Redrives, *Runner) {
	d := &dependencies{cfg: cfg, store: store, selected: selected, archive: cfg.Archive, parts: parts, log: log, tracer: tracer}
	s := &Redrives{deps: d, selecting: make(chan struct{}, 1), moves: promauto.With(registry).NewCounterVec(prometheus.CounterOpts{
		Name: "dlq_redrives_total", Help: "Redrives by action and by the state that this process set.",
	}, []string{"action", "state"})}
	return s, &Runner{
		deps: d, redrives: s, leases: heldLeases{until: map[uuid.UUID]time.Time{}}, passes: make(chan struct{}, maxPasses),
	}
}

// validate checks the fields of a redrive that only this package can check: the patch, and the original topic to set.
// It returns the compiled patch.
func (s *Redrives) validate(n repository.NewRedrive) (*patcher, error) {
	if n.Action == entity.RedriveMap && !entity.ValidTopic(n.Options.OriginalTopic) {
		return nil, &entity.FieldError{Field: "original_topic", Reason: fmt.Sprintf("%q cannot be the name of a topic", n.Options.OriginalTopic)}
	}
	return compilePatch(n.Options, s.deps.cfg)
}

// Begin creates a redrive and returns at once; any process may run it. Cause.Operation becomes its id; if a redrive
// with that id exists, Begin returns it. An invalid patch or original topic is an *entity.FieldError.
func (s *Redrives) Begin(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	if n.ID = n.Cause.Operation; n.ID == uuid.Nil {
		n.ID = entity.NewID()
	}
	n.BatchSize = batchMessages
	if _, err := s.validate(n); err != nil {
		return entity.Redrive{}, err
	}
	r, err := s.create(ctx, n)
	if err != nil {
		return entity.Redrive{}, fmt.Errorf("create redrive: %w", err)
	}
	if r.Cause.RequestID == n.Cause.RequestID { // the request ids are equal if this request has created the redrive
		s.deps.log.Info("redrive began", append(redriveFields(r), zap.String("actor", r.Cause.Actor), traces.InLog(ctx))...)
	}
	s.changed.Notify()
	return r, nil
}

// create stores a redrive. It selects archived messages only when no redrive with the id exists.
func (s *Redrives) create(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	if n.Selection.Archived {
		if known, err := s.deps.store.Redrive(ctx, n.ID); !errors.Is(err, entity.ErrNotFound) {
			return known, err
		}
		end, err := s.oneSelection(ctx, n.Selection)
		if err != nil {
			return entity.Redrive{}, err
		}
		defer end()
		if _, err := s.selectArchived(ctx, &n); err != nil {
			return entity.Redrive{}, err
		}
	}
	return s.deps.store.CreateRedrive(ctx, n)
}

// Wait returns the redrive once it is over and none of its attempts is under way. The error is an
// *entity.InterruptedError with the redrive if the redrive waits or the store is unavailable for 30 s, if the redrive
// was paused or stopped, or if ctx ends or the program shuts down.
func (s *Redrives) Wait(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	var unreachable time.Time
	last := entity.Redrive{ID: id, State: entity.RedriveRunning}
	for pause := watchPause; ; pause = min(2*pause, watchPauseMax) {
		changed := s.changed.Listen()
		r, err := s.deps.store.Redrive(ctx, id)
		if err != nil {
			r = last
		}
		last = r
		switch {
		case err != nil && ctx.Err() == nil && !errors.Is(err, entity.ErrUnavailable):
			return entity.Redrive{}, fmt.Errorf("read redrive: %w", err)
		case r.State.Over() && r.Counts.UnderWay == 0:
			return r, nil
		case r.State.Over(): // keep waiting until the attempts under way have ended
		case !r.State.Active():
			return r, &entity.InterruptedError{Redrive: r, Err: errHeld}
		case err == nil && r.WaitingSince.IsZero():
			unreachable = time.Time{}
		case unreachable.IsZero():
			unreachable = time.Now()
		case time.Since(unreachable) >= waitTimeout && err == nil && r.Note != "":
			return r, &entity.InterruptedError{Redrive: r, Err: errors.New("it waits: " + r.Note)}
		case time.Since(unreachable) >= waitTimeout:
			return r, &entity.InterruptedError{Redrive: r, Err: errUnreachable}
		}
		if !wait.Until(ctx, changed, pause) || s.draining.Load() {
			return r, &entity.InterruptedError{Redrive: r, Err: errNotWaited}
		}
	}
}

// Pause lets the attempts under way end. The redrive then starts no more attempts until Resume is called.
func (s *Redrives) Pause(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error) {
	return s.move(ctx, id, repository.RedriveMove{To: entity.RedrivePaused, Action: entity.ActionPause, Cause: cause})
}

// Resume continues a redrive. A paused redrive continues in the state that it had before. A redrive that was stopped by
// its limits or its canary continues as if its canary had passed and no message had failed so far. A redrive that waits
// for outcomes goes on waiting; see Continue.
func (s *Redrives) Resume(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error) {
	r, err := s.deps.store.Redrive(ctx, id)
	if err != nil {
		return entity.Redrive{}, fmt.Errorf("read redrive: %w", err)
	}
	move := repository.RedriveMove{
		To: entity.RedriveRunning, Action: entity.ActionResume, Cause: cause,
		From: []entity.RedriveState{entity.RedrivePaused, entity.RedriveStopped},
	}
	if r.State == entity.RedrivePaused && !r.CanaryPassed {
		move.To = entity.RedriveCanary
	}
	return s.move(ctx, id, move)
}

// Continue ends the wait of a redrive for outcomes, for the rest of the redrive, in those topics that wait now. A canary
// that was sent passes, unless messages of it failed. Returns still count for the limit on their share. When the redrive
// does not wait, the error is an *entity.NothingWaitsError.
func (s *Redrives) Continue(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error) {
	r, err := s.deps.store.Redrive(ctx, id)
	switch {
	case err != nil:
	case s.deps.selected == nil:
		err = &entity.NothingWaitsError{ID: id, State: r.State}
	default:
		r, err = s.deps.selected.ContinueRedrive(ctx, id, cause)
	}
	if err != nil {
		return entity.Redrive{}, fmt.Errorf("continue redrive: %w", err)
	}
	s.deps.log.Info("redrive no longer waits for outcomes", append(redriveFields(r), zap.String("actor", cause.Actor), traces.InLog(ctx))...)
	s.changed.Notify()
	return r, nil
}

// Cancel ends a redrive: attempts under way end, the other messages are not changed.
func (s *Redrives) Cancel(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error) {
	return s.move(ctx, id, repository.RedriveMove{To: entity.RedriveCancelled, Action: entity.ActionCancel, Cause: cause})
}

// move changes a redrive's state and wakes all waiting goroutines of this process.
func (s *Redrives) move(ctx context.Context, id uuid.UUID, m repository.RedriveMove) (entity.Redrive, error) {
	r, err := s.deps.store.MoveRedrive(ctx, id, m)
	if err != nil {
		return entity.Redrive{}, fmt.Errorf("%s redrive: %w", m.Action, err)
	}
	if r.State == m.To {
		s.moves.WithLabelValues(string(r.Action), string(m.To)).Inc()
		s.deps.log.Info("redrive is "+string(r.State), append(redriveFields(r), zap.String("actor", m.Cause.Actor), zap.String("note", r.Note), traces.InLog(ctx))...)
	}
	s.changed.Notify()
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
