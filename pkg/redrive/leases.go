package redrive

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// leases holds the leased batches of a process, each with the time until which no other process can take it over. A
// process that was suspended for longer must not continue: the new owner may have made the attempts.
type leases struct {
	mu    sync.Mutex
	until map[*lease]time.Time
}

func (s *leases) add(l *lease, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until[l] = until
}

func (s *leases) remove(l *lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, l)
}

func (s *leases) all() []*lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.until))
}

// renewed extends a lease, unless it was over when the store was asked.
func (s *leases) renewed(l *lease, asked, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if over, there := s.until[l]; there && asked.Before(over) {
		s.until[l] = until
	}
}

// holds reports whether a lease lasts at least until then.
func (s *leases) holds(l *lease, then time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return then.Before(s.until[l])
}
