package health

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// StallLimit is how long one iteration of a loop may take. It is much longer than a fetch that uses up every timeout.
const StallLimit = 2 * time.Minute

// Watchdog records when each loop last completed an iteration. A loop that waits for the store, for memory or for
// work is not watched meanwhile: such waits may take any time, and a restart would not help.
type Watchdog struct {
	mu      sync.Mutex
	started map[string]time.Time // start of the present iteration, by loop; idle loops are left out
}

// Active records that loop has just started an iteration.
func (w *Watchdog) Active(loop string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started == nil {
		w.started = make(map[string]time.Time)
	}
	w.started[loop] = time.Now()
}

// Idle records that loop waits for something outside its control, or has ended.
func (w *Watchdog) Idle(loop string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.started, loop)
}

// Check reports the first loop, by name, whose iteration takes too long.
func (w *Watchdog) Check(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, loop := range slices.Sorted(maps.Keys(w.started)) {
		if took := now.Sub(w.started[loop]); took > StallLimit {
			return fmt.Errorf("the loop %q has made no progress for %s", loop, took.Truncate(time.Second))
		}
	}
	return nil
}
