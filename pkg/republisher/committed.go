package republisher

import (
	"context"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Committed returns a consumer group's committed offsets for the partitions of topics, with each topic's present id.
// Partitions without a commit, and topics that do not exist, are left out.
func (r *Republisher) Committed(ctx context.Context, consumerGroup string, topics []string) ([]repository.Committed, error) {
	found, err := r.cluster.Topics(ctx, topics...)
	if err != nil {
		return nil, fmt.Errorf("look for topics: %w", err)
	}
	ids := make(map[string]string, len(found))
	var parts []broker.TopicPartition
	for _, t := range found {
		if t.Err != nil {
			continue
		}
		ids[t.Name] = t.ID
		for _, p := range t.Partitions {
			parts = append(parts, broker.TopicPartition{Topic: t.Name, Partition: p.ID})
		}
	}
	offsets, err := r.cluster.CommittedOffsets(ctx, consumerGroup, parts)
	if err != nil && len(offsets) == 0 {
		return nil, err
	}
	committed := make([]repository.Committed, 0, len(offsets))
	for tp, offset := range offsets {
		committed = append(committed, repository.Committed{
			TopicGroup: repository.TopicGroup{Topic: tp.Topic, Group: consumerGroup},
			TopicID:    ids[tp.Topic], Partition: tp.Partition, Offset: offset,
		})
	}
	return committed, nil
}

// Committed returns no offsets, because there is no Kafka.
func (d *Disabled) Committed(context.Context, string, []string) ([]repository.Committed, error) {
	return nil, nil
}
