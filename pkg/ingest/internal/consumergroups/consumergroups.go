// Package consumergroups remembers which consumer groups of messages the store already contains.
package consumergroups

import (
	"sync"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// maxSaved is the maximum number of entries of a Cache. When it is full, some consumer groups are stored again.
const maxSaved = 10_000

// Cache has the consumer groups and topics that this process has stored. The zero value is empty. It is safe for
// concurrent use.
type Cache struct {
	mu    sync.Mutex
	saved map[repository.TopicGroup]bool
}

// Unknown returns the consumer groups of the messages, with their topics, that this process has not stored yet. It
// returns each once.
func (g *Cache) Unknown(messages []entity.Message) []repository.TopicGroup {
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

// Remember adds consumer groups that were stored.
func (g *Cache) Remember(saved []repository.TopicGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.saved == nil || len(g.saved)+len(saved) > maxSaved {
		g.saved = make(map[repository.TopicGroup]bool, len(saved))
	}
	for _, group := range saved {
		g.saved[group] = true
	}
}
