package ingest

import (
	"context"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"
)

const commitInterval = time.Second

// commitFunc commits offsets of the consumer group: the next offset to read, by topic and partition.
type commitFunc func(map[string]map[int]int64) error

// committer commits the positions in the store as offsets of the consumer group, for tools that show the lag. Ingest
// itself never reads these offsets.
type committer struct {
	commit  commitFunc
	metrics *metrics
	log     *zap.Logger

	mu      sync.Mutex
	offsets map[string]map[int]int64 // offsets to commit, by topic and partition
}

func newCommitter(commit commitFunc, m *metrics, log *zap.Logger) *committer {
	return &committer{commit: commit, metrics: m, log: log}
}

// passed reports to the committer that all offsets of p below next are stored. The offset of a partition that belongs
// to another member is not committed, because that member may have committed a later one.
func (c *committer) passed(p *partition, next int64) {
	if p.guest != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.offsets == nil {
		c.offsets = make(map[string]map[int]int64)
	}
	if c.offsets[p.Topic] == nil {
		c.offsets[p.Topic] = make(map[int]int64)
	}
	c.offsets[p.Topic][int(p.Partition)] = next
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

// flush commits the offsets that are not committed yet. Offsets that Kafka did not accept are committed by a later
// call. If another member reads the partition by then, that member commits the same offsets when it starts.
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

// keep adds offsets that Kafka did not accept to the offsets of the next commit, except for partitions that already
// have newer offsets there.
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
