package fake

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// topicBound is the bound of a target topic of a redrive. seen is the number of known outcomes at seenAt.
type topicBound struct {
	entity.TopicBound
	seen   int
	seenAt time.Time
}

// Admit implements repository.Bounds.
func (s *Store) Admit(ctx context.Context, l repository.Lease, topic string, n, first int) (int, error) {
	granted := 0
	err := s.WithRedrive(ctx, "admit messages", l.RedriveID, func(r *redrive, now time.Time) error {
		if !r.Entity.State.Active() || l.Number >= len(r.Batches) || r.Batches[l.Number].Owner != l.Owner {
			return nil
		}
		of := s.boundsOf(l.RedriveID)
		b := of[topic]
		if b == nil {
			b = &topicBound{TopicBound: entity.TopicBound{Topic: topic, Bound: first}}
			of[topic] = b
		}
		if granted = n; b.Lifted == "" {
			granted = min(n, max(0, b.Bound-b.Unknown()))
		}
		if b.Admitted += granted; granted > 0 || b.AdmittedAt.IsZero() {
			b.AdmittedAt = entity.TruncateTime(now)
		}
		batch := r.Batches[l.Number]
		if s.admitted[batch] == nil {
			s.admitted[batch] = map[string]int{}
		}
		s.admitted[batch][topic] += granted
		return nil
	})
	return granted, err
}

func (s *Store) boundsOf(redrive uuid.UUID) map[string]*topicBound {
	if s.bounds[redrive] == nil {
		s.bounds[redrive] = map[string]*topicBound{}
	}
	return s.bounds[redrive]
}

// SaveBatch implements repository.Redrives. It gives back what was admitted and not sent.
func (s *Store) SaveBatch(ctx context.Context, results repository.BatchResults) (bool, error) {
	saved, err := s.core.SaveBatch(ctx, results)
	if !saved {
		return saved, err
	}
	s.locked(func() {
		r := s.core.Redrives[results.RedriveID]
		batch := r.Batches[results.Number]
		for topic, n := range s.admitted[batch] {
			s.boundsOf(results.RedriveID)[topic].Admitted -= n
		}
		for _, item := range lastOf(results.Items) {
			if b := s.boundsOf(results.RedriveID)[item.Topic]; b != nil && s.admitted[batch] != nil && item.Result == entity.ItemSucceeded {
				b.Admitted++
			}
		}
		delete(s.admitted, batch)
	})
	return true, nil
}

func lastOf(items []entity.RedriveItem) map[int]entity.RedriveItem {
	last := map[int]entity.RedriveItem{}
	for _, item := range items {
		last[item.Number] = item
	}
	return last
}

// RedriveBounds implements repository.Bounds.
func (s *Store) RedriveBounds(ctx context.Context, id uuid.UUID, settle time.Duration) ([]entity.TopicBound, error) {
	var bounds []entity.TopicBound
	err := s.WithRedrive(ctx, "count outcomes of topics", id, func(r *redrive, now time.Time) error {
		known, groups := map[string]int{}, map[string]map[string]bool{}
		for _, batch := range r.Batches {
			for _, item := range batch.Items {
				switch item = s.outcomeOf(id, batch, item); {
				case item.Result != entity.ItemSucceeded || item.Topic == "":
				case item.Outcome != entity.Published:
					known[item.Topic]++
				default:
					if groups[item.Topic] == nil {
						groups[item.Topic] = map[string]bool{}
					}
					groups[item.Topic][item.Group] = true
				}
			}
		}
		for topic, b := range s.boundsOf(id) {
			if settling := b.seen > b.Known && b.seenAt.After(now.Add(-settle)); known[topic] > b.Known && !settling {
				b.Known, b.seen, b.seenAt = max(b.Known, b.seen), known[topic], now
			}
			shown := b.TopicBound
			shown.Groups = slices.Sorted(maps.Keys(groups[topic]))
			bounds = append(bounds, shown)
		}
		return nil
	})
	slices.SortFunc(bounds, func(a, b entity.TopicBound) int { return cmp.Compare(a.Topic, b.Topic) })
	return bounds, err
}

