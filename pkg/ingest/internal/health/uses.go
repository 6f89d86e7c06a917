// Package health records the state of an ingester: which dependency works, and which loop hangs.
package health

import (
	"errors"
	"sync"
)

// Uses records the last result of each use of a dependency, such as storing records in the database. A use without a
// recorded result counts as successful.
type Uses struct {
	mu   sync.Mutex
	errs map[string]error
}

// Set records the last result of a use; a nil error means success.
func (h *Uses) Set(use string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.errs == nil {
		h.errs = make(map[string]error)
	}
	h.errs[use] = err
}

// Get returns the last errors of the given uses; nil when all of them succeeded.
func (h *Uses) Get(uses ...string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, use := range uses {
		errs = append(errs, h.errs[use])
	}
	return errors.Join(errs...)
}
