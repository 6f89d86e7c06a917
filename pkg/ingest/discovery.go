package ingest

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// topicSet contains the topics of a membership in the consumer group, each with its id and its number of partitions.
// When two sets are equal, no new membership is needed.
type topicSet map[string]topicShape

type topicShape struct {
	id         string
	partitions int
}

// deadLetterTopics returns the topics that match the patterns. It leaves out internal topics, and topics that the
// broker could not describe in this answer.
func deadLetterTopics(all []broker.Topic, patterns deadletter.Patterns) topicSet {
	set := topicSet{}
	for _, t := range all {
		if t.Internal || t.Err != nil || len(t.Partitions) == 0 || !patterns.Match(t.Name) {
			continue
		}
		set[t.Name] = topicShape{id: t.ID, partitions: len(t.Partitions)}
	}
	return set
}

// names returns the first names in alphabetical order, at most as many as limit says, for the log.
func (s topicSet) names(limit int) []string {
	names := slices.Sorted(maps.Keys(s))
	return names[:min(limit, len(names))]
}

// discover reads the operators' rules from the store, and the topics from the cluster.
func (i *Ingester) discover(ctx context.Context) (topicSet, error) {
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
	if i.metrics.labels != nil {
		i.metrics.labels.SetTopics(names)
	}
	i.health.Set(topicsHealth, nil)
	return deadLetterTopics(all, i.topics), nil
}

// waitForTopics waits until there is a topic to read, or until ctx ends.
func (i *Ingester) waitForTopics(ctx context.Context) topicSet {
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
				i.log.Info("no dead-letter topic exists yet", zap.Stringer("patterns", i.topics))
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
func (i *Ingester) waitForChange(ctx context.Context, current topicSet) topicSet {
	ticker := time.NewTicker(i.cfg.DiscoveryInterval)
	defer ticker.Stop()
	var before topicSet
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
		if !maps.Equal(now, current) && (maps.Equal(now, before) || removed(current, now)) {
			return now
		}
		before = now
	}
}

// removed reports whether a topic in current does not exist now, or has another id because it was deleted and created
// again.
func removed(current, now topicSet) bool {
	for name, shape := range current {
		if is, ok := now[name]; !ok || is.id != shape.id {
			return true
		}
	}
	return false
}
