package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Redrive is a stored redrive: in this store, a retry of all messages of a topic. Its counts are computed each time it
// is read.
type Redrive struct {
	Entity  entity.Redrive
	LeftOut map[string]int
	Batches []*Batch
}

// redrives implements the methods of Store for redrives. Each method runs as one step, under the lock of messages.
type redrives struct {
	messages *messages
	Redrives map[uuid.UUID]*Redrive
}

// CreateRedrive implements repository.Redrives. It accepts only a retry of all messages of a topic, without options
// except AcceptEnvelope.
// For any other redrive the error is a *repository.NeedsDatabaseError; without a topic, or with a BatchSize below 1, it
// is entity.ErrInvalid.
func (s *redrives) CreateRedrive(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	var made entity.Redrive
	err := s.messages.Step(ctx, "create redrive", func(now time.Time) error {
		r, ok := s.Redrives[n.ID]
		if !ok {
			if err := retriesTopic(n); err != nil {
				return err
			}
			r = s.newRedrive(n, now)
			s.Redrives[n.ID] = r
			s.Moved(now, entity.ActionCreate, "", r, n.Cause)
		}
		made = s.ShownRedrive(r)
		return nil
	})
	return made, err
}

func retriesTopic(n repository.NewRedrive) error {
	more, options := n.Selection, n.Options
	more.Topic, more.Visible = "", nil
	options.AcceptEnvelope = false
	switch {
	case n.Action != entity.RedriveRetry || !reflect.ValueOf(options).IsZero() || !reflect.ValueOf(more).IsZero():
		return &repository.NeedsDatabaseError{Feature: "a redrive that is more than a retry of a topic"}
	case n.Selection.Topic == "":
		return fmt.Errorf("selection without any condition: %w", entity.ErrInvalid)
	case n.BatchSize < 1:
		return fmt.Errorf("batches of %d messages: %w", n.BatchSize, entity.ErrInvalid)
	}
	return nil
}

func (s *redrives) newRedrive(n repository.NewRedrive, now time.Time) *Redrive {
	r := &Redrive{LeftOut: map[string]int{}, Entity: entity.Redrive{
		ID: n.ID, Action: n.Action, State: entity.RedriveRunning, Cause: n.Cause, Selection: n.Selection, Options: n.Options,
		CreatedAt: now, UpdatedAt: now, CanaryPassed: true,
	}}
	ofTopic, visible := Named(n.Selection.Topic), n.Selection.Visible
	var ids []uuid.UUID
	for _, row := range OldestFirst(s.messages.Rows, func(m *entity.Message) bool { return ofTopic(m) && (visible == nil || visible.Sees(m)) }) {
		switch m := &row.Message; {
		case m.CanClaim() == nil && m.Repeats.Of != uuid.Nil:
			r.LeftOut[entity.ReasonRepeat]++
			r.Entity.LeftOut++
		case m.CanClaim() == nil:
			ids = append(ids, m.ID)
		case m.Claimed():
			r.LeftOut[repository.SkippedTaken]++
			r.Entity.LeftOut++
		}
	}
	r.Entity.Selected = len(ids) + r.Entity.LeftOut
	if len(ids) == 0 {
		r.Entity.State, r.Entity.EndedAt = entity.RedriveFinished, now
	}
	r.cut(ids, n.BatchSize)
	return r
}

// Redrive implements repository.Redrives.
func (s *redrives) Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	var found entity.Redrive
	err := s.WithRedrive(ctx, "get redrive", id, func(r *Redrive, _ time.Time) error {
		found = s.ShownRedrive(r)
		return nil
	})
	return found, err
}

// ActiveRedrives implements repository.Redrives.
func (s *redrives) ActiveRedrives(ctx context.Context) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := s.messages.Step(ctx, "find active redrives", func(now time.Time) error {
		for _, r := range s.RedrivesByAge() {
			if r.Entity.State.Active() || r.Abandoned(now) != nil {
				ids = append(ids, r.Entity.ID)
			}
		}
		return nil
	})
	return ids, err
}

// RedrivesByAge returns the redrives, oldest first.
func (s *redrives) RedrivesByAge() []*Redrive {
	return slices.SortedFunc(maps.Values(s.Redrives), func(a, b *Redrive) int {
		return cmp.Or(a.Entity.CreatedAt.Compare(b.Entity.CreatedAt), bytes.Compare(a.Entity.ID[:], b.Entity.ID[:]))
	})
}

