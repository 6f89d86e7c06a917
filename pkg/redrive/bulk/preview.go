package bulk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	maxSamples     = 5   // largest number of messages on which a preview shows a patch
	maxExamples    = 3   // largest number of messages that a preview shows
	maxPlanned     = 500 // largest number of messages that a preview plans one by one
	overlapTimeout = 2 * time.Second
)

var errTooLargeToShow = errors.New("the value is too large to be shown")

// Preview returns how many messages in their current state a redrive would send, and how many it would not send and
// why. The store groups the messages by their topics and by the confidence in their original topic. Preview plans each
// message of a selection of at most maxPlanned messages, else one message of each group. It cannot predict errors that
// the broker reports for single records. If the redrive has a patch, Preview shows the result of the patch for some
// messages. The errors are those of Begin.
func (s *Redrives) Preview(ctx context.Context, n repository.NewRedrive) (entity.Preview, error) {
	return s.PreviewRedirected(ctx, n, nil)
}

// PreviewRedirected does the same as Preview, with the given redirects, by topic, instead of the stored redirects. If
// redirects is nil, it uses the stored redirects.
func (s *Redrives) PreviewRedirected(ctx context.Context, n repository.NewRedrive, redirects map[string]string) (entity.Preview, error) {
	if s.deps.selected == nil {
		return entity.Preview{}, &repository.NeedsDatabaseError{Feature: "a preview"}
	}
	patch, err := s.validate(n)
	if err != nil {
		return entity.Preview{}, err
	}
	end, err := s.oneSelection(ctx, n.Selection)
	if err != nil {
		return entity.Preview{}, err
	}
	defer end()
	n.BatchSize = batchMessages
	groups, err := s.groups(ctx, &n)
	if err != nil {
		return entity.Preview{}, fmt.Errorf("survey messages: %w", err)
	}
	p := entity.Preview{Reasons: map[string]int{}, Overlaps: s.overlaps(ctx, n)}
	var all []entity.PreviewGroup
	var ready []uuid.UUID // messages that would be sent
	if patch == nil {
		if all, ready, err = s.planAll(ctx, n, groups, redirects); err != nil {
			return entity.Preview{}, err
		}
	}
	planned := all != nil
	for _, g := range groups {
		if planned && g.Reason == "" {
			continue
		}
		shown, err := s.previewOf(ctx, n, g, patch, redirects)
		if err != nil {
			return entity.Preview{}, err
		}
		if all = append(all, shown); !planned && shown.Class == "" {
			ready = append(ready, g.Sample)
		}
	}
	for _, shown := range all {
		p.Selected += shown.Messages
		if shown.Class == "" {
			p.Sendable += shown.Messages
		} else {
			p.Reasons[shown.Class] += shown.Messages
		}
		p.Groups = append(p.Groups, shown)
	}
	if p.Messages, err = s.examples(ctx, n, ready, p.Groups); err != nil {
		return entity.Preview{}, err
	}
	if patch != nil && n.Action == entity.RedriveRetry {
		if p.Samples, err = s.samples(ctx, patch, n, ready); err != nil {
			return entity.Preview{}, err
		}
		check, failed, err := s.checkPatch(ctx, patch, n, redirects)
		if err != nil {
			return entity.Preview{}, err
		}
		p.Check = check
		leaveOut(&p, failed)
	}
	p.Groups = mergeGroups(p.Groups)
	return p, nil
}

// groups counts the messages of the selection. Of archived messages it also sets n.Found.
func (s *Redrives) groups(ctx context.Context, n *repository.NewRedrive) ([]repository.SelectionCount, error) {
	if !n.Selection.Archived {
		return s.deps.selected.PreviewRedrive(ctx, *n)
	}
	entries, err := s.selectArchived(ctx, n)
	return repository.CountArchived(n.Selection.IDs, entries), err
}

// overlaps returns the active redrives that wait to send some of the same messages. It returns nil when it cannot find
// these redrives in time, because a preview is useful without them.
func (s *Redrives) overlaps(ctx context.Context, n repository.NewRedrive) []entity.Overlap {
	ctx, cancel := context.WithTimeout(ctx, overlapTimeout)
	defer cancel()
	overlaps, err := s.deps.selected.Overlaps(ctx, n)
	if err != nil {
		s.deps.log.Warn("a preview has no overlaps", zap.Error(err))
		return nil
	}
	return append([]entity.Overlap{}, overlaps...)
}

