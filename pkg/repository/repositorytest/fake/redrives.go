package fake

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

// CreateRedrive implements repository.Redrives.
func (s *Store) CreateRedrive(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	var made entity.Redrive
	err := s.Step(ctx, "create redrive", func(now time.Time) error {
		r, ok := s.core.Redrives[n.ID]
		if !ok {
			var err error
			if r, err = s.newRedrive(n, now); err != nil {
				return err
			}
			s.core.Redrives[n.ID] = r
			s.Moved(now, entity.ActionCreate, "", r, n.Cause)
		}
		made = s.shown(r)
		return nil
	})
	return made, err
}

func (s *Store) newRedrive(n repository.NewRedrive, now time.Time) (*redrive, error) {
	size, err := batchSize(n)
	if err != nil {
		return nil, err
	}
	found, err := s.selection(n)
	if err != nil {
		return nil, err
	}
	if n.Options.KeepKeyOrder && n.Action == entity.RedriveRetry {
		s.inKeyOrder(found)
	}
	r := &redrive{
		Entity: entity.Redrive{
			ID: n.ID, Action: n.Action, State: entity.RedriveRunning, Cause: n.Cause, Selection: asAsked(n.Selection), Options: n.Options,
			CreatedAt: now, UpdatedAt: now, Selected: len(found), CanaryPassed: true,
		},
		LeftOut: map[string]int{},
	}
	r.Entity.Options.Patch = bytes.Clone(n.Options.Patch)
	topicOf := func(selected) string { return "" }
	if n.Action == entity.RedriveRetry && n.Options.Bounded() && !n.Selection.Archived {
		found, topicOf = byTopic(found), func(f selected) string { return f.topic }
	}
	var ids []uuid.UUID
	var topics []string
	for _, f := range found {
		if f.reason == "" {
			ids, topics = append(ids, f.id), append(topics, topicOf(f))
			continue
		}
		r.LeftOut[f.reason]++
	}
	r.Entity.LeftOut = len(found) - len(ids)
	canary := canaryOf(&r.Entity)
	if canary > 0 {
		r.Entity.CanaryPassed, r.Entity.State = false, entity.RedriveCanary
	}
	if len(ids) == 0 {
		r.Entity.State, r.Entity.EndedAt = entity.RedriveFinished, now
	}
	cut(r, ids, topics, size, canary)
	return r, nil
}

// batchSize returns the size of the batches. When the redrive has a rate, a batch contains at most the messages of one
// second.
func batchSize(n repository.NewRedrive) (int, error) {
	if n.BatchSize < 1 {
		return 0, fmt.Errorf("batches of %d messages: %w", n.BatchSize, entity.ErrInvalid)
	}
	if n.Options.Rate > 0 && n.Options.Rate < float64(n.BatchSize) {
		return max(1, int(n.Options.Rate)), nil
	}
	return n.BatchSize, nil
}

// asAsked returns a copy of the selection as a redrive returns it: without ids, because the items of the redrive have
// them, and with times in the store's precision.
func asAsked(s entity.Selection) entity.Selection {
	s.IDs = nil
	s.CreatedAfter, s.CreatedBefore = entity.TruncateTime(s.CreatedAfter), entity.TruncateTime(s.CreatedBefore)
	s.RetriedAfter, s.RetriedBefore = entity.TruncateTime(s.RetriedAfter), entity.TruncateTime(s.RetriedBefore)
	s.Statuses, s.Words, s.Key = slices.Clone(s.Statuses), slices.Clone(s.Words), bytes.Clone(s.Key)
	s.Headers, s.Fields = slices.Clone(s.Headers), slices.Clone(s.Fields)
	for i := range s.Headers {
		s.Headers[i].Value = bytes.Clone(s.Headers[i].Value)
	}
	for i := range s.Fields {
		s.Fields[i].Values = slices.Clone(s.Fields[i].Values)
	}
	return s
}

