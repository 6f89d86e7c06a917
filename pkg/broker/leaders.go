package broker

import (
	"context"
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
)

// leaders caches partitions' leaders, for writes and single reads, for leadersTTL or until the method forget is called
// for their topic.
type leaders struct {
	pool   *conn.Pool
	mu     sync.Mutex
	topics map[string]topicLeaders
}

func newLeaders(pool *conn.Pool) *leaders {
	return &leaders{pool: pool, topics: map[string]topicLeaders{}}
}

type topicLeaders struct {
	asked      time.Time
	partitions map[int32]int32
}

// leadersTTL is how long a cached leader is used. The time may be long, because a wrong leader only costs a round trip:
// a broker that does not lead the partition refuses the request.
const leadersTTL = time.Minute

func (l *leaders) get(tp TopicPartition) (int32, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, ok := l.topics[tp.Topic]
	if !ok || time.Since(entry.asked) > leadersTTL {
		return 0, false
	}
	leader, ok := entry.partitions[tp.Partition]
	return leader, ok && leader >= 0
}

func (l *leaders) put(t Topic) {
	partitions := make(map[int32]int32, len(t.Partitions))
	for _, p := range t.Partitions {
		partitions[p.ID] = p.Leader
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics[t.Name] = topicLeaders{asked: time.Now(), partitions: partitions}
}

func (l *leaders) forget(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.topics, topic)
}

// of returns a partition's leader from the cache or from a broker. It returns the errors of Topics and of
// Topic.LeaderOf.
func (l *leaders) of(ctx context.Context, tp TopicPartition) (int32, error) {
	if leader, ok := l.get(tp); ok {
		return leader, nil
	}
	found, errs, err := l.query(ctx, []TopicPartition{tp})
	if err != nil {
		return 0, err
	}
	if err := errs[tp]; err != nil {
		return 0, err
	}
	return found[tp], nil
}

// query asks a broker for the leaders of parts, and returns the errors of the partitions without a leader.
func (l *leaders) query(ctx context.Context, parts []TopicPartition) (map[TopicPartition]int32, map[TopicPartition]error, error) {
	described, err := topics(ctx, l.pool, TopicNames(parts)...)
	if err != nil {
		return nil, nil, err
	}
	byName := make(map[string]Topic, len(described))
	for _, t := range described {
		byName[t.Name] = t
		if t.Err == nil {
			l.put(t)
		}
	}
	found := make(map[TopicPartition]int32, len(parts))
	errs := map[TopicPartition]error{}
	for _, tp := range parts {
		leader, err := byName[tp.Topic].LeaderOf(tp)
		if err != nil {
			errs[tp] = err
			continue
		}
		found[tp] = leader
	}
	return found, errs, nil
}

// TopicNames returns each topic of parts once, in the order of parts.
func TopicNames(parts []TopicPartition) []string {
	seen := make(map[string]bool, len(parts))
	names := make([]string, 0, len(parts))
	for _, tp := range parts {
		if !seen[tp.Topic] {
			seen[tp.Topic] = true
			names = append(names, tp.Topic)
		}
	}
	return names
}
