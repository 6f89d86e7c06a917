package republisher

import (
	"context"
	"errors"
	"fmt"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// WithShareGroups says which groups are share groups. Share groups commit no offsets; see Committed.
func WithShareGroups(isShareGroup func(group string) bool) Option {
	return func(r *Republisher) { r.isShareGroup = isShareGroup }
}

// Committed returns the committed offsets of a consumer group in the partitions of topics. Each comes with the present
// id of its topic. It leaves out partitions in which the group has committed no offset, and topics that do not exist or
// cannot be read. If only some offsets can be read, it returns these without an error. An *entity.RefusedError means that
// the permission to describe the group is missing.
//
// A share group commits no offsets. For a share group, Committed returns the offset before which every record is final:
// the share group acknowledged the record, or gave it up and the broker wrote a dead letter. The broker does not say
// which of the two happened; only a dead letter shows that its record was given up.
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
	offsets, err := r.offsetsOf(ctx, consumerGroup, parts)
	if errors.Is(err, broker.ErrUnauthorized) && len(offsets) == 0 {
		return nil, &entity.RefusedError{Class: entity.Unauthorized, Reason: "Kafka does not let this program describe the consumer group (Group Authorization Failed)"}
	}
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

// Running reports whether a consumer group has members. A group that does not exist has none.
func (r *Republisher) Running(ctx context.Context, group string) (bool, error) {
	states, err := r.cluster.GroupStates(ctx)
	if err != nil {
		return false, fmt.Errorf("read the states of consumer groups: %w", err)
	}
	return running(states[group]), nil
}

// running reports whether a group in this state has members.
func running(state string) bool { return state != "" && state != "Empty" && state != "Dead" }

func (r *Republisher) offsetsOf(ctx context.Context, group string, parts []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	if r.isShareGroup == nil || !r.isShareGroup(group) {
		return r.cluster.CommittedOffsets(ctx, group, parts)
	}
	// requested before the lag: if the lag is 0, all records before these end offsets are final
	ends, err := r.cluster.EndOffsets(ctx, parts)
	if err != nil && len(ends) == 0 {
		return nil, err
	}
	state, err := r.cluster.ShareOffsets(ctx, group)
	if err != nil {
		return nil, err
	}
	final := make(map[broker.TopicPartition]int64, len(parts))
	for _, tp := range parts {
		at, known := state[tp]
		end, answered := ends[tp]
		switch {
		case !known:
		// the lag is newer than at.Start, which the broker stores some time after it has changed
		case answered && at.Lag == 0:
			final[tp] = end
		case at.Start >= 0:
			final[tp] = at.Start
		}
	}
	return final, nil
}

// Running returns false, because Kafka is not configured.
func (d *Disabled) Running(context.Context, string) (bool, error) { return false, nil }

// Committed returns no offsets, because Kafka is not configured.
func (d *Disabled) Committed(context.Context, string, []string) ([]repository.Committed, error) {
	return nil, nil
}
