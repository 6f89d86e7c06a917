package main

import (
	"context"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// inspected is a fake cluster that answers whether a topic exists. For a topic that is not a key of the field exists,
// the answer is that the cluster does not know.
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

// Exists asks the cluster about a topic that is not in the list of topics, because the topic may be new. When the list
// is too old, Exists returns no entry for any topic.
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
