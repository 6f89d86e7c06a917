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
)

// redrive is a redrive and what a store knows beside it. Its counts are made when
// it is read.
type redrive struct {
	entity      entity.Redrive
	leftOut     map[string]int
	batches     []*batch
	ordered     bool
	nextBatchAt time.Time
}

// CreateRedrive implements repository.Redrives.
func (s *Store) CreateRedrive(ctx context.Context, n repository.NewRedrive) (entity.Redrive, error) {
	var made entity.Redrive
	err := s.step(ctx, "create redrive", func(now time.Time) error {
		r, ok := s.redrives[n.ID]
		if !ok {
			var err error
			if r, err = s.newRedrive(n, now); err != nil {
				return err
			}
			s.redrives[n.ID] = r
			s.noteMove(now, entity.ActionCreate, r, "", n.Cause)
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
	r := &redrive{
		entity: entity.Redrive{
			ID: n.ID, Action: n.Action, State: entity.RedriveRunning, Cause: n.Cause, Selection: asAsked(n.Selection), Options: n.Options,
			CreatedAt: now, UpdatedAt: now, Selected: len(found), CanaryPassed: true,
		},
		leftOut: map[string]int{},
		ordered: n.Options.KeepKeyOrder && n.Action == entity.RedriveRetry,
	}
	r.entity.Options.Patch = bytes.Clone(n.Options.Patch)
	var ids []uuid.UUID
	for _, f := range found {
		if f.reason == "" {
			ids = append(ids, f.id)
			continue
		}
		r.leftOut[f.reason]++
	}
	r.entity.LeftOut = len(found) - len(ids)
	canary := 0
	if n.Action == entity.RedriveRetry {
		canary = max(0, n.Options.Canary)
	}
	if canary > 0 {
		r.entity.CanaryPassed, r.entity.State = false, entity.RedriveCanary
	}
	if len(ids) == 0 {
		r.entity.State, r.entity.EndedAt = entity.RedriveFinished, now
	}
	r.cut(ids, size, canary)
	return r, nil
}

// batchSize keeps batches of a redrive with a rate to what a second allows.
func batchSize(n repository.NewRedrive) (int, error) {
	if n.BatchSize < 1 {
		return 0, fmt.Errorf("batches of %d messages: %w", n.BatchSize, entity.ErrInvalid)
	}
	if n.Options.Rate > 0 && n.Options.Rate < float64(n.BatchSize) {
		return max(1, int(n.Options.Rate)), nil
	}
	return n.BatchSize, nil
}

// asAsked is the selection as a redrive shows it: its ids are its items.
func asAsked(s entity.Selection) entity.Selection {
	s.IDs = nil
	s.CreatedAfter, s.CreatedBefore = entity.Moment(s.CreatedAfter), entity.Moment(s.CreatedBefore)
	s.RetriedAfter, s.RetriedBefore = entity.Moment(s.RetriedAfter), entity.Moment(s.RetriedBefore)
	return cloneSelection(s)
}

// cloneSelection returns s with nothing shared.
func cloneSelection(s entity.Selection) entity.Selection {
	s.Statuses, s.Words, s.Key = slices.Clone(s.Statuses), slices.Clone(s.Words), bytes.Clone(s.Key)
	s.Headers, s.Fields = slices.Clone(s.Headers), slices.Clone(s.Fields)
	for i := range s.Headers {
		s.Headers[i].Value = bytes.Clone(s.Headers[i].Value)
	}
	for i := range s.Fields {
		s.Fields[i].Values = slices.Clone(s.Fields[i].Values)
	}
	s.Visible = clonePointer(s.Visible) // patterns never change
	return s
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

// Redrives implements repository.Selections.
func (s *Store) Redrives(ctx context.Context, q repository.RedriveQuery) ([]entity.Redrive, error) {
	var found []entity.Redrive
	err := s.step(ctx, "list redrives", func(time.Time) error {
		all := s.redrivesByAge()
		slices.Reverse(all)
		for _, r := range all {
			if len(found) >= q.Limit {
				return nil
			}
			if olderThan(r, q.Before) && (len(q.States) == 0 || slices.Contains(q.States, r.entity.State)) &&
				(q.Actor == "" || q.Actor == r.entity.Cause.Actor) {
				found = append(found, s.shown(r))
			}
		}
		return nil
	})
	return found, err
}

// ActiveRedrives implements repository.Redrives.
func (s *Store) ActiveRedrives(ctx context.Context) ([]uuid.UUID, error) {
	var ids []uuid.UUID
	err := s.step(ctx, "find active redrives", func(now time.Time) error {
		for _, r := range s.redrivesByAge() {
			if r.entity.State.Active() || r.abandoned(now) != nil {
				ids = append(ids, r.entity.ID)
			}
		}
		return nil
	})
	return ids, err
}

func (s *Store) redrivesByAge() []*redrive {
	return slices.SortedFunc(maps.Values(s.redrives), func(a, b *redrive) int {
		return cmp.Or(a.entity.CreatedAt.Compare(b.entity.CreatedAt), bytes.Compare(a.entity.ID[:], b.entity.ID[:]))
	})
}

func olderThan(r *redrive, p repository.Place) bool {
	if p.CreatedAt.IsZero() {
		return true
	}
	order := cmp.Or(r.entity.CreatedAt.Compare(p.CreatedAt), bytes.Compare(r.entity.ID[:], p.ID[:]))
	return order < 0
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
	e.Selection = cloneSelection(e.Selection)
	e.Options.Patch = bytes.Clone(e.Options.Patch)
	e.Counts = r.counts()
	e.Counts.Returned = s.returnsOf(e.ID)
	return e
}

func (r *redrive) counts() entity.RedriveCounts {
	c := entity.RedriveCounts{Reasons: maps.Clone(r.leftOut), Skipped: r.entity.LeftOut}
	for _, b := range r.batches {
		for _, item := range b.items {
			switch item.Result {
			case entity.ItemWaiting:
				c.Waiting++
				if b.owner != uuid.Nil {
					c.UnderWay++
				}
			case entity.ItemSucceeded:
				c.Succeeded++
			case entity.ItemFailed:
				c.Failed++
			case entity.ItemDead:
				c.Failed++
				c.Dead++
			case entity.ItemInDoubt:
				c.InDoubt++
			case entity.ItemSkipped:
				c.Skipped++
			}
			if item.Reason != "" && explained(item.Result) {
				c.Reasons[item.Reason]++
			}
		}
	}
	return c
}

// explained reports whether messages with such a result are counted by reason.
func explained(r entity.ItemResult) bool {
	return r == entity.ItemFailed || r == entity.ItemDead || r == entity.ItemSkipped
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
			s.noteMove(now, m.Action, r, from, m.Cause)
		}
		moved = s.shown(r)
		return nil
	})
	return moved, err
}

func (s *Store) moveTo(r *redrive, m repository.RedriveMove, now time.Time) {
	e := &r.entity
	e.CanaryPassed = e.CanaryPassed || m.PassCanary
	if e.State == entity.RedriveStopped && m.To == entity.RedriveRunning {
		c := r.counts()
		e.CanaryPassed = true
		e.Forgiven = entity.Tally{Sent: c.Sent(), Failed: c.Failed, Returned: s.returnsOf(e.ID)}
	}
	e.State, e.Note, e.UpdatedAt, e.WaitingSince = m.To, m.Note, now, time.Time{}
	if m.To.Over() {
		e.EndedAt = now
	}
}

// noteMove appends a redrive's new state to the trail.
func (s *Store) noteMove(now time.Time, action entity.Action, r *redrive, from entity.RedriveState, cause entity.Cause) {
	s.record(entity.AuditEntry{
		At: now, Action: action, Kind: entity.KindRedrive, ObjectID: r.entity.ID,
		From: string(from), To: string(r.entity.State), Cause: cause,
	})
}

// NoteWaiting implements repository.Redrives. A redrive that nobody works on any
// more is left alone: its note says why.
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
