package main

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// hungCounts does not answer until it is released, whatever its context says.
type hungCounts struct {
	asked   atomic.Int32
	release chan struct{}
}

func (h *hungCounts) Counts(context.Context) ([]repository.Count, error) {
	h.asked.Add(1)
	<-h.release
	return []repository.Count{{OriginalTopic: "orders", Status: entity.Pending, Messages: 7}}, nil
}

// A scrape is answered although the store is not, one question stands at a time,
// and the numbers are back with the store.
func TestStateCollector_StoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &hungCounts{release: make(chan struct{})}
		c := newStateCollector(nil)
		c.store = store
		wantScrape := func(metrics int, took time.Duration) {
			t.Helper()
			began := time.Now()
			ch := make(chan prometheus.Metric, 10)
			c.Collect(ch)
			if len(ch) != metrics || time.Since(began) != took {
				t.Errorf("got %d metrics after %s, want %d after %s", len(ch), time.Since(began), metrics, took)
			}
		}
		wantScrape(0, stateTimeout)
		wantScrape(0, 0)
		<-time.After(stateAge)
		wantScrape(0, 0)
		if n := store.asked.Load(); n != 1 {
			t.Errorf("asked %d times, want once while there is no answer", n)
		}
		close(store.release)
		<-time.After(stateAge)
		wantScrape(1, 0)
		wantScrape(1, 0)
		if n := store.asked.Load(); n != 2 {
			t.Errorf("asked %d times, want once more", n)
		}
	})
}
