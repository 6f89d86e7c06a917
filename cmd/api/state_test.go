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
	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// hungTopics does not answer until it is released, whatever its context says.
type hungTopics struct {
	asked   atomic.Int32
	release chan struct{}
}

func (h *hungTopics) TopicSummaries(context.Context, repository.TopicQuery) ([]repository.TopicSummary, error) {
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
		c := newStateCollector(nil, func(topic string) string { return topic })
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
	c := newStateCollector(nil, func(topic string) string { return topic })
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

func (w withFinished) TopicSummaries(ctx context.Context, q repository.TopicQuery) ([]repository.TopicSummary, error) {
	topics, err := w.hungTopics.TopicSummaries(ctx, q)
	return append(topics, repository.TopicSummary{Topic: "done", Counts: map[entity.Status]int64{entity.Resolved: 1}}), err
}

// severalTopics has three topics, two of which records invented.
type severalTopics struct{}

func (severalTopics) TopicSummaries(context.Context, repository.TopicQuery) ([]repository.TopicSummary, error) {
	summary := func(topic string, pending int64, oldest int64) repository.TopicSummary {
		return repository.TopicSummary{Topic: topic, Counts: map[entity.Status]int64{entity.Pending: pending}, OldestPending: time.Unix(oldest, 0)}
	}
	return []repository.TopicSummary{summary("invented.1", 3, 50), summary("invented.2", 4, 40), summary("orders", 7, 60)}, nil
}

func TestStateCollector_CountsTopicsThatAreNotNamedTogether(t *testing.T) {
	t.Parallel()
	labels := telemetry.NewTopicLabels()
	labels.SetTopics([]string{"orders"})
	c := newStateCollector(nil, labels.Label)
	c.store = severalTopics{}
	const want = `
		# HELP dlq_messages Messages in the live table, by original topic. Topics that do not exist in the cluster are counted together, as other.
		# TYPE dlq_messages gauge
		dlq_messages{status="PENDING",topic="orders"} 7
		dlq_messages{status="PENDING",topic="other"} 7
		# HELP dlq_oldest_pending_timestamp_seconds When the oldest PENDING message of an original topic was stored; nothing for topics without one.
		# TYPE dlq_oldest_pending_timestamp_seconds gauge
		dlq_oldest_pending_timestamp_seconds{topic="orders"} 60
		dlq_oldest_pending_timestamp_seconds{topic="other"} 40
	`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
