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

// redrive is a retry of a whole topic. Its counts are made when it is read.
type redrive struct {
	entity  entity.Redrive
	leftOut map[string]int
	batches []*batch
}

// CreateRedrive implements repository.Redrives. It takes a retry of the messages of a
// topic, without options; anything else is a *repository.NeedsDatabaseError.
func (s *Store) CreateRedrive(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	var made entity.Redrive
	err := s.step(ctx, "create redrive", func(now time.Time) error {
		r, ok := s.redrives[n.ID]
		if !ok {
			if err := retriesTopic(n); err != nil {
				return err
			}
			r = s.newRedrive(n, now)
			s.redrives[n.ID] = r
			s.note(entity.ActionCreate, n.ID, n.Cause)
		}
		made = s.shown(r)
		return nil
	})
	return made, err
}

func retriesTopic(n repository.NewRedrive) error {
	more := n.Selection
	more.Topic, more.Visible = "", nil
	switch {
	case n.Action != entity.RedriveRetry || !reflect.ValueOf(n.Options).IsZero() || !reflect.ValueOf(more).IsZero():
		return &repository.NeedsDatabaseError{Feature: "a redrive that is more than a retry of a topic"}
	case n.Selection.Topic == "":
		return fmt.Errorf("a selection that nothing narrows: %w", entity.ErrInvalid)
	case n.BatchSize < 1:
		return fmt.Errorf("batches of %d messages: %w", n.BatchSize, entity.ErrInvalid)
	}
	return nil
}

func (s *Store) newRedrive(n repository.NewRedrive, now time.Time) *redrive {
	r := &redrive{leftOut: map[string]int{}, entity: entity.Redrive{
		ID: n.ID, Action: n.Action, State: entity.RedriveRunning, Cause: n.Cause, Selection: n.Selection,
		CreatedAt: now, UpdatedAt: now, CanaryPassed: true,
	}}
	ofTopic, visible := named(n.Selection.Topic), n.Selection.Visible
	var ids []uuid.UUID
	for _, row := range s.oldestFirst(func(m *entity.Message) bool { return ofTopic(m) && (visible == nil || visible.Sees(m)) }) {
		switch m := &row.message; {
		case m.CanClaim() == nil:
			ids = append(ids, m.ID)
		case m.Claimed():
			r.leftOut[repository.SkippedTaken]++
			r.entity.LeftOut++
		}
	}
	r.entity.Selected = len(ids) + r.entity.LeftOut
	if len(ids) == 0 {
		r.entity.State, r.entity.EndedAt = entity.RedriveFinished, now
	}
	r.cut(ids, n.BatchSize)
	return r
}

// Redrive implements repository.Redrives.
func (s *Store) Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	var found entity.Redrive
	err := s.withRedrive(ctx, "get redrive", id, func(r *redrive, _ time.Time) error {
		found = s.shown(r)
		return nil
	})
	return found, err
}

// ActiveRedrives implements repository.Redrives.
func (s *Store) ActiveRedrives(ctx context.Context) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := s.step(ctx, "find active redrives", func(now time.Time) error {
		byAge := slices.SortedFunc(maps.Values(s.redrives), func(a, b *redrive) int {
			return cmp.Or(a.entity.CreatedAt.Compare(b.entity.CreatedAt), bytes.Compare(a.entity.ID[:], b.entity.ID[:]))
		})
		for _, r := range byAge {
			if r.entity.State.Active() || r.abandoned(now) != nil {
				ids = append(ids, r.entity.ID)
			}
		}
		return nil
	})
	return ids, err
}

// withRedrive runs a step on one redrive.
func (s *Store) withRedrive(ctx context.Context, where string, id uuid.UUID, do func(*redrive, time.Time) error) error {
	return s.step(ctx, where, func(now time.Time) error {
		r, ok := s.redrives[id]
		if !ok {
			return &entity.RedriveNotFoundError{ID: id}
		}
		return do(r, now)
	})
}

// shown returns the redrive with its counts.
func (s *Store) shown(r *redrive) entity.Redrive {
	e := r.entity
	e.Counts = r.counts()
	e.Counts.Returned = s.returnsOf(e.ID)
	return e
}

func (r *redrive) counts() entity.RedriveCounts {
	c := entity.RedriveCounts{Reasons: maps.Clone(r.leftOut), Skipped: r.entity.LeftOut}
	for _, b := range r.batches {
		for _, item := range b.items {
			b.count(item, &c)
		}
	}
	return c
}

// count adds an item of the batch.
func (b *batch) count(item entity.RedriveItem, c *entity.RedriveCounts) {
	switch item.Result {
	case entity.ItemWaiting:
		c.Waiting++
		if b.owner != uuid.Nil {
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
func (s *Store) MoveRedrive(ctx context.Context, id uuid.UUID, m repository.RedriveMove) (entity.Redrive, error) {
	var moved entity.Redrive
	err := s.withRedrive(ctx, "move redrive", id, func(r *redrive, now time.Time) error {
		from := r.entity.State
		if !from.CanMoveTo(m.To) || len(m.From) > 0 && !slices.Contains(m.From, from) {
			if s.performedOn(m.Cause.Operation, m.Action)[id] {
				moved = s.shown(r)
				return nil
			}
			return &entity.RedriveStateError{ID: id, From: from, To: m.To}
		}
		if m.To != entity.RedriveFinished || !slices.ContainsFunc(r.batches, func(b *batch) bool { return !b.done }) {
			s.moveTo(r, m, now)
			s.note(m.Action, id, m.Cause)
		}
		moved = s.shown(r)
		return nil
	})
	return moved, err
}

func (s *Store) moveTo(r *redrive, m repository.RedriveMove, now time.Time) {
	e := &r.entity
	if e.State == entity.RedriveStopped && m.To == entity.RedriveRunning {
		c := r.counts()
		e.Forgiven = entity.Tally{Sent: c.Sent(), Failed: c.Failed, Returned: s.returnsOf(e.ID)}
	}
	e.State, e.Note, e.UpdatedAt, e.WaitingSince = m.To, m.Note, now, time.Time{}
	if m.To.Over() {
		e.EndedAt = now
	}
}

// NoteWaiting implements repository.Redrives. A redrive that is not active keeps its
// note, which says why.
func (s *Store) NoteWaiting(ctx context.Context, id uuid.UUID, waiting bool, note string) error {
	return s.withRedrive(ctx, "note that a redrive waits", id, func(r *redrive, now time.Time) error {
		e := &r.entity
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
