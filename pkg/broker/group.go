package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
)

// GroupConfig describes one membership in a consumer group.
type GroupConfig struct {
	ID string
	// Topics must exist, because the broker may create a topic that does not exist.
	Topics []string
	// SessionTimeout is how long a member that sends no heartbeat keeps its partitions; 0 means 20 s.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long a rebalance waits for members; 0 means 30 s.
	RebalanceTimeout time.Duration
	// ErrorLog receives kafka-go's error messages about the membership; nil drops them.
	ErrorLog func(message string)
}

// Group joins a consumer group with the classic protocol. The list of topics of a membership is fixed: to read other
// topics, close the group and join again. The returned group does not notice new partitions, because kafka-go's watcher
// for new partitions joins the group thousands of times a second when a topic is deleted. Partitions without a
// committed offset start at the first offset. The caller closes the group; closing the cluster does not.
func (c *Cluster) Group(cfg GroupConfig) (*kafka.ConsumerGroup, error) {
	if err := c.pool.Closed(); err != nil {
		return nil, err
	}
	session := cmp.Or(cfg.SessionTimeout, 20*time.Second)
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:             cfg.ID,
		Brokers:        c.pool.Brokers(),
		Topics:         cfg.Topics,
		Dialer:         c.pool.Dialer(),
		GroupBalancers: []kafka.GroupBalancer{spread{}, kafka.RoundRobinGroupBalancer{}},
		SessionTimeout: session,
		// Three heartbeats must fit into a session, because a short session could otherwise end between two heartbeats.
		HeartbeatInterval: min(3*time.Second, session/3),
		RebalanceTimeout:  cmp.Or(cfg.RebalanceTimeout, 30*time.Second),
		JoinGroupBackoff:  time.Second,
		Timeout:           5 * time.Second,
		StartOffset:       kafka.FirstOffset,
		ErrorLogger:       errorLogger(cfg.ErrorLog),
	})
	if err != nil {
		return nil, fmt.Errorf("join group %s: %w", cfg.ID, err)
	}
	return group, nil
}

// GroupStates returns the state of every group that the user may see, as its coordinator names it ("Stable", "Empty",
// ...): of consumer groups, and of groups of every other protocol. Each broker is asked once for the groups that it
// coordinates. When one broker does not answer, GroupStates returns no result, because the missing groups would look as
// if they did not exist.
func (c *Cluster) GroupStates(ctx context.Context) (map[string]string, error) {
	if err := c.pool.Closed(); err != nil {
		return nil, err
	}
	brokers, err := c.brokers(ctx)
	if err != nil {
		return nil, err
	}
	states := map[string]string{}
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for _, b := range brokers {
		all.Go(func() {
			part, err := conn.Ask(ctx, c.pool, int32(b.ID), conn.RequestTimeout, protocol.ListGroups())
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed = fmt.Errorf("list groups of broker %d: %w", b.ID, err)
			}
			for group, state := range part {
				states[group] = state
			}
		})
	}
	all.Wait()
	if failed != nil {
		return nil, failed
	}
	return states, nil
}

// CheckDescribe returns an error when the user may not describe a consumer group, and when no broker says whether the
// user may. The group need not exist. GroupStates does not show whether the permission is missing, because it leaves
// out groups that the user may not describe.
func (c *Cluster) CheckDescribe(ctx context.Context, group string) error {
	if err := c.pool.Closed(); err != nil {
		return err
	}
	_, err := c.coordinator(ctx, group)
	// In a new cluster no broker coordinates consumer groups until the first consumer group joins; this is no missing
	// permission.
	if err != nil && !errors.Is(err, kafka.GroupCoordinatorNotAvailable) {
		return fmt.Errorf("find the coordinator of group %s: %w", group, conn.NetworkError(err))
	}
	return nil
}

// brokers returns the brokers of the cluster that are running.
func (c *Cluster) brokers(ctx context.Context) ([]kafka.Broker, error) {
	known, err := c.pool.Client().Metadata(ctx, &kafka.MetadataRequest{Topics: []string{}})
	if err != nil {
		return nil, fmt.Errorf("list brokers: %w", conn.NetworkError(err))
	}
	return known.Brokers, nil
}

// coordinator returns the id of the broker that coordinates a group. It returns the error of kafka-go unchanged.
func (c *Cluster) coordinator(ctx context.Context, group string) (int32, error) {
	ctx, cancel := context.WithTimeout(ctx, conn.RequestTimeout)
	defer cancel()
	res, err := c.pool.Client().FindCoordinator(ctx, &kafka.FindCoordinatorRequest{Key: group, KeyType: kafka.CoordinatorKeyTypeConsumer})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return 0, err
	}
	return int32(res.Coordinator.NodeID), nil
}

func errorLogger(log func(string)) kafka.Logger {
	return kafka.LoggerFunc(func(format string, args ...any) {
		if log != nil {
			log(fmt.Sprintf(format, args...))
		}
	})
}

// spread assigns all partitions of all topics to the members in turn. Kafka-go's own balancers start with the same
// member for each topic, so one member would get every topic with a single partition, which dead-letter topics
// usually have.
type spread struct{}

// ProtocolName implements kafka.GroupBalancer.
func (spread) ProtocolName() string { return "dlq-spread" }

// UserData implements kafka.GroupBalancer.
func (spread) UserData() ([]byte, error) { return nil, nil }

// AssignGroups implements kafka.GroupBalancer: each partition goes to the member that reads its topic and has the
// fewest partitions so far.
func (spread) AssignGroups(members []kafka.GroupMember, partitions []kafka.Partition) kafka.GroupMemberAssignments {
	members, partitions = slices.Clone(members), slices.Clone(partitions)
	slices.SortFunc(members, func(a, b kafka.GroupMember) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(partitions, func(a, b kafka.Partition) int {
		return protocol.ComparePartitions(TopicPartition{Topic: a.Topic, Partition: int32(a.ID)}, TopicPartition{Topic: b.Topic, Partition: int32(b.ID)})
	})
	out := kafka.GroupMemberAssignments{}
	for _, m := range members {
		out[m.ID] = map[string][]int{}
	}
	held := make([]int, len(members))
	reads := make([]map[string]bool, len(members))
	for i, m := range members {
		reads[i] = make(map[string]bool, len(m.Topics))
		for _, topic := range m.Topics {
			reads[i][topic] = true
		}
	}
	for _, p := range partitions {
		best := -1
		for i := range members {
			if reads[i][p.Topic] && (best < 0 || held[i] < held[best]) {
				best = i
			}
		}
		if best < 0 {
			continue
		}
		held[best]++
		topics := out[members[best].ID]
		topics[p.Topic] = append(topics[p.Topic], p.ID)
	}
	return out
}