// leaveOut handles messages to which the patch cannot be applied. The parameter failed counts them by topic. It moves
// them from the groups of messages that would be sent to a group of messages that the redrive skips.
func leaveOut(p *entity.Preview, failed map[string]int) {
	for _, topic := range slices.Sorted(maps.Keys(failed)) {
		i := slices.IndexFunc(p.Groups, func(g entity.PreviewGroup) bool { return g.Class == "" && g.Topic == topic })
		if i < 0 {
			continue
		}
		n := min(failed[topic], p.Groups[i].Messages)
		p.Sendable -= n
		p.Reasons[SkippedPatchFailed] += n
		p.Groups[i].Messages -= n
		p.Groups = append(p.Groups, entity.PreviewGroup{Topic: topic, Messages: n, Class: SkippedPatchFailed})
	}
	p.Groups = slices.DeleteFunc(p.Groups, func(g entity.PreviewGroup) bool { return g.Messages == 0 })
}

// mergeGroups adds up the preview's groups with equal topic, target, class and reason, and returns the largest first. The
// removed headers of a sum are those of all its groups.
func mergeGroups(groups []entity.PreviewGroup) []entity.PreviewGroup {
	var sums []entity.PreviewGroup
	for _, g := range groups {
		i := slices.IndexFunc(sums, func(s entity.PreviewGroup) bool {
			return s.Topic == g.Topic && s.Target == g.Target && s.Class == g.Class && s.Reason == g.Reason
		})
		if i < 0 {
			sums = append(sums, g)
		} else {
			sums[i].Messages += g.Messages
			for _, name := range g.ReplayRemoves {
				if !slices.Contains(sums[i].ReplayRemoves, name) {
					sums[i].ReplayRemoves = append(sums[i].ReplayRemoves, name)
				}
			}
		}
	}
	slices.SortStableFunc(sums, func(a, b entity.PreviewGroup) int { return cmp.Compare(b.Messages, a.Messages) })
	return sums
}

func (s *Redrives) previewOf(
	ctx context.Context, n repository.NewRedrive, g repository.SelectionCount, patch *patcher, redirects map[string]string,
) (entity.PreviewGroup, error) {
	shown := entity.PreviewGroup{Topic: g.Topic, Messages: g.Messages, Class: g.Reason}
	if g.Reason != "" || n.Action != entity.RedriveRetry && n.Action != entity.RedriveMap {
		return shown, nil
	}
	if n.Action == entity.RedriveMap {
		m, err := s.deps.store.Get(ctx, g.Sample, 0)
		if err == nil && !maySetOrigin(&m, n.Selection.Visible) {
			shown.Class, shown.Reason = attempt.SkippedNotPermitted, "setting its original topic needs the role on its dead-letter topic: "+m.Source.Topic
		}
		return shown, unlessGone(err)
	}
	copies := attempt.Unpatched
	if patch != nil {
		copies = attempt.Patched
	}
	messages, _, release, err := s.load(ctx, n, []uuid.UUID{g.Sample}, copies)
	if err != nil {
		return shown, fmt.Errorf("a sample: %w", err)
	}
	defer release()
	if len(messages) == 0 { // the message was deleted meanwhile; its group is counted without a plan
		return shown, nil
	}
	batch, accept := attempt.OutgoingOf(messages), n.Options.AcceptEnvelope
	if patch != nil {
		if done, err := patch.apply(ctx, patch.reader(ctx), &messages[0], redirects[g.Topic]); err == nil {
			batch[0].Edit = done.Edit
		} else {
			accept = true // checkPatch counts the message
		}
	}
	targets, err := s.planFor(ctx, n, batch, accept, redirects)
	if err != nil {
		return shown, err
	}
	shown.Target = cmp.Or(batch[0].Redirect, g.Topic)
	return s.judged(shown, &messages[0], targets[0]), nil
}

func (s *Redrives) planFor(ctx context.Context, n repository.NewRedrive, batch []entity.Outgoing, accept bool, redirects map[string]string) ([]entity.Target, error) {
	return s.deps.parts.Planner.Plan(ctx, batch, attempt.PlanOptions{
		Bulk: true, Visible: n.Selection.Visible, Cause: n.Cause, Redirects: redirects, AcceptEnvelope: accept,
	})
}

// judged returns the group of messages for whose sample m planning has returned the target t.
func (s *Redrives) judged(shown entity.PreviewGroup, m *entity.Message, t entity.Target) entity.PreviewGroup {
	var refused *entity.RefusedError
	switch err := t.Err; {
	case err == nil && s.deps.cfg.ReplayRemoves != nil:
		shown.ReplayRemoves = s.deps.cfg.ReplayRemoves(m, t.Topic)
	case err == nil:
	case errors.As(err, &refused):
		shown.Class, shown.Reason, shown.Missing = string(refused.Class), refused.Reason, refused.Missing
	default:
		shown.Class, shown.Reason = string(entity.BrokerUnavailable), "its partitions cannot be reached now; a redrive waits for them"
	}
	return shown
}

