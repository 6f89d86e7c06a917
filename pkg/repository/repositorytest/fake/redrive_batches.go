package fake

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// batch is a part of a redrive's selection. Items without a result have their
// number and message only.
type batch struct {
	number    int
	canary    bool
	items     []entity.RedriveItem
	done      bool
	owner     uuid.UUID // uuid.Nil: nobody has it
	expiresAt time.Time
}

// cut makes the batches: exactly the canary's messages first, then the others.
func (r *redrive) cut(ids []uuid.UUID, size, canary int) {
	canary = min(canary, len(ids))
	for from := 0; from < len(ids); {
		beyond := min(from+size, len(ids))
		if from < canary {
			beyond = min(beyond, canary)
		}
		b := &batch{number: len(r.batches), canary: from < canary}
		for n := from; n < beyond; n++ {
			b.items = append(b.items, entity.RedriveItem{Number: n, MessageID: ids[n], Offset: -1})
		}
		r.batches = append(r.batches, b)
		from = beyond
	}
}

// LeaseBatch implements repository.Redrives.
func (s *Store) LeaseBatch(ctx context.Context, id, owner uuid.UUID, lease time.Duration) (*repository.RedriveBatch, error) {
	var leased *repository.RedriveBatch
	err := s.withRedrive(ctx, "lease a batch", id, func(r *redrive, now time.Time) error {
		b := r.free(now)
		if b == nil {
			return nil
		}
		leased = b.handedOut(id)
		b.owner, b.expiresAt = owner, entity.Moment(now.Add(lease))
		if leased.OnlyCatchUp = !r.entity.State.Active(); !leased.OnlyCatchUp {
			r.pace(now, b.waiting())
		}
		return nil
	})
	return leased, err
}

// free returns the next batch that may be handed out; nil when there is none.
func (r *redrive) free(now time.Time) *batch {
	if !r.entity.State.Active() {
		return r.abandoned(now)
	}
	if r.nextBatchAt.After(now) {
		return nil
	}
	for _, b := range r.batches {
		switch {
		case b.done:
		case r.entity.State == entity.RedriveCanary && !b.canary:
			return nil
		case b.owner == uuid.Nil || !b.expiresAt.After(now):
			return b
		case r.ordered:
			return nil
		}
	}
	return nil
}

// abandoned returns a batch that a process died with; nil when there is none.
func (r *redrive) abandoned(now time.Time) *batch {
	for _, b := range r.batches {
		if !b.done && b.owner != uuid.Nil && !b.expiresAt.After(now) {
			return b
		}
	}
	return nil
}

func (b *batch) waiting() int {
	n := 0
	for _, item := range b.items {
		if item.Result == entity.ItemWaiting {
			n++
		}
	}
	return n
}

func (b *batch) handedOut(redrive uuid.UUID) *repository.RedriveBatch {
	out := &repository.RedriveBatch{
		RedriveID: redrive, Number: b.number, First: b.items[0].Number, Canary: b.canary, TakenOver: b.owner != uuid.Nil,
		Items: make([]repository.BatchItem, len(b.items)),
	}
	for i, item := range b.items {
		out.Items[i] = repository.BatchItem{MessageID: item.MessageID, Result: item.Result}
	}
	return out
}

// pace moves the moment at which the rate allows another batch. It counts from
// now at the earliest, so that a pause is not made up for.
func (r *redrive) pace(now time.Time, messages int) {
	if r.entity.Options.Rate <= 0 {
		return
	}
	if r.nextBatchAt.Before(now) {
		r.nextBatchAt = now
	}
	seconds := float64(messages) / r.entity.Options.Rate
	r.nextBatchAt = r.nextBatchAt.Add(time.Duration(seconds * float64(time.Second))).Round(time.Microsecond)
}

// RenewLeases implements repository.Redrives.
func (s *Store) RenewLeases(ctx context.Context, owner uuid.UUID, lease time.Duration) error {
	return s.step(ctx, "renew leases", func(now time.Time) error {
		for _, r := range s.redrives {
			for _, b := range r.batches {
				if owner != uuid.Nil && b.owner == owner {
					b.expiresAt = entity.Moment(now.Add(lease))
				}
			}
		}
		return nil
	})
}

// SaveBatch implements repository.Redrives.
func (s *Store) SaveBatch(ctx context.Context, results repository.BatchResults) (bool, error) {
	saved := false
	err := s.withRedrive(ctx, "save a batch", results.RedriveID, func(r *redrive, _ time.Time) error {
		if results.Number < 0 || results.Number >= len(r.batches) {
			return nil
		}
		b := r.batches[results.Number]
		if b.owner == uuid.Nil || b.owner != results.Owner {
			return nil
		}
		b.lay(results.Items)
		b.done = b.waiting() == 0
		b.owner, b.expiresAt = uuid.Nil, time.Time{}
		saved = true
		return nil
	})
	return saved, err
}

