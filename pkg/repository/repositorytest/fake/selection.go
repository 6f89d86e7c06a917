package fake

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// selected is a message of a selection, and why its action cannot take it now.
type selected struct {
	id         uuid.UUID
	topic      string
	source     string // dead-letter topic
	confidence entity.Confidence
	reason     string
}

// selection returns the messages that n means, in the order in which they are to
// be taken. What nothing narrows is entity.ErrInvalid.
func (s *Store) selection(n repository.NewRedrive) ([]selected, error) {
	takes, err := taken(n)
	if err != nil {
		return nil, err
	}
	if n.Selection.Empty() {
		return nil, fmt.Errorf("a selection that nothing narrows: %w", entity.ErrInvalid)
	}
	if len(n.Selection.IDs) > 0 {
		return s.selectByID(n, takes), nil
	}
	meant := s.meant(n.Selection.Filter)
	rows := s.oldestFirst(func(m *entity.Message) bool {
		return meant(m) && (len(n.Selection.Statuses) > 0 || m.Status == entity.Retrying || takes(m) || n.Action == entity.RedriveMap && mappable(m))
	})
	found := make([]selected, len(rows))
	for i, r := range rows {
		found[i] = judged(&r.message, n.Action, takes)
	}
	return found, nil
}

func (s *Store) selectByID(n repository.NewRedrive, takes func(*entity.Message) bool) []selected {
	var found []selected
	meant := s.meant(n.Selection.Filter)
	seen := map[uuid.UUID]bool{}
	for _, id := range n.Selection.IDs {
		if seen[id] {
			continue
		}
		seen[id] = true
		r, ok := s.rows[id]
		switch visible := n.Selection.Visible; {
		case !ok, visible != nil && !visible.Sees(&r.message):
			found = append(found, selected{id: id, reason: repository.SkippedGone})
		case meant(&r.message):
			found = append(found, judged(&r.message, n.Action, takes))
		}
	}
	return found
}

func judged(m *entity.Message, action entity.RedriveAction, takes func(*entity.Message) bool) selected {
	f := selected{id: m.ID, topic: m.OriginalTopic, source: m.Source.Topic, confidence: m.Origin.Confidence}
	switch {
	case takes(m):
	case m.Claimed():
		f.reason = repository.SkippedTaken
	case action == entity.RedriveMap && mappable(m): // its own header names the topic
		f.reason = repository.SkippedOriginKnown
	default:
		f.reason = repository.SkippedNotRetryable
	}
	return f
}

// taken returns which messages the action takes.
func taken(n repository.NewRedrive) (func(*entity.Message) bool, error) {
	switch n.Action {
	case entity.RedriveRetry:
		return func(m *entity.Message) bool {
			return m.CanClaim() == nil || n.Options.Requeue && m.Status == entity.Dead
		}, nil
	case entity.RedriveRequeue:
		return func(m *entity.Message) bool { return m.Status == entity.Dead }, nil
	case entity.RedriveDead:
		return func(m *entity.Message) bool { return m.Status == entity.Pending || m.Claimed() && m.Unsettled }, nil
	case entity.RedriveDelete:
		return func(m *entity.Message) bool { return !m.Claimed() }, nil
	case entity.RedriveMap:
		return func(m *entity.Message) bool { return mappable(m) && m.Origin.Confidence != entity.FromHeader }, nil
	}
	return nil, fmt.Errorf("action %q: %w", n.Action, entity.ErrInvalid)
}

// mappable reports whether the message is in a state in which its original topic
// may be set.
func mappable(m *entity.Message) bool { return m.Status == entity.Pending || m.Status == entity.Dead }

// Survey implements repository.Selections.
func (s *Store) Survey(ctx context.Context, n repository.NewRedrive) ([]repository.SurveyGroup, error) {
	var groups []repository.SurveyGroup
	err := s.step(ctx, "survey messages", func(time.Time) error {
		found, err := s.selection(n)
		if err != nil {
			return err
		}
		counted := map[selected]*repository.SurveyGroup{}
		for _, f := range found {
			key := f
			key.id = uuid.Nil
			g, ok := counted[key]
			if !ok {
				g = &repository.SurveyGroup{Reason: f.reason, Topic: f.topic, Confidence: f.confidence, Sample: f.id}
				counted[key] = g
			}
			g.Messages++
		}
		for g := range maps.Values(counted) {
			groups = append(groups, *g)
		}
		slices.SortFunc(groups, func(a, b repository.SurveyGroup) int {
			return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Topic, b.Topic),
				cmp.Compare(a.Confidence, b.Confidence), cmp.Compare(a.Reason, b.Reason))
		})
		return nil
	})
	return groups, err
}
