package main

import (
	"context"
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
)

const (
	// topicsInterval is the time between two requests for the cluster's topics.
	topicsInterval = 15 * time.Second

	// topicsFresh is the maximum age of the list of topics. Exists does not use an older list, because the broker has
	// not answered for two intervals.
	topicsFresh = 2*topicsInterval + 5*time.Second
)

// topics reports which topics exist in the cluster. It uses a list of topics that watch reads at intervals.
type topics struct {
	inspector rest.Inspector
	now       func() time.Time

	mu     sync.Mutex // guards the fields below
	names  map[string]bool
	readAt time.Time
}

func newTopics() *topics { return &topics{now: time.Now} }

// watch reads the topics of the cluster at intervals until ctx ends, and calls the function pass with their names.
func (t *topics) watch(ctx context.Context, cluster *broker.Cluster, pass func(names []string)) {
	ticker := time.NewTicker(topicsInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		if found, err := cluster.Topics(ctx); err == nil {
			names := make([]string, len(found))
			for i, topic := range found {
				names[i] = topic.Name
			}
			t.set(names)
			pass(names)
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (t *topics) set(names []string) {
	known := make(map[string]bool, len(names))
	for _, name := range names {
		known[name] = true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names, t.readAt = known, t.now()
}

// Exists implements rest.Topics. For a name that is not in the list, Exists asks the cluster, because the topic may be
// new. A name about which the cluster does not answer is left out of the result. While there is no list or an old one,
// the result is empty.
func (t *topics) Exists(ctx context.Context, names ...string) map[string]bool {
	exists := map[string]bool{}
	var absent []entity.ReplayQuestion
	t.mu.Lock()
	if t.readAt.IsZero() || t.now().Sub(t.readAt) > topicsFresh {
		names = nil
	}
	for _, name := range names {
		if t.names[name] {
			exists[name] = true
		} else {
			absent = append(absent, entity.ReplayQuestion{Topic: name})
		}
	}
	t.mu.Unlock()
	if len(absent) == 0 {
		return exists
	}
	for _, h := range t.inspector.Inspect(ctx, absent) {
		if h.Exists != nil {
			exists[h.Topic] = *h.Exists
		}
	}
	return exists
}
