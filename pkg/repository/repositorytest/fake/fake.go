// Package fake keeps dead letters in the memory of the process. It keeps the whole
// storage contract except that nothing survives the process.
package fake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

var _ repository.Repository = (*Store)(nil)

// Store is a repository.Repository. What goes in and what comes out is copied:
// no caller shares bytes with the store or with another caller.
type Store struct {
	*memory.Keys

	now func() time.Time

	mu           sync.Mutex // guards all below; every method is one critical section
	rows         map[uuid.UUID]*row
	archive      map[uuid.UUID]*row
	catalogue    catalogue
	answersFrom  *int64 // version of documents; nil: the catalogue's, whichever
	topicIDs     map[string]int32
	topicNames   map[int32]string
	incarnations map[repository.Topic]int32
	positions    map[repository.Partition]int64
	marks        map[repository.Partition]repository.Mark
	redrives     map[uuid.UUID]*redrive
	trail        []entity.AuditEntry
	groups       map[repository.TopicGroup]groupOrigin
	errorGroups  map[uuid.UUID]*errorGroup
	groupLimits  map[string]*groupLimit      // by dead-letter topic
	arrivals     map[uuid.UUID]*groupArrival // by message
	activity     map[active]arrivals
	committed    map[partitionOfGroup]commit
	mapping      entity.Mapping
	told         told
	notices      map[uuid.UUID]*notice
	sinks        map[string]time.Time // when something may be sent to it again
	archiveRuns  map[uuid.UUID]repository.ArchiveRun
	quarantine   map[uuid.UUID]entity.Quarantined
}

// row is a message and what a store knows beside it.
type row struct {
	message     entity.Message
	attempts    []entity.Attempt
	number      int // attempts ever started, also over a requeue
	rescues     int // attempts given back in a row
	hash        int64
	returns     map[uuid.UUID]comeback // what came back, by attempt
	unconfirmed map[uuid.UUID]bool     // attempts of which an unconfirmed return is known by content
	document    *document              // what the catalogue has of it; nil: nothing
	edits       map[uuid.UUID]edit     // by attempt, those that had one
}

// New returns an empty store whose clock is now.
func New(now func() time.Time) *Store {
	return &Store{
		Keys:         memory.NewKeys(now),
		now:          now,
		rows:         map[uuid.UUID]*row{},
		archive:      map[uuid.UUID]*row{},
		topicIDs:     map[string]int32{},
		topicNames:   map[int32]string{},
		incarnations: map[repository.Topic]int32{},
		positions:    map[repository.Partition]int64{},
		marks:        map[repository.Partition]repository.Mark{},
		redrives:     map[uuid.UUID]*redrive{},
		groups:       map[repository.TopicGroup]groupOrigin{},
		errorGroups:  map[uuid.UUID]*errorGroup{},
		groupLimits:  map[string]*groupLimit{},
		arrivals:     map[uuid.UUID]*groupArrival{},
		activity:     map[active]arrivals{},
		committed:    map[partitionOfGroup]commit{},
		told:         told{groups: map[uuid.UUID]toldGroup{}, spikes: map[string]time.Time{}},
		notices:      map[uuid.UUID]*notice{},
		sinks:        map[string]time.Time{},
		archiveRuns:  map[uuid.UUID]repository.ArchiveRun{},
		quarantine:   map[uuid.UUID]entity.Quarantined{},
	}
}

// Ping always answers nil while ctx lives.
func (s *Store) Ping(ctx context.Context) error {
	return s.step(ctx, "ping", func(time.Time) error { return nil })
}

// step runs one atomic step at one moment of the store's clock. A caller who is
// gone gets nothing done, as with a database.
func (s *Store) step(ctx context.Context, where string, do func(now time.Time) error) error {
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