// Redrives implements repository.Selections.
func (s *Store) Redrives(ctx context.Context, q repository.RedriveQuery) ([]entity.Redrive, error) {
	var found []entity.Redrive
	err := s.Step(ctx, "list redrives", func(time.Time) error {
		all := s.RedrivesByAge()
		slices.Reverse(all)
		for _, r := range all {
			if len(found) >= q.Limit {
				return nil
			}
			if olderThan(r, q.Before) && (len(q.States) == 0 || slices.Contains(q.States, r.Entity.State)) &&
				(q.Actor == "" || q.Actor == r.Entity.Cause.Actor) {
				found = append(found, s.shown(r))
			}
		}
		return nil
	})
	return found, err
}

func olderThan(r *redrive, p repository.Cursor) bool {
	if p.CreatedAt.IsZero() {
		return true
	}
	order := cmp.Or(r.Entity.CreatedAt.Compare(p.CreatedAt), bytes.Compare(r.Entity.ID[:], p.ID[:]))
	return order < 0
}

// cut splits the ids into batches of messages of one topic. The first batches contain exactly the messages of the
// canary, the others all other messages.
func cut(r *redrive, ids []uuid.UUID, topics []string, size, canary int) {
	canary = min(canary, len(ids))
	for from := 0; from < len(ids); {
		beyond := min(from+size, len(ids))
		if from < canary {
			beyond = min(beyond, canary)
		}
		for n := from; n < beyond; n++ {
			if topics[n] != topics[from] {
				beyond = n
			}
		}
		b := &batch{Number: len(r.Batches), Topic: topics[from]}
		for n := from; n < beyond; n++ {
			b.Items = append(b.Items, entity.RedriveItem{Number: n, MessageID: ids[n], Offset: -1})
		}
		r.Batches = append(r.Batches, b)
		from = beyond
	}
}

// canaryOf returns the number of messages in a redrive's canary.
func canaryOf(e *entity.Redrive) int {
	if e.Action != entity.RedriveRetry {
		return 0
	}
	return max(0, e.Options.Canary)
}

func inCanary(r *redrive, b *batch) bool { return b.Items[0].Number < canaryOf(&r.Entity) }

// LeaseBatch implements repository.Redrives.
func (s *Store) LeaseBatch(ctx context.Context, id, owner uuid.UUID, lease time.Duration, without ...string) (*repository.RedriveBatch, error) {
	var leased *repository.RedriveBatch
	err := s.WithRedrive(ctx, "lease a batch", id, func(r *redrive, now time.Time) error {
		b := s.free(r, now, without)
		if b == nil {
			return nil
		}
		leased = b.HandedOut(id)
		leased.Canary = inCanary(r, b)
		b.Owner, b.ExpiresAt = owner, entity.TruncateTime(now.Add(lease))
		if leased.OnlyCatchUp = !r.Entity.State.Active(); !leased.OnlyCatchUp {
			s.pace(r, now, waiting(b))
		}
		return nil
	})
	return leased, err
}

// free returns the next batch that may be leased now; nil when there is none.
func (s *Store) free(r *redrive, now time.Time, without []string) *batch {
	if !r.Entity.State.Active() {
		return r.Abandoned(now)
	}
	if s.nextBatch[r.Entity.ID].After(now) {
		return nil
	}
	ordered := r.Entity.Options.KeepKeyOrder && r.Entity.Action == entity.RedriveRetry
	begun := map[string]bool{} // topics of which an earlier batch is not done
	for _, b := range r.Batches {
		switch {
		case b.Done, ordered && begun[b.Topic], b.Owner == uuid.Nil && slices.Contains(without, b.Topic):
		case r.Entity.State == entity.RedriveCanary && !inCanary(r, b):
			return nil
		case b.Owner == uuid.Nil || !b.ExpiresAt.After(now):
			return b
		}
		begun[b.Topic] = begun[b.Topic] || !b.Done
	}
	return nil
}

