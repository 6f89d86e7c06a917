package fake

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

// searchIndex contains the indexer lease and the version of the search index.
type searchIndex struct {
	held    bool // whether any owner has ever acquired the lease
	owner   uuid.UUID
	until   time.Time
	version int64
}

// is reports whether an indexer has acquired the lease before and the search index has the given version.
func (c *searchIndex) is(version int64) bool { return c.held && c.version == version }

type document struct {
	version int64
	text    string
	terms   []int64
}

// AcquireIndexerLease implements repository.SearchIndex.
func (s *Store) AcquireIndexerLease(ctx context.Context, owner uuid.UUID, version int64, lease time.Duration) (bool, error) {
	ok := false
	err := s.Step(ctx, "acquire the indexer lease", func(now time.Time) error {
		c := &s.index
		if ok = c.owner == owner || !c.until.After(now); ok {
			*c = searchIndex{held: true, owner: owner, until: now.Add(lease), version: version}
		}
		return nil
	})
	return ok, err
}

// SetIndexVersion implements repository.SearchIndex.
func (s *Store) SetIndexVersion(version int64) {
	s.locked(func() { s.answersFrom = &version })
}

// Unindexed implements repository.SearchIndex. It returns archived messages after the live ones.
func (s *Store) Unindexed(ctx context.Context, version int64, limit int, maxBytes, maxValue int64) ([]entity.Message, error) {
	var messages []entity.Message
	err := s.Step(ctx, "find messages to index", func(time.Time) error {
		if !s.index.is(version) {
			return nil
		}
		rows := memory.OldestFirst(s.Rows, func(m *entity.Message) bool { return m.Group == uuid.Nil || !s.has(m.ID, version) })
		for _, r := range memory.OldestFirst(s.Archived, func(*entity.Message) bool { return true }) {
			if !s.has(r.Message.ID, version) {
				rows = append(rows, r)
			}
		}
		left := maxBytes
		for _, r := range rows {
			m := r.WithFirstHeaders(maxValue)
			left -= memory.Size(&m.Record) + int64(len(m.ErrorMessage))
			if len(messages) >= limit || left < 0 && len(messages) > 0 {
				return nil
			}
			messages = append(messages, m)
		}
		return nil
	})
	return messages, err
}

// has reports whether the store has a document of the message, with the given version.
func (s *Store) has(id uuid.UUID, version int64) bool {
	d := s.documents[id]
	return d != nil && d.version == version
}

// StoreDocuments implements repository.SearchIndex.
func (s *Store) StoreDocuments(ctx context.Context, version int64, documents []entity.Document) error {
	var noted []entity.Fingerprint
	for _, d := range documents {
		if d.Fingerprint != nil {
			noted = append(noted, *d.Fingerprint)
		}
	}
	if len(noted) > 0 {
		if err := s.SaveFingerprints(ctx, noted); err != nil {
			return err
		}
	}
	return s.Step(ctx, "store documents", func(now time.Time) error {
		s.forgetActivity(now)
		for _, d := range documents {
			r, live := s.Rows[d.MessageID]
			if !live {
				r = s.Archived[d.MessageID]
			}
			if r == nil {
				continue // the message was deleted
			}
			if s.index.is(version) {
				if s.documents[d.MessageID] == nil {
					s.count(now, r, d.Fingerprint)
				}
				s.documents[d.MessageID] = &document{version: version, text: d.Text, terms: d.Terms}
			}
			if d.Fingerprint != nil && r.Message.Group == uuid.Nil {
				r.Message.Group = d.Fingerprint.ID()
				if live {
					s.arrived(r)
				}
			}
		}
		return nil
	})
}

// UnderLoad implements repository.SearchIndex. This store is never under load.
func (s *Store) UnderLoad(ctx context.Context) (bool, error) { return false, ctx.Err() }

// IndexedUntil implements repository.SearchIndex.
func (s *Store) IndexedUntil(ctx context.Context) (time.Time, error) {
	var until time.Time
	err := s.Step(ctx, "read the state of the search index", func(now time.Time) error {
		until = s.indexedUntil(now)
		return nil
	})
	return until, err
}

func (s *Store) indexedUntil(now time.Time) time.Time {
	if !s.index.held {
		return time.Time{}
	}
	until := now.Add(-repository.IndexSettles)
	missing := memory.OldestFirst(s.Rows, func(m *entity.Message) bool { return !s.has(m.ID, s.index.version) })
	if len(missing) > 0 && missing[0].Message.CreatedAt.Before(until) {
		until = missing[0].Message.CreatedAt
	}
	return until
}

// IndexerStall implements repository.SearchIndex. This store has no transactions, so the indexer never waits.
func (s *Store) IndexerStall(ctx context.Context) (repository.IndexerStall, error) {
	return repository.IndexerStall{}, s.Step(ctx, "read the state of the search index", func(time.Time) error { return nil })
}
