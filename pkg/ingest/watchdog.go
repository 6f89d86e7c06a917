package ingest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// stallLimit is how long one turn of a loop may take, well above a fetch with every timeout used up.
const stallLimit = 2 * time.Minute

// watchdog knows when each loop last turned. A loop that waits for the store, for room, or for work rests
// meanwhile: those may take any time, and a restart would mend none of them.
type watchdog struct {
	mu     sync.Mutex
	turned map[string]time.Time // by loop; those that rest are not there
}

// turn notes that loop is at work, and well up to now.
func (w *watchdog) turn(loop string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turned == nil {
		w.turned = make(map[string]time.Time)
	}
	w.turned[loop] = time.Now()
}

// rest notes that loop waits for what it does not decide, or has ended.
func (w *watchdog) rest(loop string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.turned, loop)
}

// check reports the first loop, by name, whose turn takes too long.
func (w *watchdog) check(now time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, loop := range slices.Sorted(maps.Keys(w.turned)) {
		if took := now.Sub(w.turned[loop]); took > stallLimit {
			return fmt.Errorf("the loop %q has not turned for %s", loop, took.Truncate(time.Second))
		}
	}
	return nil
}

// discoveryLoop finds topics; every fetcher has a loop of its own.
const discoveryLoop = "discovery"

func fetchLoop(leader int32) string { return fmt.Sprintf("fetch from broker %d", leader) }

// Alive reports why only a restart can help, for a liveness probe: a reading loop hangs although its timeouts
// should have ended it. An unreachable database or Kafka is no such reason.
func (i *Ingester) Alive() error { return i.watchdog.check(time.Now()) }
