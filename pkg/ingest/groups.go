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
	groupsKept  = 10_000          // limits the cache; beyond it, some are stored again
	noteTimeout = 5 * time.Second // limits the delay of ingest; messages do not depend on the groups
)

// groups caches the consumer groups and topics that this process has stored. It is safe for concurrent use.
type groups struct {
	mu    sync.Mutex
	noted map[repository.TopicGroup]bool
}

// unknown returns the consumer groups of messages that were not stored yet, each once.
func (g *groups) unknown(messages []entity.Message) []repository.TopicGroup {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []repository.TopicGroup
	var last repository.TopicGroup // most messages of a batch have the same
	seen := map[repository.TopicGroup]bool{}
	for n := range messages {
		group := repository.TopicGroup{Topic: messages[n].OriginalTopic, Group: messages[n].Failure.ConsumerGroup}
		if group == last || group.Topic == "" || group.Group == "" {
			continue
		}
		if last = group; !g.noted[group] && !seen[group] {
			seen[group] = true
			out = append(out, group)
		}
	}
	return out
}

func (g *groups) remember(noted []repository.TopicGroup) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.noted == nil || len(g.noted)+len(noted) > groupsKept {
		g.noted = make(map[repository.TopicGroup]bool, len(noted))
	}
	for _, group := range noted {
		g.noted[group] = true
	}
}

// noteGroups stores the consumer groups of a batch before the batch; after a failure, the next batch tries again.
func (i *Ingester) noteGroups(ctx context.Context, messages []entity.Message) {
	fresh := i.groups.unknown(messages)
	if len(fresh) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	_, err := once(bounded, i, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, i.store.NoteGroups(ctx, fresh)
	})
	switch {
	case err == nil:
		i.groups.remember(fresh)
	case ctx.Err() == nil:
		i.log.Warn("the store does not save consumer groups; the records are stored without",
			zap.Int("groups", len(fresh)), zap.Error(err), traces.InLog(ctx))
	}
}
