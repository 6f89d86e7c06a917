package shop

import (
	"sync"
	"time"
)

// unreliableProvider is the payment provider with the outage.
const unreliableProvider = "nordpay"

// newProducts limits how many new products are remembered; the catalogue counts a product that is no longer remembered
// as known.
const newProducts = 1000

// world holds the consumers' dependencies: a payment provider with an outage and a catalogue that
// lags. It is safe for concurrent use.
type world struct {
	outage time.Duration
	lag    time.Duration
	now    func() time.Time

	mu      sync.Mutex
	backAt  time.Time                  // when the provider answers again
	knownAt *recent[string, time.Time] // when the catalogue knows a new product
}

func newWorld(cfg Config, now func() time.Time) *world {
	return &world{outage: cfg.Outage, lag: cfg.CatalogueLag, now: now, knownAt: newRecent[string, time.Time](newProducts)}
}

// open starts the outage.
func (w *world) open() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backAt = w.now().Add(w.outage)
}

// answers reports whether a payment provider answers.
func (w *world) answers(provider string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return provider != unreliableProvider || !w.now().Before(w.backAt)
}

// lists reports whether the catalogue contains a product. The lag of a new product starts with the first call for that
// product.
func (w *world) lists(product string) bool {
	if !isNew(product) {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	at, asked := w.knownAt.get(product)
	if !asked {
		at = w.now().Add(w.lag)
		w.knownAt.put(product, at)
	}
	return !w.now().Before(at)
}

// recover ends the outage and the lag of every product requested so far.
func (w *world) recover() {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	w.backAt = now
	for product, at := range w.knownAt.values {
		if at.After(now) {
			w.knownAt.put(product, now)
		}
	}
}