// WithRedrive calls the function do with one redrive, as one step.
func (s *redrives) WithRedrive(ctx context.Context, where string, id uuid.UUID, do func(*Redrive, time.Time) error) error {
	return s.messages.Step(ctx, where, func(now time.Time) error {
		r, ok := s.Redrives[id]
		if !ok {
			return &entity.RedriveNotFoundError{ID: id}
		}
		return do(r, now)
	})
}

// ShownRedrive returns the redrive as readers see it, with its counts.
func (s *redrives) ShownRedrive(r *Redrive) entity.Redrive {
	e := r.Entity
	e.Counts = r.counts()
	e.Counts.Returned = s.messages.returnsOf(e.ID)
	return e
}

func (r *Redrive) counts() entity.RedriveCounts {
	c := entity.RedriveCounts{Reasons: maps.Clone(r.LeftOut), Skipped: r.Entity.LeftOut}
	for _, b := range r.Batches {
		for _, item := range b.Items {
			b.count(item, &c)
		}
	}
	return c
}

// count adds the result of one item of the batch to the counts c.
func (b *Batch) count(item entity.RedriveItem, c *entity.RedriveCounts) {
	switch item.Result {
	case entity.ItemWaiting:
		c.Waiting++
		if b.Owner != uuid.Nil {
			c.UnderWay++
		}
		return
	case entity.ItemSucceeded:
		c.Succeeded++
		return
	case entity.ItemInDoubt:
		c.InDoubt++
		return
	case entity.ItemDead:
		c.Dead++
		c.Failed++
	case entity.ItemFailed:
		c.Failed++
	case entity.ItemSkipped:
		c.Skipped++
	}
	if item.Reason != "" {
		c.Reasons[item.Reason]++
	}
}

// MoveRedrive implements repository.Redrives.
func (s *redrives) MoveRedrive(ctx context.Context, id uuid.UUID, m repository.RedriveMove) (entity.Redrive, error) {
	var moved entity.Redrive
	err := s.WithRedrive(ctx, "move redrive", id, func(r *Redrive, now time.Time) error {
		from := r.Entity.State
		if !from.CanMoveTo(m.To) || len(m.From) > 0 && !slices.Contains(m.From, from) {
			if s.messages.Did(m.Cause.Operation, m.Action)[id] {
				moved = s.ShownRedrive(r)
				return nil
			}
			return &entity.RedriveStateError{ID: id, From: from, To: m.To}
		}
		if m.To != entity.RedriveFinished || !slices.ContainsFunc(r.Batches, func(b *Batch) bool { return !b.Done }) {
			s.moveTo(r, m, now)
			s.Moved(now, m.Action, from, r, m.Cause)
		}
		moved = s.ShownRedrive(r)
		return nil
	})
	return moved, err
}

func (s *redrives) moveTo(r *Redrive, m repository.RedriveMove, now time.Time) {
	e := &r.Entity
	e.CanaryPassed = e.CanaryPassed || m.PassCanary
	if e.State == entity.RedriveStopped && m.To == entity.RedriveRunning {
		c := r.counts()
		e.CanaryPassed = true
		e.Forgiven = entity.Tally{Sent: c.Sent(), Failed: c.Failed, Returned: s.messages.returnsOf(e.ID)}
	}
	e.State, e.Note, e.UpdatedAt, e.WaitingSince = m.To, m.Note, now, time.Time{}
	if m.To.Over() {
		e.EndedAt = now
	}
}

// Moved must be called after a redrive was created or has changed its state. It remembers the operation that did so,
// and calls the hook Moved.
func (s *redrives) Moved(now time.Time, action entity.Action, from entity.RedriveState, r *Redrive, cause entity.AuditInfo) {
	s.messages.Note(action, r.Entity.ID, cause)
	s.messages.Hooks.Moved(now, action, from, r, cause)
}

// SaveWaiting implements repository.Redrives. It does not change an inactive redrive, whose note is the reason for its
// state.
func (s *redrives) SaveWaiting(ctx context.Context, id uuid.UUID, waiting bool, note string) error {
	return s.WithRedrive(ctx, "record that a redrive waits", id, func(r *Redrive, now time.Time) error {
		e := &r.Entity
		if !e.State.Active() {
			return nil
		}
		e.Note = note
		switch {
		case !waiting:
			e.WaitingSince = time.Time{}
		case e.WaitingSince.IsZero():
			e.WaitingSince = now
		}
		return nil
	})
}

// Batch is a part of a redrive's selection, with the results of its messages and its lease.
type Batch struct {
	Number    int
	Topic     string // see repository.RedriveBatch
	Items     []entity.RedriveItem
	Done      bool
	Owner     uuid.UUID // uuid.Nil when the batch is not leased
	ExpiresAt time.Time
}

