package fake

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Search implements repository.Searcher.
func (s *Store) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	var found []entity.Message
	err := s.step(ctx, "search messages", func(time.Time) error {
		rows := s.filtered(q.Filter, q.Archived)
		rows = slices.DeleteFunc(rows, func(r *row) bool {
			return sortTime(q.Sort, r).IsZero() || !pastPlace(q, r)
		})
		slices.SortFunc(rows, func(a, b *row) int { return compareRows(q.Sort, a, sortTime(q.Sort, b), b.message.ID) })
		room := newPageRoom()
		for _, r := range rows[:max(0, min(q.Limit, len(rows)))] {
			found = append(found, s.observed(r, r.listed(room, q.NoValues)))
		}
		return nil
	})
	if err == nil {
		err = takeRoom(ctx, found...)
	}
	return repository.SearchPage{Messages: found}, err
}

// filtered returns the rows that a filter means, oldest first.
func (s *Store) filtered(f entity.Filter, archived bool) []*row {
	rows := s.rows
	if archived {
		rows = s.archive
	}
	return oldestFirst(rows, s.meant(f))
}

func sortTime(by repository.Sort, r *row) time.Time {
	if by.By == repository.ByLastRetry {
		return r.message.LastRetryAt
	}
	return r.message.CreatedAt
}

func pastPlace(q repository.SearchQuery, r *row) bool {
	return q.After == (repository.Place{}) || compareRows(q.Sort, r, entity.Moment(q.After.CreatedAt), q.After.ID) > 0
}

// compareRows says where a stands in an order, seen from a place.
func compareRows(by repository.Sort, a *row, at time.Time, id uuid.UUID) int {
	n := cmp.Or(sortTime(by, a).Compare(at), bytes.Compare(a.message.ID[:], id[:]))
	if by.Ascending {
		return n
	}
	return -n
}

// CountMatching implements repository.Searcher. It always counts.
func (s *Store) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	count := repository.MatchCount{Exact: true}
	err := s.step(ctx, "count messages", func(time.Time) error {
		count.Messages = int64(len(s.filtered(q.Filter, q.Archived)))
		return nil
	})
	return count, err
}

// Export implements repository.Searcher. Everything is copied at one moment.
func (s *Store) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	var found []entity.Message
	err := s.step(ctx, "export messages", func(time.Time) error {
		for _, r := range slices.Backward(s.filtered(q.Filter, q.Archived)) {
			if len(found) >= q.Limit {
				return nil
			}
			found = append(found, s.observed(r, r.withFirstHeaders(q.MaxValue)))
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
	err := s.step(ctx, "get archived message", func(time.Time) error {
		r, ok := s.archive[id]
		if !ok {
			return &entity.NotFoundError{ID: id}
		}
		m = s.observed(r, r.shown(maxValue))
		return nil
	})
	if err == nil {
		err = takeRoom(ctx, m)
	}
	return m, err
}

// Restore implements repository.Archive. The message comes without its bytes.
func (s *Store) Restore(ctx context.Context, id uuid.UUID, cause entity.Cause) (entity.Message, error) {
	var m entity.Message
	err := s.step(ctx, "restore message", func(now time.Time) error {
		r, ok := s.archive[id]
		if !ok {
			live, err := s.row(id)
			if err != nil || !s.performedOn(cause.Operation, entity.ActionRestore)[id] {
				return &entity.NotFoundError{ID: id}
			}
			m = live.bare()
			return nil
		}
		before := r.message
		r.restore(now)
		delete(s.archive, id)
		s.rows[id] = r
		s.note(now, entity.ActionRestore, before, r.message.Status, r.message.RetryCount, cause)
		m = r.bare()
		return nil
	})
	return m, err
}

// restore begins the retries anew. It is no arrow of the state chart: the archive
// is none of its states.
func (r *row) restore(now time.Time) {
	m := &r.message
	m.Status, m.RetryCount, m.UpdatedAt, m.NextAttemptAt = entity.Pending, 0, now, now
	m.Claim, m.Unsettled, m.Outcome = entity.Claim{}, false, ""
	r.rescues = 0
}

// Archive moves a message to the archive as it is, whatever its state and age. It
// is for tests and development and not part of the contract: nothing grows old in
// the memory of a process.
func (s *Store) Archive(id uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.rows[id]; ok {
		s.follow(r)
		delete(s.rows, id)
		s.archive[id] = r
	}
}
