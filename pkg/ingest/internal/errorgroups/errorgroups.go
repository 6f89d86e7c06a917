// Package errorgroups assigns error groups to messages and knows which ones a store has.
package errorgroups

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Fingerprinter computes fingerprints: failures with the same cause get equal fingerprints. It is safe for concurrent
// use.
type Fingerprinter interface {
	Fingerprint(class, message, stack string) entity.Fingerprint
}

const (
	maxFingerprints = 10_000    // limits the cache; beyond it, some fingerprints are stored again
	admitAgain      = time.Hour // after this time they are stored again, because empty error groups may have been deleted
)

// cause is the input of a message's error group.
type cause struct{ topic, class, message, stack string }

// Key is an error group of messages of a dead-letter topic.
type Key struct {
	Topic string // dead-letter topic
	ID    uuid.UUID
}

// Grouping assigns error groups to messages, and computes one fingerprint for equal failures of a topic.
type Grouping struct {
	fingerprinter Fingerprinter // nil: no error groups
	known         map[cause]uuid.UUID
	// Found has the fingerprints of the error groups that Group returned.
	Found map[Key]entity.Fingerprint
}

// NewGrouping returns a Grouping; with nil it assigns no error groups.
func NewGrouping(fingerprinter Fingerprinter) *Grouping {
	return &Grouping{fingerprinter: fingerprinter, known: map[cause]uuid.UUID{}, Found: map[Key]entity.Fingerprint{}}
}

// Group returns the error group of a message; uuid.Nil without error groups.
func (g *Grouping) Group(m *entity.Message) uuid.UUID {
	if g.fingerprinter == nil {
		return uuid.Nil
	}
	failure := cause{m.Source.Topic, m.Failure.Class, m.ErrorMessage, m.Failure.StackTrace}
	id, ok := g.known[failure]
	if !ok {
		made := g.fingerprinter.Fingerprint(failure.class, failure.message, failure.stack)
		id = made.ID()
		g.known[failure], g.Found[Key{failure.topic, id}] = id, made
	}
	return id
}

// Cache has the error groups that the store has admitted from this process. The zero value is empty. It is safe for concurrent use.
type Cache struct {
	mu       sync.Mutex
	admitted map[uuid.UUID]time.Time // time of the admission, by id
}

// Unknown returns the error groups in found that the store has not admitted within admitAgain, ordered by topic and id.
func (c *Cache) Unknown(found map[Key]entity.Fingerprint) []repository.TopicFailure {
	c.mu.Lock()
	defer c.mu.Unlock()
	var fresh []Key
	for key := range found {
		if at, ok := c.admitted[key.ID]; !ok || time.Since(at) >= admitAgain {
			fresh = append(fresh, key)
		}
	}
	slices.SortFunc(fresh, func(a, b Key) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), bytes.Compare(a.ID[:], b.ID[:]))
	})
	failures := make([]repository.TopicFailure, len(fresh))
	for n, key := range fresh {
		failures[n] = repository.TopicFailure{DLQTopic: key.Topic, Fingerprint: found[key]}
	}
	return failures
}

// Remember notes that the store has admitted error groups.
func (c *Cache) Remember(ids []uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.admitted == nil || len(c.admitted)+len(ids) > maxFingerprints {
		c.admitted = make(map[uuid.UUID]time.Time, len(ids))
	}
	now := time.Now()
	for _, id := range ids {
		c.admitted[id] = now
	}
}
