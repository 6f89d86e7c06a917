// Package errorgroups assigns messages to error groups and remembers which error groups the store already contains.
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

// Fingerprinter computes fingerprints: failures with the same cause have equal fingerprints. It is safe for concurrent
// use.
type Fingerprinter interface {
	Fingerprint(class, message, stack string) entity.Fingerprint
}

const (
	maxFingerprints = 10_000    // maximum number of error groups in the Cache; when it is full, some error groups are stored again
	admitAgain      = time.Hour // time after which an error group is stored again, because the store may have deleted it when it was empty
)

// cause has the parts of a message that determine its error group.
type cause struct{ topic, class, message, stack string }

// Key identifies an error group together with the dead-letter topic of its messages.
type Key struct {
	Topic string // dead-letter topic
	ID    uuid.UUID
}

// Grouping assigns messages to error groups. It computes the fingerprint only once for equal failures of a topic.
type Grouping struct {
	fingerprinter Fingerprinter // nil when messages get no error groups
	known         map[cause]uuid.UUID
	// Found contains the fingerprints of all error groups that Group has returned.
	Found map[Key]entity.Fingerprint
}

// NewGrouping returns a Grouping. When the fingerprinter is nil, messages get no error groups.
func NewGrouping(fingerprinter Fingerprinter) *Grouping {
	return &Grouping{fingerprinter: fingerprinter, known: map[cause]uuid.UUID{}, Found: map[Key]entity.Fingerprint{}}
}

// Group returns the id of a message's error group; uuid.Nil when the message gets none.
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

// Cache remembers which error groups of this process the store has admitted, that is, created or found. The zero value
// is empty. It is safe for concurrent use.
type Cache struct {
	mu       sync.Mutex
	admitted map[uuid.UUID]time.Time // time of the admission, by id
}

// Unknown returns those of the found error groups that the store has not admitted within the time admitAgain, ordered
// by topic and id.
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

// Remember records that the store has just admitted the error groups with these ids.
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
