package redrive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// maxSamples is how many messages a preview shows a patch on.
const maxSamples = 5

var errTooLargeToShow = errors.New("the value is too large to be shown")

// Preview says what Begin would do with the messages as they are now, and what
// would not be sent and why. It plans one message of each group that has its
// topics and its confidence in common; what only the broker can say of a single
// record is not in it. With a patch it shows what that makes of some of them;
// whether it fits the others is not known before their turn. Errors are as in Begin.
func (s *Service) Preview(ctx context.Context, n repository.NewRedrive) (entity.Preview, error) {
	if s.selected == nil {
		return entity.Preview{}, &repository.NeedsDatabaseError{Feature: "a preview"}
	}
	patch, err := understand(n)
	if err != nil {
		return entity.Preview{}, err
	}
	n.BatchSize = batchMessages
	groups, err := s.selected.PreviewRedrive(ctx, n)
	if err != nil {
		return entity.Preview{}, fmt.Errorf("survey messages: %w", err)
	}
	p := entity.Preview{Reasons: map[string]int{}}
	for _, g := range groups {
		shown, err := s.previewOf(ctx, n, g)
		if err != nil {
			return entity.Preview{}, err
		}
		p.Selected += g.Messages
		if shown.Class == "" {
			p.Sendable += g.Messages
		} else {
			p.Reasons[shown.Class] += g.Messages
		}
		p.Groups = append(p.Groups, shown)
	}
	if patch != nil && n.Action == entity.RedriveRetry {
		p.Samples, err = s.samples(ctx, patch, n, sendable(groups, p.Groups))
	}
	p.Groups = together(p.Groups)
	return p, err
}

// together adds up the groups of which the same is said, in the order of the first.
func together(groups []entity.PreviewGroup) []entity.PreviewGroup {
	var sums []entity.PreviewGroup
	for _, g := range groups {
		i := slices.IndexFunc(sums, func(s entity.PreviewGroup) bool {
			return s.Topic == g.Topic && s.Class == g.Class && s.Reason == g.Reason
		})
		if i < 0 {
			sums = append(sums, g)
		} else {
			sums[i].Messages += g.Messages
		}
	}
	slices.SortStableFunc(sums, func(a, b entity.PreviewGroup) int { return cmp.Compare(b.Messages, a.Messages) })
	return sums
}

func (s *Service) previewOf(ctx context.Context, n repository.NewRedrive, g repository.SelectionCount) (entity.PreviewGroup, error) {
	shown := entity.PreviewGroup{Topic: g.Topic, Messages: g.Messages, Class: g.Reason}
	if g.Reason != "" || n.Action != entity.RedriveRetry && n.Action != entity.RedriveMap {
		return shown, nil
	}
	if n.Action == entity.RedriveMap {
		m, err := s.store.Get(ctx, g.Sample, 0)
		if err == nil && !maySetOrigin(&m, n.Selection.Visible) {
			shown.Class, shown.Reason = skippedNotPermitted, "its original topic may be set with the role on its dead-letter topic only: "+m.Source.Topic
		}
		return shown, unlessGone(err)
	}
	messages, _, room, err := s.load(ctx, []uuid.UUID{g.Sample}, plain)
	if err != nil {
		return shown, fmt.Errorf("a sample: %w", err)
	}
	defer room.release()
	if len(messages) == 0 { // it went away since; the group stands without it
		return shown, nil
	}
	targets, err := s.target(ctx, outgoing(messages), planning{bulk: true, visible: n.Selection.Visible, cause: n.Cause})
	if err != nil {
		return shown, err
	}
	var refused *entity.RefusedError
	switch err := targets[0].Err; {
	case err == nil:
	case errors.As(err, &refused):
		shown.Class, shown.Reason = string(refused.Class), refused.Reason
	default:
		shown.Class, shown.Reason = string(entity.BrokerUnavailable), "its partitions cannot be reached now; a redrive waits for them"
	}
	return shown, nil
}

// sendable are the samples of the groups that would be sent.
func sendable(groups []repository.SelectionCount, shown []entity.PreviewGroup) []uuid.UUID {
	var ids []uuid.UUID
	for i, g := range groups {
		if shown[i].Class == "" {
			ids = append(ids, g.Sample)
		}
	}
	return ids
}

// samples shows the patch on one message of each group, and on more of the selection if there are few groups.
func (s *Service) samples(ctx context.Context, patch patcher, n repository.NewRedrive, ids []uuid.UUID) ([]entity.PatchSample, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if len(ids) < maxSamples {
		others, err := s.others(ctx, n)
		if err != nil {
			return nil, err
		}
		ids = append(ids, others...)
	}
	seen := map[uuid.UUID]bool{}
	var samples []entity.PatchSample
	for len(ids) > 0 && len(samples) < maxSamples {
		messages, taken, room, err := s.load(ctx, ids, patched)
		if err != nil {
			return nil, fmt.Errorf("samples: %w", err)
		}
		ids = ids[taken:]
		for _, m := range messages {
			if !seen[m.ID] && len(samples) < maxSamples {
				seen[m.ID] = true
				samples = append(samples, sample(patch, m))
			}
		}
		room.release()
	}
	return samples, nil
}

// others are some messages of the selection that would be taken, as far as the store finds them quickly.
func (s *Service) others(ctx context.Context, n repository.NewRedrive) ([]uuid.UUID, error) {
	if len(n.Selection.IDs) > 0 {
		return s.othersOf(ctx, n)
	}
	filter := n.Selection.Filter
	if len(filter.Statuses) == 0 {
		filter.Statuses = []entity.Status{entity.Pending}
	}
	found, err := s.selected.Search(ctx, repository.SearchQuery{Filter: filter, Limit: maxSamples})
	var broad *repository.TooBroadError
	if err != nil && !errors.As(err, &broad) {
		return nil, fmt.Errorf("look for samples: %w", err)
	}
	var ids []uuid.UUID
	for _, m := range found.Messages {
		if m.CanClaim() == nil || n.Options.Requeue && m.Status == entity.Dead {
			ids = append(ids, m.ID)
		}
	}
	return ids, nil
}

// othersOf asks the store of each of the first that were named, because the filter narrows them.
func (s *Service) othersOf(ctx context.Context, n repository.NewRedrive) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for _, id := range n.Selection.IDs[:min(len(n.Selection.IDs), 2*maxSamples)] {
		one := n
		one.Selection.IDs = []uuid.UUID{id}
		groups, err := s.selected.PreviewRedrive(ctx, one)
		if err != nil {
			return nil, fmt.Errorf("look for samples: %w", err)
		}
		if len(groups) == 1 && groups[0].Reason == "" {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// sample shows what the patch makes of a message.
func sample(patch patcher, m entity.Message) entity.PatchSample {
	shown := entity.PatchSample{MessageID: m.ID}
	if len(m.Record.Value) > repository.ListValueLimit {
		shown.Reason = errTooLargeToShow.Error()
		return shown
	}
	if json.Valid(m.Record.Value) {
		shown.Before = bytes.Clone(m.Record.Value)
	}
	after, err := apply(patch, m.Record)
	var misfit *entity.FieldError
	switch {
	case errors.As(err, &misfit):
		shown.Reason = misfit.Reason
	case err != nil:
		shown.Reason = err.Error()
	}
	shown.After = after
	return shown
}