func waiting(b *batch) (n int) {
	for _, item := range b.Items {
		if item.Result == entity.ItemWaiting {
			n++
		}
	}
	return n
}

// pace sets the time at which the rate allows the next batch. It never counts from a time before now, so that the
// redrive does not send faster after a pause.
func (s *Store) pace(r *redrive, now time.Time, messages int) {
	if r.Entity.Options.Rate <= 0 {
		return
	}
	from := s.nextBatch[r.Entity.ID]
	if from.Before(now) {
		from = now
	}
	seconds := float64(messages) / r.Entity.Options.Rate
	s.nextBatch[r.Entity.ID] = from.Add(time.Duration(seconds * float64(time.Second))).Round(time.Microsecond)
}

// RedriveItems implements repository.Selections.
func (s *Store) RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error) {
	var found []entity.RedriveItem
	err := s.WithRedrive(ctx, "list messages of a redrive", id, func(r *redrive, _ time.Time) error {
		for _, b := range r.Batches {
			for _, item := range b.Items {
				if len(found) >= q.Limit {
					return nil
				}
				if item.Number < q.From || len(q.Results) > 0 && !slices.Contains(q.Results, item.Result) {
					continue
				}
				if item = s.outcomeOf(id, b, item); q.Outcome == "" || item.Outcome == q.Outcome {
					found = append(found, item)
				}
			}
		}
		return nil
	})
	return found, err
}

// RedriveOutcomes implements repository.Selections.
func (s *Store) RedriveOutcomes(ctx context.Context, id uuid.UUID, canary bool) (entity.OutcomeCounts, error) {
	var counts entity.OutcomeCounts
	err := s.WithRedrive(ctx, "count outcomes", id, func(r *redrive, _ time.Time) error {
		for _, b := range r.Batches {
			if canary && !inCanary(r, b) {
				continue
			}
			for _, item := range b.Items {
				switch s.outcomeOf(id, b, item).Outcome {
				case entity.Published:
					counts.Published++
				case entity.Consumed:
					counts.Consumed++
				case entity.Returned:
					counts.Returned++
				}
			}
		}
		return nil
	})
	return counts, err
}

// outcomeOf returns the item with the outcome of its record, and with the consumer group whose committed offset shows
// this outcome. When several consumer groups are configured for the topic, the highest committed offset counts.
func (s *Store) outcomeOf(redrive uuid.UUID, b *batch, item entity.RedriveItem) entity.RedriveItem {
	committed := int64(-1)
	if item.Topic != "" {
		elsewhere := item.Topic != b.Topic
		if b.Topic == "" {
			elsewhere = slices.ContainsFunc(slices.Collect(maps.Values(s.redirects)), func(r entity.Redirect) bool { return r.Target == item.Topic })
		}
		for i, group := range s.groupsOf(item.Group, item.Topic, elsewhere) {
			known, ok := s.committed[partitionOfGroup{
				repository.TopicGroup{Topic: item.Topic, Group: group}, item.TopicID, item.Partition,
			}]
			if i == 0 {
				item.Group = group
			}
			if ok && known.offset > committed {
				item.Group, committed = group, known.offset
			}
		}
	}
	switch {
	case s.cameBack(item.MessageID, redrive):
		item.Outcome = entity.Returned
	case item.Result != entity.ItemSucceeded || item.Topic == "":
	case item.Offset >= 0 && committed > item.Offset:
		item.Outcome = entity.Consumed
	default:
		item.Outcome = entity.Published
	}
	return item
}

// cameBack reports whether any attempt of the redrive on the message has a confirmed return.
func (s *Store) cameBack(message, redrive uuid.UUID) bool {
	r, ok := s.Rows[message]
	return ok && slices.Contains(slices.Collect(maps.Values(r.Returned)), redrive)
}

