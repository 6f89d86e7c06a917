package bulk

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// heldLeases holds the leased batches of a process, by their owner, each with the time until which no other process can take it over. A
// process that was suspended for longer must not continue: the new owner may have made the attempts.
type heldLeases struct {
	mu    sync.Mutex
	until map[uuid.UUID]time.Time
}

func (s *heldLeases) add(owner uuid.UUID, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until[owner] = until
}

func (s *heldLeases) remove(owner uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, owner)
}

func (s *heldLeases) owners() []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.until))
}

// renewed extends a lease, unless it was over when the store was asked.
func (s *heldLeases) renewed(owner uuid.UUID, asked, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if over, there := s.until[owner]; there && asked.Before(over) {
		s.until[owner] = until
	}
}

// holds reports whether a lease lasts at least until then.
func (s *heldLeases) holds(owner uuid.UUID, then time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return then.Before(s.until[owner])
}
