package ingest

import (
	"errors"
	"sync"
)

// health is the last known state of each use of a dependency, such as storing records in the database. A use that
// never failed is healthy.
type health struct {
	mu   sync.Mutex
	errs map[string]error
}

// The uses of the dependencies. They are separate, so that a success of one use does not hide the failure of another
// use of the same dependency.
const (
	topicsHealth        = "topics"
	consumerGroupHealth = "group"
	fetchHealth         = "fetch"
	databaseHealth      = "database"
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