// selected is a message that a redrive selects. reason says why the action cannot be applied to the message; "" when it
// can.
type selected struct {
	id         uuid.UUID
	topic      string
	source     string // name of the dead-letter topic
	confidence entity.Confidence
	reason     string
}

// selection returns the messages that n selects, in the order in which the redrive processes them. When n has no
// condition and would select all messages, the error is entity.ErrInvalid.
func (s *Store) selection(n repository.NewRedrive) ([]selected, error) {
	if n.Selection.Archived {
		return selectArchived(n)
	}
	takes, err := taken(n)
	if err != nil {
		return nil, err
	}
	if n.Selection.Empty() {
		return nil, fmt.Errorf("selection without any condition: %w", entity.ErrInvalid)
	}
	if len(n.Selection.IDs) > 0 {
		return s.selectByID(n, takes), nil
	}
	meant := s.meant(n.Selection.Filter)
	rows := memory.OldestFirst(s.Rows, func(m *entity.Message) bool {
		return meant(m) && (len(n.Selection.Statuses) > 0 || m.Status == entity.Retrying || takes(m) || n.Action == entity.RedriveMap && mappable(m))
	})
	found := make([]selected, len(rows))
	for i, r := range rows {
		found[i] = judged(&r.Message, n.Action, takes)
	}
	return found, nil
}

// selectArchived returns the archived messages that the caller has found, and the ids that are not among them.
func selectArchived(n repository.NewRedrive) ([]selected, error) {
	if n.Found == nil || n.Selection.Empty() || !slices.Contains(entity.ArchivedActions(), n.Action) {
		return nil, fmt.Errorf("action %q on archived messages: %w", n.Action, entity.ErrInvalid)
	}
	ids := n.Selection.IDs
	if len(ids) == 0 {
		ids = *n.Found
	}
	var found []selected
	seen := map[uuid.UUID]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		f := selected{id: id}
		if !slices.Contains(*n.Found, id) {
			f.reason = repository.SkippedGone
		}
		found = append(found, f)
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
		r, ok := s.Rows[id]
		switch visible := n.Selection.Visible; {
		case !ok, visible != nil && !visible.Sees(&r.Message):
			found = append(found, selected{id: id, reason: repository.SkippedGone})
		case meant(&r.Message):
			found = append(found, judged(&r.Message, n.Action, takes))
		}
	}
	return found
}

func judged(m *entity.Message, action entity.RedriveAction, takes func(*entity.Message) bool) selected {
	f := selected{id: m.ID, topic: m.OriginalTopic, source: m.Source.Topic, confidence: m.Origin.Confidence}
	switch {
	case takes(m):
		if action == entity.RedriveRetry && m.Repeats.Of != uuid.Nil {
			f.reason = entity.ReasonRepeat
		}
	case m.Claimed():
		f.reason = repository.SkippedTaken
	case action == entity.RedriveMap && mappable(m): // a header of the message's record names the original topic
		f.reason = repository.SkippedOriginKnown
	default:
		f.reason = repository.SkippedNotRetryable
	}
	return f
}

// taken returns a function that reports whether the action can be applied to a message.
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
	case entity.RedriveRestore: // only for archived messages
	}
	return nil, fmt.Errorf("action %q: %w", n.Action, entity.ErrInvalid)
}

// mappable reports whether the status of a message allows its original topic to be set.
func mappable(m *entity.Message) bool { return m.Status == entity.Pending || m.Status == entity.Dead }

