package ingest

import "sync"

// health is what the ingester last learnt of its dependencies by using them. A
// name that never failed is well.
type health struct {
	mu   sync.Mutex
	errs map[string]error
}

const (
	kafkaHealth    = "kafka"
	databaseHealth = "database"
)

func (h *health) set(name string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.errs == nil {
		h.errs = make(map[string]error)
	}
	h.errs[name] = err
}

func (h *health) get(name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.errs[name]
}
