package ingest

import (
	"context"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

const commitInterval = time.Second

// commitFunc commits the next offsets of the consumer group, by topic and partition.
type commitFunc func(map[string]map[int]int64) error

// committer commits the store's positions for lag tools. Ingest never reads these offsets.
type committer struct {
	commit  commitFunc
	metrics *metrics
	log     *zap.Logger

	mu      sync.Mutex
	offsets map[string]map[int]int64 // stored but not committed yet
}

func newCommitter(commit commitFunc, m *metrics, log *zap.Logger) *committer {
	return &committer{commit: commit, metrics: m, log: log}
}

// passed records that every offset of tp below next is stored.
func (c *committer) passed(tp broker.TopicPartition, next int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offsets == nil {
		c.offsets = make(map[string]map[int]int64)
	}
	if c.offsets[tp.Topic] == nil {
		c.offsets[tp.Topic] = make(map[int]int64)
	}
	c.offsets[tp.Topic][int(tp.Partition)] = next
}

func (c *committer) run(ctx context.Context) error {
	ticker := time.NewTicker(commitInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			c.flush()
		}
	}
}

// flush commits the pending offsets, and keeps the offsets that Kafka did not accept for the next call. If the
// partition has moved to another member meanwhile, that member commits the same offsets when it starts.
func (c *committer) flush() {
	c.mu.Lock()
	offsets := c.offsets
	c.offsets = nil
	c.mu.Unlock()
	if len(offsets) == 0 {
		return
	}
	if err := c.commit(offsets); err != nil {
		c.metrics.commitFailures.Inc()
		c.log.Debug("kafka did not accept the group's offsets", zap.Error(err))
		c.keep(offsets)
	}
}

// keep restores offsets for the next commit, except where newer offsets exist.
func (c *committer) keep(offsets map[string]map[int]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, newer := range c.offsets {
		if offsets[topic] == nil {
			offsets[topic] = newer
		}
		maps.Copy(offsets[topic], newer)
	}
	c.offsets = offsets
}