// PreviewRedrive implements repository.Selections.
func (s *Store) PreviewRedrive(ctx context.Context, n repository.NewRedrive) ([]repository.SelectionCount, error) {
	var groups []repository.SelectionCount
	err := s.Step(ctx, "preview a redrive", func(time.Time) error {
		found, err := s.selection(n)
		if err != nil {
			return err
		}
		counted := map[selected]*repository.SelectionCount{}
		for _, f := range found {
			key := f
			key.id = uuid.Nil
			g, ok := counted[key]
			if !ok {
				g = &repository.SelectionCount{Reason: f.reason, Topic: f.topic, Confidence: f.confidence, Sample: f.id}
				counted[key] = g
			}
			g.Messages++
		}
		for g := range maps.Values(counted) {
			groups = append(groups, *g)
		}
		slices.SortFunc(groups, func(a, b repository.SelectionCount) int {
			return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.Topic, b.Topic),
				cmp.Compare(a.Confidence, b.Confidence), cmp.Compare(a.Reason, b.Reason))
		})
		return nil
	})
	return groups, err
}

// Overlaps implements repository.Selections.
func (s *Store) Overlaps(ctx context.Context, n repository.NewRedrive) ([]entity.Overlap, error) {
	var overlaps []entity.Overlap
	err := s.Step(ctx, "find redrives of the same messages", func(time.Time) error {
		found, err := s.selection(n)
		mine := map[uuid.UUID]bool{}
		for _, f := range found {
			mine[f.id] = f.reason == ""
		}
		overlaps = s.overlaps(n.ID, mine)
		return err
	})
	return overlaps, err
}

// RedriveOverlaps implements repository.Selections.
func (s *Store) RedriveOverlaps(ctx context.Context, id uuid.UUID) ([]entity.Overlap, error) {
	var overlaps []entity.Overlap
	err := s.WithRedrive(ctx, "find redrives of the same messages", id, func(r *redrive, _ time.Time) error {
		overlaps = s.overlaps(id, waitingIn(r))
		return nil
	})
	return overlaps, err
}

func waitingIn(r *redrive) map[uuid.UUID]bool {
	waiting := map[uuid.UUID]bool{}
	for _, b := range r.Batches {
		for _, item := range b.Items {
			waiting[item.MessageID] = !b.Done && item.Result == entity.ItemWaiting
		}
	}
	return waiting
}

func (s *Store) overlaps(but uuid.UUID, mine map[uuid.UUID]bool) []entity.Overlap {
	var overlaps []entity.Overlap
	for _, r := range s.RedrivesByAge() {
		id := r.Entity.ID
		if id == but || r.Entity.State.Over() {
			continue
		}
		n := 0
		for message, waits := range waitingIn(r) {
			if waits && mine[message] {
				n++
			}
		}
		if n > 0 {
			overlaps = append(overlaps, entity.Overlap{
				ID: id, Action: r.Entity.Action, State: r.Entity.State, Actor: r.Entity.Cause.Actor, CreatedAt: r.Entity.CreatedAt, Messages: n,
			})
		}
	}
	return overlaps
}

// ReturnedErrors implements repository.Selections. It assumes that all returns of a message belong to the same redrive.
func (s *Store) ReturnedErrors(ctx context.Context, id uuid.UUID) ([]entity.ReturnedError, error) {
	var list []entity.ReturnedError
	err := s.WithRedrive(ctx, "group the returns of a redrive", id, func(*redrive, time.Time) error {
		sums := map[entity.ReturnedError]int{}
		for _, r := range s.Rows {
			if m := r.Message; m.Parent != uuid.Nil && s.cameBack(m.Parent, id) {
				of := entity.ReturnedError{Group: m.Group, Topic: m.OriginalTopic, DLQTopic: m.Source.Topic}
				if m.Group != uuid.Nil {
					g := s.errorGroup(m.Group)
					of.Class, of.Title = g.Class, g.Title
				}
				sums[of]++
			}
		}
		for of, n := range sums {
			of.Messages = n
			list = append(list, of)
		}
		slices.SortFunc(list, func(a, b entity.ReturnedError) int {
			return cmp.Or(cmp.Compare(b.Messages, a.Messages), bytes.Compare(a.Group[:], b.Group[:]), cmp.Compare(a.Topic, b.Topic))
		})
		return nil
	})
	return list, err
}
