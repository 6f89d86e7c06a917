package broker

import (
	"context"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
)

// Topics describes the named topics, or without names every topic that the user may see, as one broker knows them
// now. It never creates a topic. A named topic that does not exist is in the answer, with Err set.
func (c *Cluster) Topics(ctx context.Context, names ...string) ([]Topic, error) {
	return topics(ctx, c.pool, names...)
}

func topics(ctx context.Context, pool *conn.Pool, names ...string) ([]Topic, error) {
	described, err := conn.Ask(ctx, pool, conn.AnyBroker, conn.RequestTimeout, protocol.Metadata(names))
	if err != nil {
		return nil, fmt.Errorf("list topics: %w", err)
	}
	return described, nil
}

// Ping returns nil when a broker answers a request for one topic, which is cheap in a large cluster.
func (c *Cluster) Ping(ctx context.Context) error {
	_, err := c.Topics(ctx, "__consumer_offsets")
	return err
}

// GroupByLeader groups parts by the leaders in topics, as Fetch requires; each list keeps the order of parts.
// Partitions that are not in topics, or have no leader, are in the list under the key -1.
func GroupByLeader(topics []Topic, parts []TopicPartition) map[int32][]TopicPartition {
	byName := make(map[string]Topic, len(topics))
	for _, t := range topics {
		byName[t.Name] = t
	}
	groups := map[int32][]TopicPartition{}
	for _, tp := range parts {
		leader, err := byName[tp.Topic].LeaderOf(tp)
		if err != nil {
			leader = -1
		}
		groups[leader] = append(groups[leader], tp)
	}
	return groups
}
