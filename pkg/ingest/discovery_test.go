package ingest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/topics"
)

func TestDeadLetterTopics(t *testing.T) {
	t.Parallel()
	patterns := check.Must(deadletter.ParsePatterns("*.dlq.v1", "^__.*$"))(t)
	one := []broker.Partition{{ID: 0, Leader: 1}}
	got := topics.Of([]broker.Topic{
		{Name: "a.dlq.v1", ID: "A", Partitions: one},
		{Name: "leaderless.dlq.v1", ID: "L", Partitions: []broker.Partition{{Leader: -1}, {ID: 1, Leader: -1}}},
		{Name: "orders.events.v1", ID: "O", Partitions: one},
		{Name: "a.dlq.v1.more", Partitions: one},
		{Name: "__consumer_offsets", Internal: true, Partitions: one},
		{Name: "secret.dlq.v1", Err: broker.ErrUnauthorized},
		{Name: "fresh.dlq.v1"},
	}, patterns)
	want := topics.Set{"a.dlq.v1": {ID: "A", Partitions: 1}, "leaderless.dlq.v1": {ID: "L", Partitions: 2}}
	check.Equal(t, got, want, "topics")
	found := want.Names(1)
	check.True(t, slices.Equal(found, []string{"a.dlq.v1"}), "names(1) = %v, want the first in order", found)
}

func TestWaitForChange(t *testing.T) {
	t.Parallel()
	type step func(c *fakeCluster)
	nothing := func(*fakeCluster) {}
	add := func(name string) step { return func(c *fakeCluster) { c.topic(name, name, 1) } }
	remove := func(name string) step { return func(c *fakeCluster) { c.set(func() { delete(c.topics, name) }) } }
	tests := map[string]struct {
		steps []step // each step changes the topics before one request for the list of topics; after the last step nothing changes
		looks int    // number of requests for the list of topics after which waitForChange must return; 0 when it must not return
	}{
		"NoChange":                   {nil, 0},
		"OtherTopicsDoNotMatter":     {[]step{add("orders.events.v1")}, 0},
		"ANewTopicIsSeenTwice":       {[]step{add("new.dlq.v1")}, 2},
		"ManyNewTopicsAreOneChange":  {[]step{add("1.dlq.v1"), add("2.dlq.v1"), add("3.dlq.v1")}, 4},
		"MorePartitionsAreSeenTwice": {[]step{func(c *fakeCluster) { c.topic("a.dlq.v1", "A", 5) }}, 2},
		"ADeletedTopicIsUrgent":      {[]step{nothing, remove("b.dlq.v1")}, 2},
		"ATopicMadeAgainIsUrgent":    {[]step{nothing, func(c *fakeCluster) { c.topic("b.dlq.v1", "B2", 1) }}, 2},
		"ATopicThatCameAndWent":      {[]step{add("new.dlq.v1"), remove("new.dlq.v1")}, 0},
		"AFailedLookIsNoLook": {[]step{
			add("new.dlq.v1"), func(c *fakeCluster) { c.set(func() { c.down = errDown }) },
			func(c *fakeCluster) { c.set(func() { c.down = nil }) },
		}, 3},
	}
	for name, test := range tests {
		t.Run(name, bubble(func(w *world) {
			w.cluster.topic("a.dlq.v1", "A", 2)
			w.cluster.topic("b.dlq.v1", "B", 1)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			current := check.Must(w.i.discover(ctx))(w.t)
			done := make(chan topics.Set, 1)
			go func() { done <- w.i.waitForChange(ctx, current) }()
			synctest.Wait()
			looks := 0
			for n := range 10 {
				if n < len(test.steps) {
					test.steps[n](w.cluster)
				}
				pass(w.i.cfg.DiscoveryInterval)
				if len(done) > 0 {
					looks = n + 1
					break
				}
			}
			check.True(w.t, looks == test.looks, "returned after %d looks, want %d", looks, test.looks)
			cancel()
			got := <-done
			want := current
			if test.looks > 0 {
				want, _ = w.i.discover(context.Background())
			}
			check.Equal(w.t, got, want, "topics")
		}))
	}
}

// TestDiscover_HiddenTopics: a topic that the user may not describe any more is logged once and counted at each look; a
// deleted topic is neither.
func TestDiscover_HiddenTopics(t *testing.T) {
	bubble(func(w *world) {
		w.cluster.topic("a.dlq.v1", "A", 1)
		w.cluster.topic("b.dlq.v1", "B", 1)
		discover := func() int { return len(check.Must(w.i.discover(context.Background()))(w.t)) }
		check.Equal(w.t, discover(), 2, "topics")
		refused := func(reason error) { w.cluster.set(func() { w.cluster.topics["a.dlq.v1"].err = reason }) }
		warnings := func() int {
			return w.logged.FilterMessage("dead-letter topics may not be described and are not read").Len()
		}
		for n := range 2 {
			refused(broker.ErrUnauthorized)
			w.cluster.set(func() { delete(w.cluster.topics, "b.dlq.v1") })
			for range 2 {
				check.Equal(w.t, discover(), 0, "topics")
			}
			check.Equal(w.t, warnings(), n+1, "warnings")
			w.wantMetric("errors", w.i.metrics.partitionErrors.WithLabelValues("a.dlq.v1"), float64(2*n+2))
			refused(nil)
			check.Equal(w.t, discover(), 1, "topics")
		}
		w.wantMetric("errors of the deleted topic", w.i.metrics.partitionErrors.WithLabelValues("b.dlq.v1"), 0)
	})(t)
}

func TestWaitForTopics(t *testing.T) {
	bubble(func(w *world) {
		w.cluster.set(func() { w.cluster.down = errDown })
		done := make(chan topics.Set, 1)
		go func() { done <- w.i.waitForTopics(context.Background()) }()
		pass(time.Minute)
		check.Is(w.t, w.i.CheckKafka(), errDown, "CheckKafka")
		w.cluster.set(func() { w.cluster.down = nil })
		w.cluster.topic("orders.events.v1", "O", 1)
		pass(10 * time.Second)
		check.Equal(w.t, w.i.CheckKafka(), nil, "CheckKafka")
		check.Equal(w.t, len(done), 0, "answers while there is no topic")
		check.True(w.t, w.i.exists("orders.events.v1") && !w.i.exists("payments"), "exists does not say what the cluster has")
		w.cluster.topic("a.dlq.v1", "A", 1)
		pass(5 * time.Second)
		got := <-done
		check.True(w.t, maps.Equal(got, topics.Set{"a.dlq.v1": {ID: "A", Partitions: 1}}), "topics = %v, want the one that came", got)
	})(t)
}

func TestRunWaitsOutAGroupThatCannotBeJoined(t *testing.T) {
	bubble(func(w *world) {
		w.cluster.topic("a.dlq.v1", "A", 1)
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- w.i.Run(ctx) }()
		pass(time.Minute)
		err := w.i.CheckKafka()
		check.True(w.t, err != nil, "CheckKafka = nil, want why the group cannot be joined")
		cancel()
		check.Equal(w.t, <-done, nil, "Run")
	})(t)
}
