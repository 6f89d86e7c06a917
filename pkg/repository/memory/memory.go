// Package memory is a store in the memory of the process, for development and tests. An API without a database uses it.
// It implements only repository.Core. All data is lost when the process ends.
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

// Store implements repository.Core. It copies all input and output, so no caller shares bytes with the store or with
// another caller. The exported fields, and the methods that repository.Core does not contain, are for package fake,
// which adds the features to this store for tests.
type Store struct {
	*Keys
	*messages
	redrives
}

// messages implements the methods of Store for messages and their attempts.
type messages struct {
	steps        // runs every method as one step; its lock guards all fields below, and the redrives
	Hooks        Hooks
	Rows         map[uuid.UUID]*Row
	Archived     map[uuid.UUID]*Row // nil when the store has no archive
	Incarnations map[repository.Topic]int32
	Positions    map[repository.Partition]int64
	topicIDs     map[string]int32
	topicNames   map[int32]string
	marks        map[repository.Partition]repository.Mark
	operations   []operation
	recent       map[uuid.UUID]uuid.UUID // by digest: the message that counts the repeats of a record
}

// Hooks are functions that the store calls while it holds its lock.
type Hooks struct {
	Observe func(*Row, entity.Message) entity.Message // called for each message that Get or List reads; returns the message that the reader gets; see fake.Store
	Arrived func(...*Row)
	Returns func([]*entity.Message, repository.Batch, time.Time) []repository.Arrival
	Changed func(now time.Time, action entity.Action, before entity.Message, r *Row, cause entity.AuditInfo)
	Moved   func(now time.Time, action entity.Action, from entity.RedriveState, r *Redrive, cause entity.AuditInfo)
}

// Row is a message with the data that the store keeps about it.
type Row struct {
	Message  entity.Message
	Attempts []entity.Attempt
	Number   int                            // number of all attempts on the message that were started, including attempts before a requeue
	Rescues  int                            // how many rescues in a row came last; attempts given back do not count
	Edits    map[uuid.UUID]repository.Claim // claims of the attempts whose record had an edit, by the id of the attempt
	Returned map[uuid.UUID]uuid.UUID        // attempts with a confirmed return, by the id of the attempt, each with the redrive that made it
}

// New returns an empty store whose clock is the function now.
func New(now func() time.Time) *Store {
	s := &messages{
		steps:        steps{now: now},
		Rows:         map[uuid.UUID]*Row{},
		Incarnations: map[repository.Topic]int32{},
		Positions:    map[repository.Partition]int64{},
		topicIDs:     map[string]int32{},
		topicNames:   map[int32]string{},
		marks:        map[repository.Partition]repository.Mark{},
		recent:       map[uuid.UUID]uuid.UUID{},
	}
	s.Hooks = Hooks{
		Observe: func(_ *Row, m entity.Message) entity.Message { return m },
		Arrived: func(...*Row) {},
		Returns: s.returns,
		Changed: func(time.Time, entity.Action, entity.Message, *Row, entity.AuditInfo) {},
		Moved:   func(time.Time, entity.Action, entity.RedriveState, *Redrive, entity.AuditInfo) {},
	}
	return &Store{Keys: NewKeys(now), messages: s, redrives: redrives{messages: s, Redrives: map[uuid.UUID]*Redrive{}}}
}

// Ping returns an error only when ctx has ended.
func (s *Store) Ping(ctx context.Context) error {
	return s.Step(ctx, "ping", func(time.Time) error { return nil })
}

// steps runs functions one at a time.
type steps struct {
	now func() time.Time
	mu  sync.Mutex
}

// Step calls do under the store's lock, with one time of the clock. When ctx has ended, it does not call do and returns
// an error, as a database would.
func (s *steps) Step(ctx context.Context, where string, do func(now time.Time) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := ctx.Err()
	if err == nil {
		err = do(entity.TruncateTime(s.now()))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	return nil
}

// row returns the row of a message, or a *entity.NotFoundError.
func (s *messages) row(id uuid.UUID) (*Row, error) {
	r, ok := s.Rows[id]
	if !ok {
		return nil, &entity.NotFoundError{ID: id}
	}
	return r, nil
}