// planAll plans each message of a small selection, and returns a group for each, because what a topic's settings forbid
// differs from message to message, and the messages that would be sent. It returns nil when the selection is large, and
// when planning would read records from Kafka.
func (s *Redrives) planAll(
	ctx context.Context, n repository.NewRedrive, counts []repository.SelectionCount, redirects map[string]string,
) (shown []entity.PreviewGroup, ready []uuid.UUID, err error) {
	total := 0
	for _, g := range counts {
		if g.Reason == "" {
			total += g.Messages
		}
	}
	if n.Action != entity.RedriveRetry || n.Selection.Archived || total == 0 || total > maxPlanned {
		return nil, nil, nil
	}
	ids := n.Selection.IDs
	if len(ids) == 0 {
		if ids, err = s.found(ctx, n, maxPlanned); err != nil {
			return nil, nil, err
		}
	}
	for len(ids) > 0 {
		messages, taken, release, err := s.load(ctx, n, ids, attempt.Unpatched)
		if err != nil {
			return nil, nil, fmt.Errorf("plan a selection: %w", err)
		}
		messages = slices.DeleteFunc(messages, func(m entity.Message) bool { return !takes(n, &m) })
		if slices.ContainsFunc(messages, func(m entity.Message) bool {
			return m.Record.State == entity.ValueOverLimit || deadletter.IsPointer(m.Record)
		}) {
			release()
			return nil, nil, nil
		}
		batch := attempt.OutgoingOf(messages)
		targets, err := s.planFor(ctx, n, batch, n.Options.AcceptEnvelope, redirects)
		for i, t := range targets {
			one := entity.PreviewGroup{Topic: messages[i].OriginalTopic, Messages: 1, Target: cmp.Or(batch[i].Redirect, messages[i].OriginalTopic)}
			if shown = append(shown, s.judged(one, &messages[i], t)); t.Err == nil {
				ready = append(ready, messages[i].ID)
			}
		}
		release()
		if err != nil {
			return nil, nil, err
		}
		ids = ids[taken:]
	}
	if len(shown) != total { // some messages have changed since they were counted
		return nil, nil, nil
	}
	return shown, ready, nil
}

// examples returns some messages that the redrive would process: of each group the one of ids and, if these are fewer
// than maxExamples, others of the selection. A message is sent where its group is sent.
func (s *Redrives) examples(
	ctx context.Context, n repository.NewRedrive, ids []uuid.UUID, groups []entity.PreviewGroup,
) (examples []entity.PreviewMessage, err error) {
	if ids, err = s.enough(ctx, n, ids, maxExamples); err != nil {
		return nil, err
	}
	targets := map[string]string{}
	for _, g := range groups {
		if g.Class == "" {
			targets[g.Topic] = g.Target
		}
	}
	seen := map[uuid.UUID]bool{}
	for _, id := range ids {
		if seen[id] || len(examples) == maxExamples {
			continue
		}
		seen[id] = true
		m, err := s.get(ctx, n, id)
		if unlessGone(err) != nil {
			return nil, fmt.Errorf("a sample: %w", err)
		}
		target, sent := targets[m.OriginalTopic]
		if err != nil || !sent {
			continue
		}
		if n.Action == entity.RedriveRetry {
			_, open, err := s.deps.parts.Planner.RefuseOrigins(ctx, attempt.OutgoingOf([]entity.Message{m}),
				attempt.PlanOptions{Bulk: true, Visible: n.Selection.Visible})
			if err != nil {
				return nil, err
			}
			if len(open) == 0 {
				continue
			}
		}
		examples = append(examples, entity.PreviewMessage{Message: m, Target: target})
	}
	return examples, nil
}

// get returns a message of the selection without its value.
func (s *Redrives) get(ctx context.Context, n repository.NewRedrive, id uuid.UUID) (entity.Message, error) {
	if n.Selection.Archived {
		return s.deps.archive.GetArchived(ctx, id, 0)
	}
	return s.deps.store.Get(ctx, id, 0)
}

