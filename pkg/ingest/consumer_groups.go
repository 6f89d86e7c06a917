package ingest

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

const (
	maxConsumerGroups = 10_000          // maximum number of cached entries; when the cache is full, some consumer groups are stored again
	saveTimeout       = 5 * time.Second // maximum time for storing consumer groups; after a failure the messages are stored nevertheless
)

// ConsumerGroupStore is the part of a store that stores which consumer groups read which topics.
type ConsumerGroupStore interface {
	SaveConsumerGroups(ctx context.Context, groups []repository.TopicGroup) error
}

// consumerGroups caches the consumer groups and topics that this process has stored. It is safe for concurrent use.
type consumerGroups struct {
	mu    sync.Mutex
	saved map[repository.TopicGroup]bool
}

// unknown returns the consumer groups of the messages, with their topics, that this process has not stored yet. It
// returns each once.
func (g *consumerGroups) unknown(messages []entity.Message) []repository.TopicGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []repository.TopicGroup
	var last repository.TopicGroup // saves look-ups, because most messages of a batch have the same consumer group as the message before
	seen := map[repository.TopicGroup]bool{}
	for n := range messages {
		group := repository.TopicGroup{Topic: messages[n].OriginalTopic, Group: messages[n].Failure.ConsumerGroup}
		if group == last || group.Topic == "" || group.Group == "" {
			continue
		}
		if last = group; !g.saved[group] && !seen[group] {
			seen[group] = true
			out = append(out, group)
		}
	}
	return out
}

func (g *consumerGroups) remember(saved []repository.TopicGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.saved == nil || len(g.saved)+len(saved) > maxConsumerGroups {
		g.saved = make(map[repository.TopicGroup]bool, len(saved))
	}
	for _, group := range saved {
		g.saved[group] = true
	}
}

// saveConsumerGroups stores the consumer groups of a batch before the batch itself. A consumer group that could not be
// stored is stored with the next batch whose messages name it.
func (i *Ingester) saveConsumerGroups(ctx context.Context, messages []entity.Message) {
	fresh := i.consumerGroups.unknown(messages)
	if len(fresh) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	_, err := once(bounded, i, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, i.stores.ConsumerGroups.SaveConsumerGroups(ctx, fresh)
	})
	switch {
	case err == nil:
		i.consumerGroups.remember(fresh)
	case ctx.Err() == nil:
		i.log.Warn("the store does not save consumer groups; the records are stored without",
			zap.Int("groups", len(fresh)), zap.Error(err), traces.InLog(ctx))
	}
}
