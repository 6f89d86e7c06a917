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
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// hungTopics is a store that does not answer until the test releases it, even when the context ends.
type hungTopics struct {
	asked   atomic.Int32
	release chan struct{}
}

func (h *hungTopics) TopicTotals(context.Context, []string) ([]repository.TopicTotal, error) {
	h.asked.Add(1)
	<-h.release
	return []repository.TopicTotal{{
		Topic: "orders", Counts: map[entity.Status]int64{entity.Pending: 7}, OldestPending: time.Unix(1000, 5e8),
	}}, nil
}

// While the store hangs, scrapes are answered and only one query is pending. When the store answers again, the metrics
// are exported again.
func TestStateCollector_StoreThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &hungTopics{release: make(chan struct{})}
		c := newStateCollector(nil, anyTopic())
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

// For a topic without a PENDING message, the metric of the oldest PENDING message is missing: its zero value would be a
// time in 1970.
func TestStateCollector_TellsTheOldestPending(t *testing.T) {
	t.Parallel()
	store := &hungTopics{release: make(chan struct{})}
	close(store.release)
	c := newStateCollector(nil, anyTopic())
	c.store = withFinished{store}
	const want = `
		# HELP dlq_oldest_pending_timestamp_seconds When the oldest PENDING message of an original topic was stored; absent for topics without one.
		# TYPE dlq_oldest_pending_timestamp_seconds gauge
		dlq_oldest_pending_timestamp_seconds{topic="orders"} 1000.5
	`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want), "dlq_oldest_pending_timestamp_seconds"); err != nil {
		t.Error(err)
	}
}

// anyTopic returns TopicLabels that allow every topic.
func anyTopic() *telemetry.TopicLabels {
	labels := telemetry.NewTopicLabels()
	labels.SetAny()
	return labels
}

// withFinished is hungTopics with one more topic, which has no PENDING message.
type withFinished struct{ *hungTopics }

func (w withFinished) TopicTotals(ctx context.Context, names []string) ([]repository.TopicTotal, error) {
	topics, err := w.hungTopics.TopicTotals(ctx, names)
	return append(topics, repository.TopicTotal{Topic: "done", Counts: map[entity.Status]int64{entity.Resolved: 1}}), err
}

// The store returns one sum of the messages of all topics that are not labels of metrics. So the collector need not
// keep the names of these topics in memory.
func TestStateCollector_CountsTopicsThatAreNotNamedTogether(t *testing.T) {
	t.Parallel()
	labels := telemetry.NewTopicLabels()
	labels.SetTopics([]string{"orders"})
	store := fake.New(time.Now)
	for topic, n := range map[string]int{"invented.1": 3, "invented.2": 4, "orders": 7} {
		for i := range n {
			at := time.Unix(int64(40+n+i), 0)
			m := entity.NewMessage(topic, "x", at)
			m.CreatedAt = at
			store.Insert(m)
		}
	}
	c := newStateCollector(store, labels)
	const want = `
		# HELP dlq_messages Messages in the live table, by original topic. Topics that do not exist in the cluster are counted together as other.
		# TYPE dlq_messages gauge
		dlq_messages{status="PENDING",topic="orders"} 7
		dlq_messages{status="PENDING",topic="other"} 7
		# HELP dlq_oldest_pending_timestamp_seconds When the oldest PENDING message of an original topic was stored; absent for topics without one.
		# TYPE dlq_oldest_pending_timestamp_seconds gauge
		dlq_oldest_pending_timestamp_seconds{topic="orders"} 47
		dlq_oldest_pending_timestamp_seconds{topic="other"} 43
	`
	if err := testutil.CollectAndCompare(c, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
