package catalogue

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The worker takes a quarter of the time while the store is crowded, half of it when
// that does not end, and all of it once it is over.
func TestWorker_GivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(many(500)...)
		store.takes, store.crowded = time.Second, true
		w := start(t, store, Config{PayloadBytes: 100, Batch: 10, Interval: 500 * time.Millisecond})
		defer w.stop()
		wantIn := func(d time.Duration, documents int) {
			t.Helper()
			var before, after int
			store.set(func() { before = store.stored })
			<-time.After(d)
			store.set(func() { after = store.stored })
			if got := after - before; got < documents-20 || got > documents+20 {
				t.Errorf("got %d documents in %s, want %d", got, d, documents)
			}
		}
		wantIn(time.Minute, 150)
		store.set(func() { store.crowded = false })
		<-time.After(longestRest)
		wantIn(10*time.Second, 100)
		store.set(func() { store.waiting = nil })
		<-time.After(2 * patient) // with nothing to do
		store.set(func() { store.crowded, store.waiting = true, many(5000) })
		<-time.After(longestRest)
		wantIn(time.Minute, 150)
		<-time.After(patient)
		wantIn(time.Minute, 300)
	})
}

// Documents are merged by the quarter of a megabyte, and a few after a while.
func TestWorker_Merges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := many(2500)
		for i := range all {
			all[i].ErrorMessage = strings.Repeat("x", 200)
		}
		store := newStore(all...)
		w := start(t, store, Config{PayloadBytes: 100, Batch: 500, Interval: 500 * time.Millisecond})
		defer w.stop()
		<-time.After(10 * time.Second)
		want := []int{500, 2000} // the first at once, a quarter of a megabyte
		store.set(func() {
			if !slices.Equal(store.merges, want) {
				t.Errorf("got merges after %v documents, want %v", store.merges, want)
			}
		})
		<-time.After(mergeAfter)
		store.set(func() {
			if want := append(want, 2500); !slices.Equal(store.merges, want) {
				t.Errorf("got merges after %v documents, want %v", store.merges, want)
			}
		})
		<-time.After(time.Hour)
		store.set(func() {
			if len(store.merges) != 3 {
				t.Errorf("got %d merges, want none without documents", len(store.merges))
			}
		})
	})
}
