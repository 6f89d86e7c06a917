package main

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// hungTopics does not answer until it is released, whatever its context says.
type hungTopics struct {
	asked   atomic.Int32
	release chan struct{}
}

func (h *hungTopics) TopicSummaries(context.Context, *entity.TopicPatterns) ([]repository.TopicSummary, error) {
	h.asked.Add(1)
	<-h.release
	return []repository.TopicSummary{{
		Topic: "orders", Counts: map[entity.Status]int64{entity.Pending: 7}, OldestPending: time.Unix(1000, 5e8),
	}}, nil
}

// A scrape is answered although the store is not, one question stands at a time,
// and the numbers are back with the store.
func TestStateCollector_StoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &hungTopics{release: make(chan struct{})}
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
		wantScrape(2, 0)
		wantScrape(2, 0)
		if n := store.asked.Load(); n != 2 {
			t.Errorf("asked %d times, want once more", n)
		}
	})
}

// A topic without a PENDING message has no oldest one, rather than one of 1970.
func TestStateCollector_TellsTheOldestPending(t *testing.T) {
	t.Parallel()
	store := &hungTopics{release: make(chan struct{})}
	close(store.release)
	c := newStateCollector(nil)
	c.store = withFinished{store}
	const want = `
		# HELP dlq_oldest_pending_timestamp_seconds When the oldest PENDING message of an original topic was stored; nothing for topics without one.
		# TYPE dlq_oldest_pending_timestamp_seconds gauge
		dlq_oldest_pending_timestamp_seconds{topic="orders"} 1000.5
	`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "dlq_oldest_pending_timestamp_seconds"); err != nil {
		t.Error(err)
	}
}

// withFinished adds a topic of which nothing waits.
type withFinished struct{ *hungTopics }

func (w withFinished) TopicSummaries(ctx context.Context, visible *entity.TopicPatterns) ([]repository.TopicSummary, error) {
	topics, err := w.hungTopics.TopicSummaries(ctx, visible)
	return append(topics, repository.TopicSummary{Topic: "done", Counts: map[entity.Status]int64{entity.Resolved: 1}}), err
}
