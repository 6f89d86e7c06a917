package health

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// StallLimit is the maximum time for one iteration of a loop. A fetch in which every timeout is used up takes much less
// time.
const StallLimit = 2 * time.Minute

// Watchdog records when each loop began its present iteration. While a loop waits for the store, for memory or for
// work, it is not watched, because such a wait may take any time and a restart would not help.
type Watchdog struct {
	mu      sync.Mutex
	started map[string]time.Time // start of the present iteration, by the loop's name; idle loops have no entry
}

// Active records that the loop has just begun an iteration.
func (w *Watchdog) Active(loop string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started == nil {
		w.started = make(map[string]time.Time)
	}
	w.started[loop] = time.Now()
}

// Idle records that the loop waits for something outside its control, or has ended.
func (w *Watchdog) Idle(loop string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.started, loop)
}

// Check returns an error when the present iteration of a loop takes longer than StallLimit. The error names the first
// such loop in alphabetical order.
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
