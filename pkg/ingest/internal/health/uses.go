// Package health records the state of an ingester: which dependency works, and which loop hangs.
package health

import (
	"errors"
	"sync"
)

// Uses is the last known state of each use of a dependency, such as storing records in the database. A use that
// never failed is healthy.
type Uses struct {
	mu   sync.Mutex
	errs map[string]error
}

// Set records the last result of a use; nil: it worked.
func (h *Uses) Set(use string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.errs == nil {
		h.errs = make(map[string]error)
	}
	h.errs[use] = err
}

// Get returns the last errors of the uses, nil when all work.
func (h *Uses) Get(uses ...string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, use := range uses {
		errs = append(errs, h.errs[use])
	}
	return errors.Join(errs...)
}
