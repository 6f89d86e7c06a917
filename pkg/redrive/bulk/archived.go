package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// maxArchived is the number of archived messages that one redrive may select. Their ids are in memory together.
const maxArchived = 1_000_000

// oneSelection waits until no other call in this process selects archived messages, because a selection takes much
// memory. The caller must call end when it no longer needs the selection. For live messages it does not wait.
func (s *Redrives) oneSelection(ctx context.Context, n entity.Selection) (end func(), err error) {
	if !n.Archived {
		return func() {}, nil
	}
	select {
	case s.selecting <- struct{}{}:
		return func() { <-s.selecting }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another selection of archived messages: %w", ctx.Err())
	}
}

// selectArchived sets n.Found to the archived messages of the selection, and returns them. It does nothing for a redrive
// of live messages.
func (s *Redrives) selectArchived(ctx context.Context, n *repository.NewRedrive) ([]repository.ArchivedEntry, error) {
	if !n.Selection.Archived {
		return nil, nil
	}
	if s.deps.archive == nil {
		return nil, &repository.NeedsDatabaseError{Feature: "a redrive of archived messages"}
	}
	if !slices.Contains(entity.ArchivedActions(), n.Action) {
		return nil, &entity.FieldError{Field: "action", Reason: fmt.Sprintf("%s is not for archived messages", n.Action)}
	}
	entries, err := s.deps.archive.Select(ctx, n.Selection, maxArchived)
	if err != nil {
		return nil, fmt.Errorf("select archived messages: %w", err)
	}
	ids := make([]uuid.UUID, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	n.Found = &ids
	return entries, nil
}

// load reads messages for a preview, as Loader.Load does. Of archived messages it reads one, as it will be after its
// restoration.
func (s *Redrives) load(
	ctx context.Context, n repository.NewRedrive, ids []uuid.UUID, copies attempt.ValueCopies,
) (messages []entity.Message, taken int, release func(), err error) {
	if !n.Selection.Archived {
		messages, taken, memory, err := s.deps.parts.Loader.Load(ctx, ids, copies)
		if err != nil {
			return nil, 0, nil, err
		}
		return messages, taken, memory.Release, nil
	}
	m, err := s.deps.archive.GetArchived(ctx, ids[0], payload.MaxPatched)
	if err = unlessGone(err); err != nil {
		return nil, 0, nil, err
	}
	if m.ID != uuid.Nil {
		m.Status, m.RetryCount = entity.Pending, 0
		messages = append(messages, m)
	}
	return messages, 1, func() {}, nil
}

// errEnough ends the restoration of a batch that takes long, so that the restored messages are acted on in time.
var errEnough = errors.New("restoring takes long")

// unarchive restores the messages of a lease from the archive, or erases them when the action is RedriveDelete. What an
// earlier owner of the batch has restored counts as restored now. Messages that cannot be restored are skipped. The
// restored messages remain to do, unless the action of the redrive is done with this. An error of the archive is
// returned as away. Then the restored messages are acted on first, and the others wait for the next lease.
func (p *pass) unarchive(ctx context.Context, l *lease) (away, err error) {
	each, as, last := p.deps.archive.RestoreEach, entity.ActionRestore, p.redrive.Action == entity.RedriveRestore
	if p.redrive.Action == entity.RedriveDelete {
		each, as, last = p.deps.archive.EraseEach, entity.ActionErase, true
	}
	earlier, err := p.deps.selected.PerformedOn(ctx, p.redrive.ID, as, l.items.todo)
	if err != nil {
		return nil, fmt.Errorf("list restored messages: %w", err)
	}
	if err := p.hold(ctx, earlier); err != nil {
		return nil, err
	}
	ready := make(map[uuid.UUID]bool, len(l.items.todo))
	for _, id := range earlier {
		ready[id] = true
	}
	w := repository.ArchivedWork{Cause: p.redrive.Cause, Hold: p.holdTime()}
	w.Cause.Operation = p.redrive.ID
	w.IDs = slices.DeleteFunc(slices.Clone(l.items.todo), func(id uuid.UUID) bool { return ready[id] })
	var first time.Time // when the first message was restored
	w.Before = func() error {
		switch now := time.Now(); {
		case !p.run.leases.holds(l.owner, now):
			return errLeaseOver
		case w.Hold > 0 && !first.IsZero() && now.Sub(first) > p.deps.cfg.ClaimExpiry:
			return errEnough
		}
		return nil
	}
	w.Done = func(id uuid.UUID, err error) {
		if err != nil {
			p.skipArchived(ctx, l, id, err)
			return
		}
		ready[id] = true
		if first.IsZero() {
			first = time.Now()
		}
	}
	err = each(ctx, w)
	if last {
		for id := range ready {
			l.items.set(entity.RedriveItem{MessageID: id, Result: entity.ItemSucceeded, Offset: -1})
		}
		if err != nil {
			l.items.markDoubtful() // the store may have changed a message although its answer was lost
		}
	}
	switch {
	case err == nil:
		l.items.todo = l.items.unknown()
		return nil, nil
	case last || errors.Is(err, errLeaseOver):
		return nil, fmt.Errorf("%s archived messages: %w", as, err)
	}
	l.items.todo = restoredNow(l.items.unknown(), ready, p.redrive.Options.KeepKeyOrder)
	if errors.Is(err, errEnough) {
		return nil, nil
	}
	return fmt.Errorf("%s archived messages: %w", as, err), nil
}

// restoredNow returns the messages that may be acted on although others could not be restored: those that are restored
// or, with an order of keys, those of them before the first other message, because the keys of the others are unknown.
func restoredNow(ids []uuid.UUID, restored map[uuid.UUID]bool, ordered bool) (now []uuid.UUID) {
	for _, id := range ids {
		switch {
		case restored[id]:
			now = append(now, id)
		case ordered:
			return now
		}
	}
	return now
}

// skipArchived skips a message that cannot be restored or erased.
func (p *pass) skipArchived(ctx context.Context, l *lease, id uuid.UUID, err error) {
	var object *repository.ObjectError
	switch {
	case errors.As(err, &object):
		l.items.skip(id, SkippedUnreadable)
	case errors.Is(err, entity.ErrConflict):
		l.items.skip(id, repository.SkippedTaken)
	case errors.Is(err, entity.ErrRefused):
		l.items.skip(id, SkippedRefused)
		p.run.warn(ctx, "the database refuses an archived message", fmt.Errorf("message %s: %w", id, err))
	default:
		l.items.skip(id, repository.SkippedGone)
	}
}
