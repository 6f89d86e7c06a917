// Package fake is a store in the memory of the process, for tests. It implements the whole storage contract except
// durability: its Core is the store of pkg/repository/memory, to which it adds the features that otherwise need a
// database.
package fake

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
)

var _ repository.Repository = (*Store)(nil)

type (
	core    = memory.Store
	row     = memory.Row
	redrive = memory.Redrive
	batch   = memory.Batch
)

// Store implements repository.Repository. It copies messages when it stores and returns them, so no caller shares their
// bytes with the store or with another caller.
type Store struct {
	*core // its lock also guards all fields below

	index         searchIndex
	answersFrom   *int64 // version of the documents in which searches look; nil when every document of the index's version counts
	documents     map[uuid.UUID]*document
	undecoded     map[uuid.UUID]undecoded
	byContent     map[slot]bool                        // attempts whose return was recognised by key and value, separately for confirmed and unconfirmed returns
	bounds        map[uuid.UUID]map[string]*topicBound // by redrive and target topic
	admitted      map[*batch]map[string]int            // by batch and target topic: messages that its owner may send
	nextBatch     map[uuid.UUID]time.Time              // when the rate of each redrive allows its next batch
	trail         []entity.AuditEntry
	groups        map[repository.TopicGroup]groupOrigin
	errorGroups   map[uuid.UUID]*errorGroup
	groupLimits   map[string]*groupLimit      // limits of each dead-letter topic, by its name
	arrivals      map[uuid.UUID]*groupArrival // arrival of each message, by its id
	activity      map[active]arrivals
	minutes       map[groupMinute]int64
	committed     map[partitionOfGroup]commit
	autoTopics    map[string]autoTopic
	autoSends     map[uuid.UUID]autoSend // by the message
	mapping       entity.Mapping
	redirects     map[string]entity.Redirect
	reported      reported
	notifications map[uuid.UUID]*notification
	sinks         map[string]time.Time // when the next notification may be sent to each sink
	archiveRuns   map[uuid.UUID]repository.ArchiveRun
	quarantine    map[uuid.UUID]entity.Quarantined
	views         map[uuid.UUID]entity.View

	redirectVersion int64
}

// New returns an empty store whose clock is the function now.
func New(now func() time.Time) *Store {
	s := &Store{
		core:          memory.New(now),
		documents:     map[uuid.UUID]*document{},
		byContent:     map[slot]bool{},
		bounds:        map[uuid.UUID]map[string]*topicBound{},
		admitted:      map[*batch]map[string]int{},
		nextBatch:     map[uuid.UUID]time.Time{},
		groups:        map[repository.TopicGroup]groupOrigin{},
		errorGroups:   map[uuid.UUID]*errorGroup{},
		groupLimits:   map[string]*groupLimit{},
		arrivals:      map[uuid.UUID]*groupArrival{},
		activity:      map[active]arrivals{},
		minutes:       map[groupMinute]int64{},
		committed:     map[partitionOfGroup]commit{},
		autoTopics:    map[string]autoTopic{},
		autoSends:     map[uuid.UUID]autoSend{},
		redirects:     map[string]entity.Redirect{},
		reported:      reported{groups: map[uuid.UUID]reportedGroup{}, spikes: map[string]time.Time{}},
		notifications: map[uuid.UUID]*notification{},
		sinks:         map[string]time.Time{},
		archiveRuns:   map[uuid.UUID]repository.ArchiveRun{},
		quarantine:    map[uuid.UUID]entity.Quarantined{},
		views:         map[uuid.UUID]entity.View{},
	}
	s.Archived = map[uuid.UUID]*row{}
	s.Hooks = memory.Hooks{Observe: s.observed, Arrived: s.arrived, Returns: s.findReturns, Changed: s.changed, Moved: s.moved}
	return s
}

// locked calls the function do as one step. It is for methods that the storage contract does not contain.
func (s *Store) locked(do func()) {
	_ = s.Step(context.Background(), "", func(time.Time) error {
		do()
		return nil
	})
}
