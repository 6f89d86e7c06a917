package memory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// batch is a part of a redrive's selection.
type batch struct {
	number    int
	items     []entity.RedriveItem
	done      bool
	owner     uuid.UUID // uuid.Nil: none
	expiresAt time.Time
}

// cut makes the batches.
func (r *redrive) cut(ids []uuid.UUID, size int) {
	for n, id := range ids {
		if n%size == 0 {
			r.batches = append(r.batches, &batch{number: len(r.batches)})
		}
		b := r.batches[len(r.batches)-1]
		b.items = append(b.items, entity.RedriveItem{Number: n, MessageID: id})
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
		leased.OnlyCatchUp = !r.entity.State.Active()
		b.owner, b.expiresAt = owner, entity.Moment(now.Add(lease))
		return nil
	})
	return leased, err
}

// free returns the next batch that may be handed out; nil when there is none.
func (r *redrive) free(now time.Time) *batch {
	if !r.entity.State.Active() {
		return r.abandoned(now)
	}
	for _, b := range r.batches {
		if !b.done && (b.owner == uuid.Nil || !b.expiresAt.After(now)) {
			return b
		}
	}
	return nil
}

// abandoned returns a batch whose owner did not end its lease; nil when there is none.
func (r *redrive) abandoned(now time.Time) *batch {
	for _, b := range r.batches {
		if !b.done && b.owner != uuid.Nil && !b.expiresAt.After(now) {
			return b
		}
	}
	return nil
}

func (b *batch) handedOut(redrive uuid.UUID) *repository.RedriveBatch {
	out := &repository.RedriveBatch{
		RedriveID: redrive, Number: b.number, First: b.items[0].Number, TakenOver: b.owner != uuid.Nil,
		Items: make([]repository.BatchItem, len(b.items)),
	}
	for i, item := range b.items {
		out.Items[i] = repository.BatchItem{MessageID: item.MessageID, Result: item.Result}
	}
	return out
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
		b.save(results.Items)
		b.owner, b.expiresAt = uuid.Nil, time.Time{}
		saved = true
		return nil
	})
	return saved, err
}

// save replaces results of an earlier save. The batch is done when every item has one.
func (b *batch) save(items []entity.RedriveItem) {
	first := b.items[0].Number
	for _, item := range items {
		at := item.Number - first
		if item.Result != entity.ItemWaiting && at >= 0 && at < len(b.items) {
			b.items[at].Result, b.items[at].Reason = item.Result, item.Reason
		}
	}
	b.done = true
	for _, item := range b.items {
		b.done = b.done && item.Result != entity.ItemWaiting
	}
}
