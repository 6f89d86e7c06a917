package ingest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// stallLimit is how long one iteration of a loop may take. It is much longer than a fetch that uses up every timeout.
const stallLimit = 2 * time.Minute

// watchdog records when each loop last completed an iteration. A loop that waits for the store, for memory or for
// work is not watched meanwhile: such waits may take any time, and a restart would not help.
type watchdog struct {
	mu      sync.Mutex
	started map[string]time.Time // by loop; without idle loops
}

// active records that loop has just started an iteration.
func (w *watchdog) active(loop string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started == nil {
		w.started = make(map[string]time.Time)
	}
	w.started[loop] = time.Now()
}

// idle records that loop waits for something outside its control, or has ended.
func (w *watchdog) idle(loop string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.started, loop)
}

// check reports the first loop, by name, whose iteration takes too long.
func (w *watchdog) check(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, loop := range slices.Sorted(maps.Keys(w.started)) {
		if took := now.Sub(w.started[loop]); took > stallLimit {
			return fmt.Errorf("the loop %q has made no progress for %s", loop, took.Truncate(time.Second))
		}
	}
	return nil
}

// discoveryLoop finds topics; every fetcher has a loop of its own.
const discoveryLoop = "discovery"

func fetchLoop(leader int32) string { return fmt.Sprintf("fetch from broker %d", leader) }
