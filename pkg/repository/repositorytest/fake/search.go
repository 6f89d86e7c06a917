package fake

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

// Search implements repository.Searcher.
func (s *Store) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	var found []entity.Message
	err := s.Step(ctx, "search messages", func(time.Time) error {
		rows := s.filtered(q.Filter, q.Archived)
		rows = slices.DeleteFunc(rows, func(r *row) bool {
			return sortTime(q.Sort, r).IsZero() || !pastCursor(q, r)
		})
		slices.SortFunc(rows, func(a, b *row) int { return compareRows(q.Sort, a, sortTime(q.Sort, b), b.Message.ID) })
		budget := memory.NewPageBudget()
		for _, r := range rows[:max(0, min(q.Limit, len(rows)))] {
			found = append(found, s.observed(r, listed(r, budget, q.NoValues)))
		}
		return nil
	})
	if err == nil {
		err = memory.Reserve(ctx, found...)
	}
	return repository.SearchPage{Messages: found}, err
}

func listed(r *row, budget *memory.PageBudget, noValue bool) entity.Message {
	if noValue && len(r.Message.Record.Value) > 0 {
		bare := *r
		bare.Message.Record.State, bare.Message.Record.Value = entity.ValueNotLoaded, nil
		r = &bare
	}
	return r.Listed(budget)
}

// filtered returns the rows that match a filter, oldest first.
func (s *Store) filtered(f entity.Filter, archived bool) []*row {
	rows := s.Rows
	if archived {
		rows = s.Archived
	}
	return memory.OldestFirst(rows, s.meant(f))
}

func sortTime(by repository.Sort, r *row) time.Time {
	if by.By == repository.ByLastRetry {
		return r.Message.LastRetryAt
	}
	return r.Message.CreatedAt
}

func pastCursor(q repository.SearchQuery, r *row) bool {
	return q.After == (repository.Cursor{}) || compareRows(q.Sort, r, entity.TruncateTime(q.After.CreatedAt), q.After.ID) > 0
}

// compareRows compares the position of a row in a list with that of a cursor.
func compareRows(by repository.Sort, a *row, at time.Time, id uuid.UUID) int {
	n := cmp.Or(sortTime(by, a).Compare(at), bytes.Compare(a.Message.ID[:], id[:]))
	if by.Ascending {
		return n
	}
	return -n
}

// CountMatching implements repository.Searcher. It always counts the messages, so its numbers are exact.
func (s *Store) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	count := repository.MatchCount{Exact: true}
	err := s.Step(ctx, "count messages", func(time.Time) error {
		count.Messages = int64(len(s.filtered(q.Filter, q.Archived)))
		return nil
	})
	return count, err
}

