package ingest

import (
	"context"
	"maps"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/topics"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// discover reads the operators' rules from the store, and the topics from the cluster.
func (i *Ingester) discover(ctx context.Context) (topics.Set, error) {
	i.watchdog.Idle(discoveryLoop)
	i.refreshRules(ctx)
	i.watchdog.Active(discoveryLoop)
	all, err := i.cluster.Topics(ctx)
	i.watchdog.Active(discoveryLoop)
	if err != nil {
		return nil, err
	}
	known, names := make(map[string]bool, len(all)), make([]string, len(all))
	for n, t := range all {
		known[t.Name], names[n] = true, t.Name
	}
	i.known.Store(&known)
	set := topics.Of(all, i.topics)
	hidden, fresh, reason := i.described.Hidden(ctx, i.cluster, set)
	if len(fresh) > 0 {
		i.log.Warn("dead-letter topics may not be described and are not read", zap.Strings("topics", fresh), zap.Error(reason))
	}
	if i.metrics.labels != nil {
		i.metrics.labels.SetTopics(append(names, hidden...))
	}
	for _, name := range hidden {
		i.metrics.of(i.metrics.partitionErrors, name).Inc()
	}
	i.health.Set(topicsHealth, nil)
	return set, nil
}

// waitForTopics waits until there is a topic to read, or until ctx ends.
func (i *Ingester) waitForTopics(ctx context.Context) topics.Set {
	for logged := false; ctx.Err() == nil; {
		set, err := i.discover(ctx)
		switch {
		case err != nil:
			i.kafkaFailed(ctx, topicsHealth, "list topics", err)
		case len(set) > 0:
			return set
		default:
			i.health.Set(databaseHealth, nil) // this ingester has no topics to read, so it does not depend on the database
			if !logged {
				i.log.Info("no dead-letter topic exists yet, or none may be described", zap.Stringer("patterns", i.topics))
				logged = true
			}
		}
		wait.Sleep(ctx, i.cfg.DiscoveryInterval)
	}
	return nil
}

// waitForChange waits until the topics differ from current, and returns the new set; when ctx ends it returns current.
// Two lists of topics in a row must show the same difference, so that a deployment that creates twenty topics causes
// one rebalance and not twenty. When one list shows that a topic was deleted or created again, waitForChange returns at
// once: a member that still names the deleted topic could create it when it joins again.
func (i *Ingester) waitForChange(ctx context.Context, current topics.Set) topics.Set {
	ticker := time.NewTicker(i.cfg.DiscoveryInterval)
	defer ticker.Stop()
	var before topics.Set
	for {
		select {
		case <-ctx.Done():
			return current
		case <-ticker.C:
		}
		now, err := i.discover(ctx)
		if err != nil {
			i.kafkaFailed(ctx, topicsHealth, "list topics", err)
			continue
		}
		if !maps.Equal(now, current) && (maps.Equal(now, before) || current.Lost(now)) {
			return now
		}
		before = now
	}
}
