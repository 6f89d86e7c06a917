package search

import (
	"testing"
	"testing/synctest"
	"time"
)

// The worker takes half of the time while there is more to do.
func TestWorker_GivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(many(5000)...)
		store.takes = time.Second
		w := start(t, store, Config{PayloadBytes: 100, Batch: 10, Interval: 500 * time.Millisecond})
		defer w.stop()
		<-time.After(time.Minute)
		store.set(func() {
			if store.stored < 280 || store.stored > 320 {
				t.Errorf("got %d documents in a minute, want 300 of 600", store.stored)
			}
		})
	})
}
