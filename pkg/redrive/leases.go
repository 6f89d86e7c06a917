package redrive

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// leases are the batches in a process's hands, each with the time until which
// nobody else can have taken it over. A process that was stopped for longer than
// that must not go on with a batch where it stood: whoever has it now may have
// made the attempts already.
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

// renewed prolongs a lease, unless it was over when the store was asked.
func (s *leases) renewed(l *lease, asked, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if over, there := s.until[l]; there && asked.Before(over) {
		s.until[l] = until
	}
}

// holds reports whether a lease lasts until then at least.
func (s *leases) holds(l *lease, then time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return then.Before(s.until[l])
}
