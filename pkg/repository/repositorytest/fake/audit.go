package fake

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

// Trail implements repository.Audit.
func (s *Store) Trail(ctx context.Context, q repository.TrailQuery) ([]entity.AuditEntry, error) {
	var entries []entity.AuditEntry
	err := s.Step(ctx, "read the audit trail", func(time.Time) error {
		for _, e := range slices.Backward(s.trail) {
			if len(entries) >= q.Limit {
				return nil
			}
			if s.asked(e, q) && (!q.ByRequest || s.represents(e, q)) {
				entries = append(entries, s.ofRequest(e, q))
			}
		}
		return nil
	})
	return entries, err
}

// represents reports whether the entry e stands for its request in a list of requests. This is the first entry of the
// request that matches q apart from After, Until and Before, or an entry without a request.
func (s *Store) represents(e entity.AuditEntry, q repository.TrailQuery) bool {
	q.After, q.Until, q.Before = time.Time{}, time.Time{}, e.ID
	return e.Cause.Call == uuid.Nil || !slices.ContainsFunc(s.trail, func(other entity.AuditEntry) bool {
		return other.Cause.Call == e.Cause.Call && s.asked(other, q)
	})
}

// changedByRedrive reports whether e is the entry of a change that a redrive made to a message.
func (s *Store) changedByRedrive(e entity.AuditEntry) bool {
	return e.Kind == entity.KindMessage && e.Cause.Call != uuid.Nil && slices.ContainsFunc(s.trail, func(other entity.AuditEntry) bool {
		return other.Kind == entity.KindRedrive && other.Action == entity.ActionCreate && other.Cause.Call == e.Cause.Call
	})
}

// ofRequest returns the entry e with the fields that an entry has when it represents its request.
func (s *Store) ofRequest(e entity.AuditEntry, q repository.TrailQuery) entity.AuditEntry {
	if !q.ByRequest {
		return e
	}
	e.Entries = 1
	if e.Cause.Call != uuid.Nil {
		e.Entries = 0
		all := repository.TrailQuery{Visible: q.Visible}
		if q.Visible != nil {
			all.ObjectID = q.ObjectID
		}
		for _, other := range s.trail {
			if other.Cause.Call == e.Cause.Call && s.asked(other, all) && e.Entries <= entity.MaxRequestEntries {
				e.Entries++
			}
		}
	}
	if r := s.core.Redrives[e.ObjectID]; r != nil && e.Action == entity.ActionCreate {
		e.Redrive, e.Selected = r.Entity.Action, r.Entity.Selected
	}
	return e
}

// asked reports whether the entry e matches all fields that are set in q. In a list of requests, entries of a redrive's
// messages match only with ObjectID or RequestID.
func (s *Store) asked(e entity.AuditEntry, q repository.TrailQuery) bool {
	created := s.core.Redrives[e.ObjectID]
	creates := q.ByRequest && created != nil && e.Action == entity.ActionCreate && string(created.Entity.Action) == string(q.Action)
	if q.ByRequest && q.ObjectID == uuid.Nil && q.RequestID == "" && s.changedByRedrive(e) {
		return false
	}
	return (q.ObjectID == uuid.Nil || e.ObjectID == q.ObjectID) &&
		(q.Kind == "" || e.Kind == q.Kind) &&
		(q.Actor == "" || e.Cause.Actor == q.Actor) &&
		(q.Action == "" || e.Action == q.Action || creates) &&
		(q.ActorKind == "" || e.ActorKind() == q.ActorKind) &&
		(q.RequestID == "" || e.Cause.RequestID == q.RequestID) &&
		(q.After.IsZero() || !e.At.Before(entity.TruncateTime(q.After))) &&
		(q.Until.IsZero() || e.At.Before(entity.TruncateTime(q.Until))) &&
		(q.Before == 0 || e.ID < q.Before) &&
		(q.Visible == nil || e.Topics == "" || slices.ContainsFunc(strings.Split(e.Topics, ","), q.Visible.Match))
}

// PerformedOn implements repository.Selections. It returns the ids in the order in which they are given.
func (s *Store) PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error) {
	var found []uuid.UUID
	err := s.Step(ctx, "find changes of an operation", func(time.Time) error {
		performed := s.Did(operation, action)
		for _, id := range memory.Unique(ids) {
			if performed[id] {
				found = append(found, id)
			}
		}
		return nil
	})
	return found, err
}