// RedriveSources implements repository.Bounds.
func (s *Store) RedriveSources(ctx context.Context, id uuid.UUID) ([]string, error) {
	names := map[string]bool{}
	err := s.WithRedrive(ctx, "list dead-letter topics of a redrive", id, func(r *redrive, _ time.Time) error {
		for _, b := range r.Batches {
			if row, ok := s.Rows[b.Items[0].MessageID]; ok && row.Message.Source.Topic != "" {
				names[row.Message.Source.Topic] = true
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(names)), err
}

// SaveBound implements repository.Bounds.
func (s *Store) SaveBound(ctx context.Context, id uuid.UUID, was, now entity.TopicBound) (bool, error) {
	saved := false
	err := s.Step(ctx, "save a bound", func(time.Time) error {
		b := s.boundsOf(id)[was.Topic]
		if saved = b != nil && b.Bound == was.Bound && b.Looks == was.Looks && b.Lifted == was.Lifted; saved {
			b.Bound, b.Presumed, b.Counted, b.Looks, b.Lifted = now.Bound, now.Presumed, now.Counted, now.Looks, now.Lifted
		}
		return nil
	})
	return saved, err
}

// ContinueRedrive implements repository.Bounds.
func (s *Store) ContinueRedrive(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Redrive, error) {
	var shown entity.Redrive
	err := s.WithRedrive(ctx, "continue redrive", id, func(r *redrive, now time.Time) error {
		e := &r.Entity
		from, lifted := e.State, false
		for _, b := range s.boundsOf(id) {
			if b.Lifted == "" && (e.State == entity.RedriveCanary && b.Unknown() > 0 || e.State == entity.RedriveRunning && b.Full()) {
				b.Lifted, lifted = entity.BoundContinued, true
			}
		}
		sent := e.State == entity.RedriveCanary &&
			!slices.ContainsFunc(r.Batches, func(b *batch) bool { return inCanary(r, b) && (!b.Done || s.harmed(r, b)) })
		switch {
		case sent:
			e.State, e.CanaryPassed = entity.RedriveRunning, true
		case !lifted && !s.Did(cause.Operation, entity.ActionContinue)[id]:
			return &entity.NothingWaitsError{ID: id, State: e.State}
		}
		if sent || lifted {
			e.Note, e.WaitingSince, e.UpdatedAt = "", time.Time{}, now
			s.Moved(now, entity.ActionContinue, from, r, cause)
		}
		shown = s.shown(r)
		return nil
	})
	return shown, err
}

// harmed reports whether a message of the batch failed, is in doubt, or came back.
func (s *Store) harmed(r *redrive, b *batch) bool {
	return slices.ContainsFunc(b.Items, func(i entity.RedriveItem) bool {
		return i.Result == entity.ItemFailed || i.Result == entity.ItemDead || i.Result == entity.ItemInDoubt || s.cameBack(i.MessageID, r.Entity.ID)
	})
}

// Redrive implements repository.Redrives.
func (s *Store) Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	var found entity.Redrive
	err := s.WithRedrive(ctx, "get redrive", id, func(r *redrive, _ time.Time) error {
		found = s.shown(r)
		return nil
	})
	return found, err
}

// shown returns the redrive as readers see it, with its counts and its bounds.
func (s *Store) shown(r *redrive) entity.Redrive {
	e := s.ShownRedrive(r)
	e.Bounded = e.Action == entity.RedriveRetry && e.Options.Bounded()
	for _, topic := range slices.Sorted(maps.Keys(s.bounds[e.ID])) {
		e.Bounds = append(e.Bounds, s.bounds[e.ID][topic].TopicBound)
	}
	return e
}

// byTopic puts the messages of a redrive in the order of the first message of each original topic.
func byTopic(found []selected) []selected {
	var topics []string
	of := map[string][]selected{}
	for _, f := range found {
		if f.reason == "" && of[f.topic] == nil {
			topics = append(topics, f.topic)
		}
		if f.reason == "" {
			of[f.topic] = append(of[f.topic], f)
		}
	}
	ordered := slices.DeleteFunc(slices.Clone(found), func(f selected) bool { return f.reason == "" })
	for _, topic := range topics {
		ordered = append(ordered, of[topic]...)
	}
	return ordered
}
