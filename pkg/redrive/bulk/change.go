package bulk

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// change carries out the action of a redrive, other than retry, on the messages of a lease. It uses one SQL statement
// for all messages.
func (p *pass) change(ctx context.Context, l *lease) error {
	ids, err := p.permitted(ctx, l)
	if err != nil || len(ids) == 0 {
		return err
	}
	cause := p.redrive.Cause
	cause.Operation = p.redrive.ID
	changed, err := p.deps.selected.Change(ctx, repository.Change{
		Action: p.redrive.Action, IDs: ids, OriginalTopic: p.redrive.Options.OriginalTopic, Lease: l.held(),
	}, cause)
	if err != nil {
		l.items.markDoubtful() // the store may have made the changes although its answer was lost
		return fmt.Errorf("%s messages: %w", p.redrive.Action, err)
	}
	done := make(map[uuid.UUID]bool, len(changed))
	for _, id := range changed {
		done[id] = true
		l.items.set(entity.RedriveItem{MessageID: id, Result: entity.ItemSucceeded, Offset: -1})
	}
	l.items.skipOthers(ids, done, repository.SkippedTaken)
	return nil
}

// permitted returns the messages that a redrive with the action map may change: the redrive's creator also needs the
// role on their dead-letter topic.
func (p *pass) permitted(ctx context.Context, l *lease) ([]uuid.UUID, error) {
	visible := p.redrive.Selection.Visible
	if p.redrive.Action != entity.RedriveMap || visible == nil {
		return l.items.todo, nil
	}
	var ids []uuid.UUID
	for _, id := range l.items.todo {
		m, err := p.deps.store.Get(ctx, id, 0)
		if unlessGone(err) != nil {
			return nil, fmt.Errorf("read message: %w", err)
		}
		if err == nil && !maySetOrigin(&m, visible) {
			l.items.skip(id, attempt.SkippedNotPermitted)
			continue
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// maySetOrigin reports whether the redrive's creator may set the original topic of the message: visible lists the
// topics on which the creator has the role, and must include the message's dead-letter topic; nil includes all topics.
func maySetOrigin(m *entity.Message, visible *entity.TopicPatterns) bool {
	return visible == nil || m.Source.Topic == "" || visible.Match(m.Source.Topic)
}

func unlessGone(err error) error {
	if errors.Is(err, entity.ErrNotFound) {
		return nil
	}
	return err
}
