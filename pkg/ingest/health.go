package ingest

import (
	"errors"
	"sync"
)

// health is what the ingester last learnt of its dependencies by using them. A
// use that never failed is well.
type health struct {
	mu   sync.Mutex
	errs map[string]error
}

// The uses that are told apart, so that one going well does not hide another
// that does not.
const (
	topicsHealth   = "topics"
	groupHealth    = "group"
	fetchHealth    = "fetch"
	databaseHealth = "database"
)

func (h *health) set(use string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.errs == nil {
		h.errs = make(map[string]error)
	}
	h.errs[use] = err
}

func (h *health) get(uses ...string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, use := range uses {
		errs = append(errs, h.errs[use])
	}
	return errors.Join(errs...)
}