// Record implements repository.Operations.
func (s *Store) Record(ctx context.Context, e entity.AuditEntry) error {
	return s.Step(ctx, "record in the audit trail", func(now time.Time) error {
		again := e.Cause.Operation != uuid.Nil && slices.ContainsFunc(s.trail, func(known entity.AuditEntry) bool {
			return known.Cause.Operation == e.Cause.Operation && known.Action == e.Action && known.Kind == e.Kind &&
				known.ObjectID == e.ObjectID
		})
		if !again {
			e.At = now
			s.record(e)
		}
		return nil
	})
}

// messageEntry returns the audit entry for a change of a message; the parameter before is the message as it was before
// the change.
func messageEntry(now time.Time, action entity.Action, before entity.Message, to entity.Status, count int, cause entity.AuditInfo) entity.AuditEntry {
	return entity.AuditEntry{
		At: now, Action: action, Kind: entity.KindMessage, ObjectID: before.ID,
		From: string(before.Status), To: string(to), RetryCount: count,
		Class: before.LastPublishErrorClass, LastError: before.LastPublishError, Cause: cause,
	}
}

// changed is the hook that the core calls after it has changed a message. It appends an audit entry, and updates the
// features that depend on the message.
func (s *Store) changed(now time.Time, action entity.Action, before entity.Message, r *row, cause entity.AuditInfo) {
	to := r.Message.Status
	if action == entity.ActionDelete {
		s.follow(r)
		delete(s.documents, before.ID)
		to = ""
	}
	if action == entity.ActionAttempt {
		ended := r.Attempts[len(r.Attempts)-1]
		before.LastPublishErrorClass, before.LastPublishError = ended.Class, ended.Error
		if ended.Verdict != entity.Acknowledged {
			s.refute(r, ended.ID)
		}
	}
	s.append(messageEntry(now, action, before, to, r.Message.RetryCount, cause))
}

// moved is the hook that the core calls after a redrive has changed its state. It appends an audit entry.
func (s *Store) moved(now time.Time, action entity.Action, from entity.RedriveState, r *redrive, cause entity.AuditInfo) {
	s.append(entity.AuditEntry{
		At: now, Action: action, Kind: entity.KindRedrive, ObjectID: r.Entity.ID,
		From: string(from), To: string(r.Entity.State), Cause: cause,
	})
}

// record appends an audit entry for a change that the core cannot make.
func (s *Store) record(e entity.AuditEntry) {
	s.Note(e.Action, e.ObjectID, e.Cause)
	s.append(e)
}

// append appends an audit entry with the next id; the first id is 1.
func (s *Store) append(e entity.AuditEntry) {
	e.ID = int64(len(s.trail)) + 1
	s.trail = append(s.trail, e)
}

// KeepArchiveRun implements repository.ArchiveRuns.
func (s *Store) KeepArchiveRun(ctx context.Context, run repository.ArchiveRun) error {
	return s.Step(ctx, "record an archive run", func(now time.Time) error {
		run.StartedAt, run.FinishedAt = now, time.Time{}
		if run.Result != repository.ArchiveRunning {
			run.StartedAt = now.Add(-run.Took)
		}
		run.Took = 0
		if old, known := s.archiveRuns[run.ID]; known {
			if old.Result != repository.ArchiveRunning {
				return nil
			}
			run.StartedAt = old.StartedAt
		}
		if run.Result != repository.ArchiveRunning {
			run.FinishedAt = now
		}
		run.Error = repository.BoundArchiveError(run.Error)
		s.archiveRuns[run.ID] = run
		return nil
	})
}

// LatestArchiveRuns implements repository.ArchiveRuns.
func (s *Store) LatestArchiveRuns(ctx context.Context) (last, complete *repository.ArchiveRun, err error) {
	err = s.Step(ctx, "read archive runs", func(time.Time) error {
		for _, run := range s.archiveRuns {
			if last == nil || later(run.StartedAt, run.ID, last.StartedAt, last.ID) {
				last = &run
			}
			if run.Result == repository.ArchiveComplete &&
				(complete == nil || later(run.FinishedAt, run.ID, complete.FinishedAt, complete.ID)) {
				complete = &run
			}
		}
		return nil
	})
	return last, complete, err
}

func later(a time.Time, idA uuid.UUID, b time.Time, idB uuid.UUID) bool {
	if !a.Equal(b) {
		return a.After(b)
	}
	return idA.String() > idB.String()
}
