package fake

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

// Quarantine puts a record into quarantine, for tests. The storage contract does not contain it. Without it, this store
// would have no records in quarantine, because it never refuses a record.
func (s *Store) Quarantine(q entity.Quarantined) {
	s.locked(func() { s.quarantine[q.ID] = q })
}

// Quarantined implements repository.Quarantine.
func (s *Store) Quarantined(ctx context.Context, q repository.QuarantineQuery) ([]entity.Quarantined, error) {
	var found []entity.Quarantined
	err := s.Step(ctx, "list quarantined records", func(time.Time) error {
		for _, r := range s.quarantine {
			place := cmp.Or(r.FirstTry.Compare(q.Before.CreatedAt), cmp.Compare(r.ID.String(), q.Before.ID.String()))
			if (q.Topic == "" || r.Source.Topic == q.Topic) && (q.Visible == nil || q.Visible.Match(r.Source.Topic)) &&
				(q.Before.CreatedAt.IsZero() || place < 0) {
				memory.LeaveOutKey(&r.Record, repository.ListValueLimit)
				found = append(found, r)
			}
		}
		slices.SortFunc(found, func(a, b entity.Quarantined) int {
			return cmp.Or(b.FirstTry.Compare(a.FirstTry), cmp.Compare(b.ID.String(), a.ID.String()))
		})
		found = found[:min(len(found), q.Limit)]
		return nil
	})
	return found, err
}

// QuarantinedRecord implements repository.Quarantine.
func (s *Store) QuarantinedRecord(ctx context.Context, id uuid.UUID) (entity.Quarantined, error) {
	return s.onQuarantined(ctx, id, func(entity.Quarantined, time.Time) {})
}

// onQuarantined calls the function do with a quarantined record, and returns the record's state afterwards.
func (s *Store) onQuarantined(ctx context.Context, id uuid.UUID, do func(q entity.Quarantined, now time.Time)) (q entity.Quarantined, err error) {
	err = s.Step(ctx, "look at a quarantined record", func(now time.Time) error {
		var there bool
		if q, there = s.quarantine[id]; !there {
			return &entity.QuarantineNotFoundError{ID: id}
		}
		do(q, now)
		if after, there := s.quarantine[id]; there {
			q = after
		}
		return nil
	})
	return q, err
}

// QuarantineCounts implements repository.Quarantine.
func (s *Store) QuarantineCounts(ctx context.Context) ([]repository.QuarantineCount, error) {
	var counts []repository.QuarantineCount
	err := s.Step(ctx, "count quarantined records", func(time.Time) error {
		byTopic := map[string]int64{}
		for _, q := range s.quarantine {
			byTopic[q.Source.Topic]++
		}
		for topic, n := range byTopic {
			counts = append(counts, repository.QuarantineCount{Topic: topic, Records: n})
		}
		slices.SortFunc(counts, func(a, b repository.QuarantineCount) int { return cmp.Compare(a.Topic, b.Topic) })
		return nil
	})
	return counts, err
}

// WakeQuarantined implements repository.Quarantine.
func (s *Store) WakeQuarantined(ctx context.Context) error {
	return s.Step(ctx, "wake quarantined records", func(now time.Time) error {
		for id, q := range s.quarantine {
			q.RetryAt = now
			s.quarantine[id] = q
		}
		return nil
	})
}

// RetryQuarantined implements repository.Quarantine.
func (s *Store) RetryQuarantined(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) (entity.Quarantined, error) {
	return s.onQuarantined(ctx, id, func(q entity.Quarantined, now time.Time) {
		s.auditQuarantine(q, entity.ActionRetry, cause, now)
		q.RetryAt = now
		s.quarantine[id] = q
	})
}

// DeleteQuarantined implements repository.Quarantine.
func (s *Store) DeleteQuarantined(ctx context.Context, id uuid.UUID, cause entity.AuditInfo) error {
	_, err := s.onQuarantined(ctx, id, func(q entity.Quarantined, now time.Time) {
		s.auditQuarantine(q, entity.ActionDelete, cause, now)
		delete(s.quarantine, id)
	})
	return err
}

func (s *Store) auditQuarantine(q entity.Quarantined, action entity.Action, cause entity.AuditInfo, now time.Time) {
	s.record(entity.AuditEntry{
		At: now, Action: action, Kind: entity.KindQuarantine, ObjectID: q.ID, LastError: q.Place() + ": SQLSTATE " + q.SQLState,
		Topics: q.Source.Topic, Cause: cause,
	})
}

// TakeQuarantined implements repository.Quarantine.
func (s *Store) TakeQuarantined(ctx context.Context) (taken *entity.Quarantined, err error) {
	err = s.Step(ctx, "take a quarantined record", func(now time.Time) error {
		for id, q := range s.quarantine {
			if q.RetryAt.After(now) {
				continue
			}
			q.Tries, q.LastTry, q.RetryAt = q.Tries+1, now, now.Add(repository.QuarantineRest)
			s.quarantine[id], taken = q, &q
			return nil
		}
		return nil
	})
	return taken, err
}

// Release implements repository.Quarantine.
func (s *Store) Release(ctx context.Context, batch repository.Batch) (stored repository.Stored, err error) {
	m := batch.Messages[0]
	err = s.Step(ctx, "release a quarantined record", func(now time.Time) error {
		if _, there := s.quarantine[m.ID]; !there {
			return nil
		}
		delete(s.quarantine, m.ID)
		m.CreatedAt, m.UpdatedAt, m.Return = now, now, nil
		s.Rows[m.ID] = s.NewRow(m)
		s.arrived(s.Rows[m.ID])
		stored.Ranges = []repository.Partition{{Incarnation: m.Source.Incarnation, Partition: m.Source.Partition}}
		return nil
	})
	return stored, err
}
