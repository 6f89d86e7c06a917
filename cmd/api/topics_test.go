package main

import (
	"context"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// inspected answers questions about single topics. For a topic that the map exists does not contain, the answer is that
// it is not known.
type inspected struct {
	exists map[string]bool
	asked  int
}

func (i *inspected) Inspect(_ context.Context, questions []entity.ReplayQuestion) []entity.ReplayHealth {
	health := make([]entity.ReplayHealth, len(questions))
	for n, q := range questions {
		i.asked++
		health[n].Topic = q.Topic
		if exists, known := i.exists[q.Topic]; known {
			health[n].Exists = &exists
		}
	}
	return health
}

func (*inspected) IngestLag(context.Context, []repository.IngestPosition) map[string]int64 {
	return nil
}

// Exists asks the cluster about a topic that is not in the list, because the topic may be new; without a recent list,
// Exists returns nothing about any topic.
func TestTopicsExist(t *testing.T) {
	t.Parallel()
	now, cluster := time.Now(), &inspected{exists: map[string]bool{"gone": false, "new": true}}
	known := &topics{inspector: cluster, now: func() time.Time { return now }}
	ask := func() map[string]bool { return known.Exists(t.Context(), "orders", "gone", "new", "silent") }
	check.Len(t, ask(), 0, "topics known before the first list")
	known.set([]string{"orders"})
	check.Same(t, ask(), map[string]bool{"orders": true, "gone": false, "new": true}, "topics")
	check.Equal(t, cluster.asked, 3, "topics asked for")
	now = now.Add(topicsFresh + time.Second)
	check.Len(t, ask(), 0, "topics known by an old list")
}
