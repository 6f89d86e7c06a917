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
	groupsKept  = 10_000          // bounds what is remembered; beyond it, some are noted again
	noteTimeout = 5 * time.Second // bounds the wait of ingest; messages do not need the groups' offsets
)

// groups are the consumer groups and topics that this process has noted. It is safe for concurrent use.
type groups struct {
	mu    sync.Mutex
	noted map[repository.TopicGroup]bool
}

// unknown returns the groups of messages that were not noted yet, each once.
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

// noteGroups records the consumer groups of a batch before it is stored; a failure is left to the next batch.
func (i *Ingester) noteGroups(ctx context.Context, messages []entity.Message) {
	fresh := i.groups.unknown(messages)
	if len(fresh) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	_, err := once(bounded, i, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, i.store.SaveConsumerGroups(ctx, fresh)
	})
	switch {
	case err == nil:
		i.groups.remember(fresh)
	case ctx.Err() == nil:
		i.log.Warn("the store does not note consumer groups; goes on without",
			zap.Int("groups", len(fresh)), zap.Error(err), traces.InLog(ctx))
	}
}
