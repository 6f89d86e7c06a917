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

// countArchived counts archived messages as PreviewRedrive counts live messages. Every archived message can be restored.
// Those of the selection's ids that are not among the entries are gone.
func countArchived(n repository.NewRedrive, entries []repository.ArchivedEntry) []repository.SelectionCount {
	var groups []repository.SelectionCount
	at := map[string]int{} // index in groups, by topic
	found := make(map[uuid.UUID]bool, len(entries))
	for _, e := range entries {
		found[e.ID] = true
		i, ok := at[e.OriginalTopic]
		if !ok {
			i = len(groups)
			at[e.OriginalTopic] = i
			groups = append(groups, repository.SelectionCount{Topic: e.OriginalTopic, Sample: e.ID})
		}
		groups[i].Messages++
	}
	gone := repository.SelectionCount{Reason: repository.SkippedGone}
	for _, id := range n.Selection.IDs {
		if !found[id] {
			found[id] = true
			gone.Messages++
			gone.Sample = id
		}
	}
	if gone.Messages > 0 {
		groups = append(groups, gone)
	}
	return groups
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

// unarchive restores the messages of a lease from the archive, or erases them when the action is RedriveDelete. What an
// earlier owner of the batch has restored counts as restored now. Messages that cannot be restored are skipped, and the
// others remain to do, unless the action of the redrive is done with this.
func (p *pass) unarchive(ctx context.Context, l *lease) error {
	each, as, last := p.deps.archive.RestoreEach, entity.ActionRestore, p.redrive.Action == entity.RedriveRestore
	if p.redrive.Action == entity.RedriveDelete {
		each, as, last = p.deps.archive.EraseEach, entity.ActionErase, true
	}
	cause := p.redrive.Cause
	cause.Operation = p.redrive.ID
	earlier, err := p.deps.selected.PerformedOn(ctx, p.redrive.ID, as, l.items.todo)
	if err != nil {
		return fmt.Errorf("list restored messages: %w", err)
	}
	if !p.run.leases.holds(l.owner, time.Now()) {
		return errLeaseOver
	}
	ready := make(map[uuid.UUID]bool, len(l.items.todo))
	for _, id := range earlier {
		ready[id] = true
	}
	todo := slices.DeleteFunc(slices.Clone(l.items.todo), func(id uuid.UUID) bool { return ready[id] })
	err = each(ctx, todo, cause, func(id uuid.UUID, err error) {
		var object *repository.ObjectError
		switch {
		case err == nil:
			ready[id] = true
		case errors.As(err, &object):
			l.items.skip(id, SkippedUnreadable)
		case errors.Is(err, entity.ErrConflict):
			l.items.skip(id, repository.SkippedTaken)
		default:
			l.items.skip(id, repository.SkippedGone)
		}
	})
	if last {
		for id := range ready {
			l.items.set(entity.RedriveItem{MessageID: id, Result: entity.ItemSucceeded, Offset: -1})
		}
	}
	if err != nil {
		if last {
			l.items.markDoubtful() // the store may have changed a message although its answer was lost
		}
		return fmt.Errorf("%s archived messages: %w", as, err)
	}
	l.items.todo = l.items.unknown()
	return nil
}