// lay puts results over those of an earlier save.
func (b *batch) lay(items []entity.RedriveItem) {
	first := b.items[0].Number
	for _, item := range items {
		at := item.Number - first
		if item.Result == entity.ItemWaiting || at < 0 || at >= len(b.items) {
			continue
		}
		item.MessageID, item.Outcome = b.items[at].MessageID, ""
		if item.Topic == "" {
			item.TopicID, item.Partition, item.Offset, item.Group = "", 0, -1, ""
		}
		b.items[at] = item
	}
}

// RedriveItems implements repository.Selections.
func (s *Store) RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error) {
	var found []entity.RedriveItem
	err := s.withRedrive(ctx, "list messages of a redrive", id, func(r *redrive, _ time.Time) error {
		for _, b := range r.batches {
			for _, item := range b.items {
				if len(found) >= q.Limit {
					return nil
				}
				if item.Number < q.From || len(q.Results) > 0 && !slices.Contains(q.Results, item.Result) {
					continue
				}
				if item = s.outcomeOf(id, item); q.Outcome == "" || item.Outcome == q.Outcome {
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
	err := s.withRedrive(ctx, "count outcomes", id, func(r *redrive, _ time.Time) error {
		for _, b := range r.batches {
			if canary && !b.canary {
				continue
			}
			for _, item := range b.items {
				switch s.outcomeOf(id, item).Outcome {
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

// outcomeOf returns the item with what became of its record, and with the group
// that tells of it: of several that are configured the one that has come
// furthest.
func (s *Store) outcomeOf(redrive uuid.UUID, item entity.RedriveItem) entity.RedriveItem {
	committed := int64(-1)
	if item.Topic != "" {
		asked := entity.Message{Failure: entity.Failure{ConsumerGroup: item.Group}}
		for _, group := range s.groupsOf(&asked, item.Topic) {
			known, ok := s.committed[partitionOfGroup{
				repository.TopicGroup{Topic: item.Topic, Group: group}, item.TopicID, item.Partition,
			}]
			if item.Group == "" {
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

// cameBack reports whether an attempt that a redrive made on the message has a
// return.
func (s *Store) cameBack(message, redrive uuid.UUID) bool {
	r, ok := s.rows[message]
	if !ok {
		return false
	}
	for _, back := range r.returns {
		if back.redrive == redrive {
			return true
		}
	}
	return false
}

// returnsOf counts what came back of a redrive.
func (s *Store) returnsOf(redrive uuid.UUID) int {
	n := 0
	for _, r := range s.rows {
		for _, back := range r.returns {
			if back.redrive == redrive {
				n++
			}
		}
	}
	return n
}

// AttemptsOf implements repository.Attempts, in the order of ids. Who made an
// attempt that is still a claim is not known.
func (s *Store) AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error) {
	var attempts []entity.Attempt
	err := s.step(ctx, "find attempts of a redrive", func(time.Time) error {
		for _, id := range unique(ids) {
			r, ok := s.rows[id]
			if !ok || redrive == uuid.Nil {
				continue
			}
			if a, made := r.attemptOf(redrive); made {
				a.ConsumerGroup = r.message.Failure.ConsumerGroup
				attempts = append(attempts, a)
			}
		}
		return nil
	})
	return attempts, err
}

func (r *row) attemptOf(redrive uuid.UUID) (entity.Attempt, bool) {
	m := &r.message
	if m.Claimed() && m.Claim.RedriveID == redrive {
		return entity.Attempt{
			MessageID: m.ID, Number: r.number, ID: m.Claim.ID, RetryCount: m.RetryCount,
			RedriveID: redrive, Verdict: entity.InDoubt, StartedAt: m.LastRetryAt,
			From: entity.Retrying, To: entity.Retrying, Class: m.LastPublishErrorClass, Error: m.LastPublishError,
			Topic: m.Claim.Topic, TopicID: m.Claim.TopicID, Partition: m.Claim.Partition, Offset: -1,
		}, true
	}
	for _, a := range slices.Backward(r.attempts) {
		if a.RedriveID == redrive {
			return a, true
		}
	}
	return entity.Attempt{}, false
}

func unique(ids []uuid.UUID) []uuid.UUID {
	var once []uuid.UUID
	seen := map[uuid.UUID]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			once = append(once, id)
		}
	}
	return once
}
