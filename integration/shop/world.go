package shop

import (
	"sync"
	"time"
)

// unreliableProvider is the name of the payment provider that does not answer during the outage.
const unreliableProvider = "nordpay"

// newProducts limits for how many new products the shop remembers when they enter the catalogue. For a new product that
// is no longer remembered, the lag begins again.
const newProducts = 1000

// world holds what the consumers depend on: a payment provider that is down for some time, and a catalogue that gets
// new products late. It is safe for concurrent use.
type world struct {
	outage time.Duration
	lag    time.Duration
	now    func() time.Time

	mu      sync.Mutex
	backAt  time.Time                  // when the provider answers again
	knownAt *recent[string, time.Time] // when a new product enters the catalogue, by the product
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

// lists reports whether the catalogue contains a product. A new product enters the catalogue some time after the first
// call of lists for this product.
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