// enough returns ids, followed by other messages of the selection if ids has fewer than wanted and is not empty.
func (s *Redrives) enough(ctx context.Context, n repository.NewRedrive, ids []uuid.UUID, wanted int) ([]uuid.UUID, error) {
	if len(ids) == 0 || len(ids) >= wanted {
		return ids, nil
	}
	others, err := s.others(ctx, n)
	return append(ids, others...), err
}

// samples shows the patch on one message of each group that would be sent. If these are fewer than maxSamples, it adds
// other messages of the selection.
func (s *Redrives) samples(ctx context.Context, patch *patcher, n repository.NewRedrive, ids []uuid.UUID) ([]entity.PatchSample, error) {
	ids, err := s.enough(ctx, n, ids, maxSamples)
	if err != nil {
		return nil, err
	}
	seen := map[uuid.UUID]bool{}
	var samples []entity.PatchSample
	for len(ids) > 0 && len(samples) < maxSamples {
		messages, taken, release, err := s.load(ctx, n, ids, attempt.Patched)
		if err != nil {
			return nil, fmt.Errorf("samples: %w", err)
		}
		ids = ids[taken:]
		for _, m := range messages {
			if !seen[m.ID] && len(samples) < maxSamples {
				seen[m.ID] = true
				samples = append(samples, sample(ctx, patch, m))
			}
		}
		release()
	}
	return samples, nil
}

// others returns the ids of some messages of the selection that the redrive would send, as further samples. When the
// store cannot find them quickly, it returns none.
func (s *Redrives) others(ctx context.Context, n repository.NewRedrive) ([]uuid.UUID, error) {
	if n.Selection.Archived {
		return (*n.Found)[:min(len(*n.Found), 2*maxSamples)], nil
	}
	if len(n.Selection.IDs) > 0 {
		return s.othersOf(ctx, n)
	}
	return s.found(ctx, n, maxSamples)
}

// found returns the ids of the first messages of a selection by a filter that the redrive would send, at most limit. It
// returns none when the store cannot find them quickly.
func (s *Redrives) found(ctx context.Context, n repository.NewRedrive, limit int) ([]uuid.UUID, error) {
	filter := n.Selection.Filter
	filter.Visible = n.Selection.Visible
	if len(filter.Statuses) == 0 && n.Action == entity.RedriveRetry {
		if filter.Statuses = []entity.Status{entity.Pending}; n.Options.Requeue {
			filter.Statuses = append(filter.Statuses, entity.Dead)
		}
	}
	found, err := s.deps.selected.Search(ctx, repository.SearchQuery{Filter: filter, Limit: limit})
	var broad *repository.TooBroadError
	if err != nil && !errors.As(err, &broad) {
		return nil, fmt.Errorf("list samples: %w", err)
	}
	var ids []uuid.UUID
	for _, m := range found.Messages {
		if n.Action != entity.RedriveRetry || takes(n, &m) {
			ids = append(ids, m.ID)
		}
	}
	if n.Action != entity.RedriveRetry {
		n.Selection = entity.Selection{IDs: ids, Filter: entity.Filter{Visible: n.Selection.Visible}}
		return s.othersOf(ctx, n)
	}
	return ids, nil
}

// takes reports whether the present state of the message m allows the redrive n to send it.
func takes(n repository.NewRedrive, m *entity.Message) bool {
	return n.Selection.Archived || m.CanClaim() == nil || n.Options.Requeue && m.Status == entity.Dead
}

// othersOf returns some of the selected ids, without messages that the redrive would not send. It asks the store about
// one message at a time.
func (s *Redrives) othersOf(ctx context.Context, n repository.NewRedrive) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for _, id := range n.Selection.IDs[:min(len(n.Selection.IDs), 2*maxSamples)] {
		one := n
		one.Selection.IDs = []uuid.UUID{id}
		groups, err := s.deps.selected.PreviewRedrive(ctx, one)
		if err != nil {
			return nil, fmt.Errorf("list samples: %w", err)
		}
		if len(groups) == 1 && groups[0].Reason == "" {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// sample returns the payload of a message before and after the patch.
func sample(ctx context.Context, patch *patcher, m entity.Message) entity.PatchSample {
	shown := entity.PatchSample{MessageID: m.ID, Topic: m.OriginalTopic}
	if len(m.Record.Value) > repository.ListValueLimit {
		shown.Reason = errTooLargeToShow.Error()
		return shown
	}
	done, err := patch.apply(ctx, patch.reader(ctx), &m, "")
	if err != nil {
		shown.Reason = reasonOf(err)
	}
	if done = done.clone(); json.Valid(done.Before) {
		shown.Before = done.Before
	}
	shown.After, shown.Names = done.After, done.Names
	return shown
}