// Export implements repository.Searcher. It copies all messages in one step.
func (s *Store) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	var found []entity.Message
	err := s.Step(ctx, "export messages", func(time.Time) error {
		for _, r := range slices.Backward(s.filtered(q.Filter, q.Archived)) {
			if len(found) >= q.Limit {
				return nil
			}
			found = append(found, s.observed(r, r.WithFirstHeaders(q.MaxValue)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range found {
		if err := yield(&found[i]); err != nil {
			return err
		}
	}
	return nil
}

// GetArchived implements repository.Archive.
func (s *Store) GetArchived(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error) {
	var m entity.Message
	err := s.Step(ctx, "get archived message", func(time.Time) error {
		r, ok := s.Archived[id]
		if !ok {
			return &entity.NotFoundError{ID: id}
		}
		m = s.observed(r, r.Shown(maxValue))
		return nil
	})
	if err == nil {
		err = memory.Reserve(ctx, m)
	}
	return m, err
}

// Restore implements repository.Archive. It returns the message without key, headers and value.
func (s *Store) Restore(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Message, error) {
	return s.RestoreHeld(ctx, id, 0, cause)
}

// RestoreHeld does the same as Restore, but the message is due for automatic retry when the time hold is over.
func (s *Store) RestoreHeld(ctx context.Context, id uuid.UUID, hold time.Duration, cause entity.AuditInfo) (entity.Message, error) {
	var m entity.Message
	err := s.Step(ctx, "restore message", func(now time.Time) error {
		r, ok := s.Archived[id]
		if !ok {
			live, ok := s.Rows[id]
			if !ok || !s.Did(cause.Operation, entity.ActionRestore)[id] {
				return &entity.NotFoundError{ID: id}
			}
			m = live.Bare()
			return nil
		}
		before := r.Message
		restore(r, now)
		r.Message.NextAttemptAt = now.Add(hold)
		delete(s.Archived, id)
		s.Rows[id] = r
		s.record(messageEntry(now, entity.ActionRestore, before, r.Message.Status, r.Message.RetryCount, cause))
		m = r.Bare()
		return nil
	})
	return m, err
}

// Hold makes restored messages due for automatic retry when the time hold is over, unless they were attempted meanwhile.
func (s *Store) Hold(ctx context.Context, ids []uuid.UUID, hold time.Duration) error {
	return s.Step(ctx, "hold restored messages", func(now time.Time) error {
		for _, id := range ids {
			if r, ok := s.Rows[id]; ok && r.Message.Status == entity.Pending && r.Message.RetryCount == 0 &&
				!r.Message.NextAttemptAt.IsZero() && r.Message.NextAttemptAt.Before(now.Add(hold/2)) {
				r.Message.NextAttemptAt = now.Add(hold)
			}
		}
		return nil
	})
}

// Erase implements repository.Archive.
func (s *Store) Erase(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (repository.Erased, error) {
	return repository.Erased{}, s.Step(ctx, "erase message", func(now time.Time) error {
		if _, ok := s.Archived[id]; !ok {
			if s.Did(cause.Operation, entity.ActionErase)[id] {
				return nil
			}
			return &entity.NotFoundError{ID: id}
		}
		delete(s.Archived, id)
		for i := range s.trail {
			if e := &s.trail[i]; e.Kind == entity.KindMessage && e.ObjectID == id {
				e.LastError = ""
			}
		}
		s.record(entity.AuditEntry{At: now, Action: entity.ActionErase, Kind: entity.KindMessage, ObjectID: id, Cause: cause})
		return nil
	})
}

// restore makes a message PENDING and due, and resets its retry count, rescues, claim and outcome. It sets the status
// directly: the state machine has no such transition, because it does not include the archive.
func restore(r *row, now time.Time) {
	m := &r.Message
	m.Status, m.RetryCount, m.UpdatedAt, m.NextAttemptAt = entity.Pending, 0, now, now
	m.Claim, m.Unsettled, m.Outcome = entity.Claim{}, false, ""
	r.Rescues = 0
}

// Archive moves a message of any status and age to the archive, without changing it. It is for tests: the storage
// contract does not contain it, and this store archives nothing by itself.
func (s *Store) Archive(id uuid.UUID) {
	s.locked(func() {
		if r, ok := s.Rows[id]; ok {
			s.follow(r)
			delete(s.Rows, id)
			s.Archived[id] = r
		}
	})
}

// meant returns a function that reports whether a message matches the filter f, which means that the message meets all
// of the filter's conditions.
func (s *Store) meant(f entity.Filter) func(*entity.Message) bool {
	isNamed := memory.Named(f.Topic)
	return func(m *entity.Message) bool {
		return (f.Topic == "" || isNamed(m)) && hasTopics(f, m) && described(f, m) &&
			within(m.CreatedAt, f.CreatedAfter, f.CreatedBefore) && within(m.LastRetryAt, f.RetriedAfter, f.RetriedBefore) &&
			(!f.NeedsSearchIndex() || s.documented(f, m.ID))
	}
}

func hasTopics(f entity.Filter, m *entity.Message) bool {
	if f.UnknownOrigin && m.OriginalTopic != "" || f.Visible != nil && !f.Visible.Sees(m) {
		return false
	}
	return len(f.Topics.Texts()) == 0 || f.Topics.Match(m.OriginalTopic) || m.Source.Known() && f.Topics.Match(m.Source.Topic)
}

func described(f entity.Filter, m *entity.Message) bool {
	return (len(f.MessageIDs) == 0 || slices.Contains(f.MessageIDs, m.ID)) && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, m.Status)) &&
		(f.ErrorClass == "" || m.Failure.Class == f.ErrorClass) &&
		(f.ConsumerGroup == "" || m.Failure.ConsumerGroup == f.ConsumerGroup) &&
		(f.Dialect == "" || m.Failure.Dialect == f.Dialect) &&
		(f.Group == uuid.Nil || m.Group == f.Group)
}

// within reports whether t is between the bounds after and before. A bound that is zero does not limit. A time t that
// is zero is within the bounds only when both are zero.
func within(t, after, before time.Time) bool {
	after, before = entity.TruncateTime(after), entity.TruncateTime(before)
	if t.IsZero() {
		return after.IsZero() && before.IsZero()
	}
	return (after.IsZero() || !t.Before(after)) && (before.IsZero() || t.Before(before))
}

// documented reports whether a message has a document of the present version that contains every word and term of the
// filter.
func (s *Store) documented(f entity.Filter, id uuid.UUID) bool {
	d := s.documents[id]
	if d == nil || !s.index.is(d.version) || s.answersFrom != nil && *s.answersFrom != d.version {
		return false
	}
	for _, any := range f.Terms() {
		if !slices.ContainsFunc(any, func(t int64) bool { return slices.Contains(d.terms, t) }) {
			return false
		}
	}
	for _, word := range f.Words {
		// A word that contains NUL or is not valid UTF-8 cannot be in a text.
		if !utf8.ValidString(word) || strings.ContainsRune(word, 0) || !strings.Contains(d.text, strings.ToLower(word)) {
			return false
		}
	}
	return true
}
