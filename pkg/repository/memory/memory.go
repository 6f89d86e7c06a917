// Package memory keeps dead letters in the memory of the process, for development and
// tests: when no database is configured, the API serves with it what repository.Core
// promises. Nothing survives the process.
package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

var _ repository.Core = (*Store)(nil)

// Store is a repository.Core. What goes in and what comes out is copied: no caller
// shares bytes with the store or with another caller.
type Store struct {
	*Keys

	steps        // guards all below; every method is one of them
	rows         map[uuid.UUID]*row
	topicIDs     map[string]int32
	topicNames   map[int32]string
	incarnations map[repository.Topic]int32
	positions    map[repository.Partition]int64
	marks        map[repository.Partition]repository.Mark
	redrives     map[uuid.UUID]*redrive
	operations   []operation
}

// row is a message and what a store knows of it besides.
type row struct {
	message  entity.Message
	attempts []entity.Attempt
	number   int                        // attempts ever started, also over a requeue
	rescues  int                        // attempts given back in a row
	edits    map[uuid.UUID]*entity.Edit // by attempt, those that had one
	returned map[uuid.UUID]uuid.UUID    // redrives, by those of their attempts that came back
}

// New returns an empty store whose clock is now.
func New(now func() time.Time) *Store {
	return &Store{
		Keys:         NewKeys(now),
		steps:        steps{now: now},
		rows:         map[uuid.UUID]*row{},
		topicIDs:     map[string]int32{},
		topicNames:   map[int32]string{},
		incarnations: map[repository.Topic]int32{},
		positions:    map[repository.Partition]int64{},
		marks:        map[repository.Partition]repository.Mark{},
		redrives:     map[uuid.UUID]*redrive{},
	}
}

// Ping always answers nil while ctx lives.
func (s *Store) Ping(ctx context.Context) error {
	return s.step(ctx, "ping", func(time.Time) error { return nil })
}

// steps runs critical sections, one at a time.
type steps struct {
	now func() time.Time
	mu  sync.Mutex
}

// step runs one atomic step at one moment of the clock. When ctx has ended it
// does nothing, as a database would.
func (s *steps) step(ctx context.Context, where string, do func(now time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := ctx.Err()
	if err == nil {
		err = do(entity.Moment(s.now()))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

// row returns the row of id, or the error that it does not exist.
func (s *Store) row(id uuid.UUID) (*row, error) {
	r, ok := s.rows[id]
	if !ok {
		return nil, &entity.NotFoundError{ID: id}
	}
	return r, nil
}