// cut splits the ids into batches of at most size items.
func (r *Redrive) cut(ids []uuid.UUID, size int) {
	for n, id := range ids {
		if n%size == 0 {
			r.Batches = append(r.Batches, &Batch{Number: len(r.Batches)})
		}
		b := r.Batches[len(r.Batches)-1]
		b.Items = append(b.Items, entity.RedriveItem{Number: n, MessageID: id})
	}
}

// LeaseBatch implements repository.Redrives.
func (s *redrives) LeaseBatch(ctx context.Context, id, owner uuid.UUID, lease time.Duration, _ ...string) (*repository.RedriveBatch, error) {
	var leased *repository.RedriveBatch
	err := s.WithRedrive(ctx, "lease a batch", id, func(r *Redrive, now time.Time) error {
		b := r.free(now)
		if b == nil {
			return nil
		}
		leased = b.HandedOut(id)
		leased.OnlyCatchUp = !r.Entity.State.Active()
		b.Owner, b.ExpiresAt = owner, entity.TruncateTime(now.Add(lease))
		return nil
	})
	return leased, err
}

// free returns the next batch that may be leased: of an active redrive a batch that is not done and has no lease or an
// expired one, of an inactive redrive only an abandoned batch. It returns nil when there is no such batch.
func (r *Redrive) free(now time.Time) *Batch {
	if !r.Entity.State.Active() {
		return r.Abandoned(now)
	}
	for _, b := range r.Batches {
		if !b.Done && (b.Owner == uuid.Nil || !b.ExpiresAt.After(now)) {
			return b
		}
	}
	return nil
}

// Abandoned returns a batch that an owner leased and did not save before its lease expired; nil when there is no such
// batch.
func (r *Redrive) Abandoned(now time.Time) *Batch {
	for _, b := range r.Batches {
		if !b.Done && b.Owner != uuid.Nil && !b.ExpiresAt.After(now) {
			return b
		}
	}
	return nil
}

// HandedOut returns the batch in the form in which LeaseBatch returns it.
func (b *Batch) HandedOut(redrive uuid.UUID) *repository.RedriveBatch {
	out := &repository.RedriveBatch{
		RedriveID: redrive, Number: b.Number, Topic: b.Topic, First: b.Items[0].Number, TakenOver: b.Owner != uuid.Nil,
		Items: make([]repository.BatchItem, len(b.Items)),
	}
	for i, item := range b.Items {
		out.Items[i] = repository.BatchItem{MessageID: item.MessageID, Result: item.Result}
	}
	return out
}

// RenewLeases implements repository.Redrives.
func (s *redrives) RenewLeases(ctx context.Context, owner uuid.UUID, lease time.Duration) error {
	return s.messages.Step(ctx, "renew leases", func(now time.Time) error {
		for _, r := range s.Redrives {
			for _, b := range r.Batches {
				if owner != uuid.Nil && b.Owner == owner {
					b.ExpiresAt = entity.TruncateTime(now.Add(lease))
				}
			}
		}
		return nil
	})
}

// SaveBatch implements repository.Redrives.
func (s *redrives) SaveBatch(ctx context.Context, results repository.BatchResults) (bool, error) {
	saved := false
	err := s.WithRedrive(ctx, "save a batch", results.RedriveID, func(r *Redrive, _ time.Time) error {
		if results.Number < 0 || results.Number >= len(r.Batches) {
			return nil
		}
		b := r.Batches[results.Number]
		if b.Owner == uuid.Nil || b.Owner != results.Owner {
			return nil
		}
		b.save(results.Items)
		b.Owner, b.ExpiresAt = uuid.Nil, time.Time{}
		saved = true
		return nil
	})
	return saved, err
}

// save stores results; for an item that has a result already, the new result replaces the old result. The batch is done
// when every item has a result.
func (b *Batch) save(items []entity.RedriveItem) {
	first := b.Items[0].Number
	for _, item := range items {
		at := item.Number - first
		if item.Result == entity.ItemWaiting || at < 0 || at >= len(b.Items) {
			continue
		}
		item.MessageID, item.Outcome = b.Items[at].MessageID, ""
		if item.Topic == "" {
			item.TopicID, item.Partition, item.Offset, item.Group = "", 0, -1, ""
		}
		b.Items[at] = item
	}
	b.Done = true
	for _, item := range b.Items {
		b.Done = b.Done && item.Result != entity.ItemWaiting
	}
}
