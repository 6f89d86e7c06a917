package broker

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/describeconfigs"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
)

// ShareGroup is a share group whose configuration names a dead-letter topic (KIP-1191).
type ShareGroup struct {
	Name            string
	DeadLetterTopic string // need not be the name of an existing topic, because the broker does not check it
	CopiesRecords   bool   // the share group's dead letters contain the key and the value of the failed record
}

// ShareOffset is how far a share group has come in a partition.
type ShareOffset = protocol.ShareOffset

// The settings of a share group that name its dead-letter topic and say whether its dead letters contain the record.
const (
	groupDeadLetterTopic = "errors.deadletterqueue.topic.name"
	groupCopiesRecords   = "errors.deadletterqueue.copy.record.enable"
)

// ShareGroups returns the share groups whose configuration names a dead-letter topic, in the order of their names. It
// needs the permission to describe the configurations of the cluster and of the groups. With brokers before Kafka 4.4,
// ShareGroups returns none.
func (c *Cluster) ShareGroups(ctx context.Context) ([]ShareGroup, error) {
	names, err := conn.Ask(ctx, c.pool, conn.AnyBroker, conn.RequestTimeout, protocol.ConfiguredGroups())
	if err != nil {
		return nil, fmt.Errorf("list the groups with a configuration: %w", err)
	}
	configs, err := c.describe(ctx, conn.AnyBroker, protocol.GroupResource, names, groupDeadLetterTopic, groupCopiesRecords)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of groups: %w", err)
	}
	var groups []ShareGroup
	slices.Sort(names)
	for _, name := range names {
		if topic := configs[name][groupDeadLetterTopic]; topic != "" {
			groups = append(groups, ShareGroup{Name: name, DeadLetterTopic: topic, CopiesRecords: configs[name][groupCopiesRecords] == "true"})
		}
	}
	return groups, nil
}

// ShareOffsets returns how far a share group has come in every partition in which it has state; none for a group that
// does not exist.
func (c *Cluster) ShareOffsets(ctx context.Context, group string) (map[TopicPartition]ShareOffset, error) {
	if err := c.pool.Closed(); err != nil {
		return nil, err
	}
	coordinator, err := c.coordinator(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("find the coordinator of a group: %w", conn.NetworkError(err))
	}
	offsets, err := conn.Ask(ctx, c.pool, coordinator, conn.RequestTimeout, protocol.ShareOffsets(group))
	if err != nil {
		return nil, fmt.Errorf("read the offsets of a share group: %w", err)
	}
	return offsets, nil
}

// TopicConfigs returns the values of the named settings for every topic that exists and whose configuration the user
// may describe.
func (c *Cluster) TopicConfigs(ctx context.Context, topics []string, settings ...string) (map[string]map[string]string, error) {
	configs, err := c.describe(ctx, conn.AnyBroker, int8(kafka.ResourceTypeTopic), topics, settings...)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of topics: %w", err)
	}
	return configs, nil
}

// BrokerConfigs returns the values of the named settings of every broker, which may differ.
func (c *Cluster) BrokerConfigs(ctx context.Context, settings ...string) ([]map[string]string, error) {
	if err := c.pool.Closed(); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, conn.RequestTimeout)
	defer cancel()
	brokers, err := c.brokers(bounded)
	if err != nil {
		return nil, err
	}
	var all []map[string]string
	for _, b := range brokers {
		name := strconv.Itoa(b.ID)
		configs, err := c.describe(ctx, int32(b.ID), int8(kafka.ResourceTypeBroker), []string{name}, settings...)
		if err != nil {
			return nil, fmt.Errorf("read the configuration of broker %s: %w", name, err)
		}
		all = append(all, configs[name])
	}
	return all, nil
}

// Feature returns the finalized level of a feature of the cluster; 0 where it has none.
func (c *Cluster) Feature(ctx context.Context, name string) (int16, error) {
	levels, err := conn.Ask(ctx, c.pool, conn.AnyBroker, conn.RequestTimeout, protocol.Features())
	if err != nil {
		return 0, fmt.Errorf("read the features of the cluster: %w", err)
	}
	return levels[name], nil
}

// describeAtOnce is the maximum number of resources whose configurations one request asks for.
const describeAtOnce = 500

// describe returns the values of settings by resource. Resources that do not exist, or that the user may not describe,
// are missing.
func (c *Cluster) describe(
	ctx context.Context, broker int32, kind int8, names []string, settings ...string,
) (map[string]map[string]string, error) {
	configs := make(map[string]map[string]string, len(names))
	for some := range slices.Chunk(names, describeAtOnce) {
		req := &describeconfigs.Request{}
		for _, name := range some {
			req.Resources = append(req.Resources, describeconfigs.RequestResource{ResourceType: kind, ResourceName: name, ConfigNames: settings})
		}
		res, err := conn.Ask(ctx, c.pool, broker, conn.RequestTimeout, protocol.Message[*describeconfigs.Response](req))
		if err != nil {
			return nil, err
		}
		for _, r := range res.Resources {
			if r.ErrorCode != 0 {
				continue
			}
			values := make(map[string]string, len(r.ConfigEntries))
			for _, e := range r.ConfigEntries {
				values[e.ConfigName] = e.ConfigValue
			}
			configs[r.ResourceName] = values
		}
	}
	return configs, nil
}
