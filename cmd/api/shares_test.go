package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/memory"
	"github.com/dlq-manager/dlq-manager/pkg/repository/repositorytest/fake"
	"github.com/dlq-manager/dlq-manager/pkg/sharegroup"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// shared is a fake of a cluster with share groups, and of the store that has the messages of these share groups.
type shared struct {
	groups    []broker.ShareGroup
	topics    map[string]map[string]string // the settings of each topic
	offsets   map[broker.TopicPartition]broker.ShareOffset
	starts    map[broker.TopicPartition]int64
	ends      map[broker.TopicPartition]int64
	times     map[int64]time.Time // timestamps of the records in the dead-letter topics, by offset
	reads     int
	pointers  []repository.PointerCount
	positions []repository.IngestPosition
}

func (s *shared) ShareGroups(context.Context) ([]broker.ShareGroup, error) { return s.groups, nil }
func (s *shared) Feature(context.Context, string) (int16, error)           { return 2, nil }

func (s *shared) ShareOffsets(context.Context, string) (map[broker.TopicPartition]broker.ShareOffset, error) {
	return s.offsets, nil
}

func (s *shared) TopicConfigs(context.Context, []string, ...string) (map[string]map[string]string, error) {
	return s.topics, nil
}

func (s *shared) BrokerConfigs(context.Context, ...string) ([]map[string]string, error) {
	return []map[string]string{{"errors.deadletterqueue.topic.name.prefix": "dlq."}}, nil
}

func (s *shared) Topics(_ context.Context, names ...string) (topics []broker.Topic, err error) {
	if len(names) == 0 {
		names = []string{"dlq.a"}
	}
	for _, name := range names {
		topics = append(topics, broker.Topic{Name: name, ID: "id", Partitions: []broker.Partition{{ID: 0}, {ID: 1}}})
	}
	return topics, nil
}

func (s *shared) StartOffsets(context.Context, []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	return s.starts, nil
}

func (s *shared) EndOffsets(context.Context, []broker.TopicPartition) (map[broker.TopicPartition]int64, error) {
	return s.ends, nil
}

func (s *shared) ReadAt(_ context.Context, _ broker.TopicPartition, offset int64) (broker.Record, error) {
	s.reads++
	return broker.Record{Time: s.times[offset]}, nil
}

func (s *shared) CountPointers(context.Context, map[string]time.Time) ([]repository.PointerCount, error) {
	return s.pointers, nil
}

func (s *shared) IngestPositions(context.Context) ([]repository.IngestPosition, error) {
	return s.positions, nil
}

// collector returns a sharesCollector for a cluster whose share groups are known already. It must be called in a
// synctest bubble.
func (s *shared) collector(t *testing.T) *sharesCollector {
	t.Helper()
	all, err := entity.ParseTopicPatterns("topics", "*")
	check.NoError(t, err)
	w := sharegroup.NewWatcher(s, all, zap.NewNop())
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	<-w.Ready()
	stop()
	<-done
	labels := telemetry.NewTopicLabels()
	labels.SetTopics([]string{"orders", "dlq.a"})
	return newSharesCollector(s, w.Snapshot, s, labels, false, zap.NewNop())
}

func at(topic string, partition int32) broker.TopicPartition {
	return broker.TopicPartition{Topic: topic, Partition: partition}
}

// wantMetrics compares the series of the named metrics with those in want, in the text format of a scrape.
func wantMetrics(t *testing.T, c *sharesCollector, want string, names ...string) {
	t.Helper()
	registry, w := prometheus.NewPedanticRegistry(), httptest.NewRecorder()
	registry.MustRegister(c)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if name, _, _ := strings.Cut(line, "{"); slices.Contains(names, name) {
			lines = append(lines, line)
		}
	}
	check.Equal(t, strings.Join(lines, ""), strings.TrimPrefix(want, "\n"), "metrics")
}

// The metric dlq_pointers_waiting counts the dead letters in the database whose record is waited for or is not read
// (refused) and, while the ingester is stopped, those that are only in the dead-letter topic. The metric of the time
// that is left is computed from the oldest dead letter; refused ones whose record is gone do not count.
func TestSharesCollector(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		s := &shared{
			groups: []broker.ShareGroup{{Name: "g", DeadLetterTopic: "dlq.a"}},
			topics: map[string]map[string]string{
				"dlq.a":  {"errors.deadletterqueue.group.enable": "true"},
				"orders": {"retention.ms": "3600000"}, "unlimited": {"retention.ms": "-1"},
			},
			offsets: map[broker.TopicPartition]broker.ShareOffset{at("orders", 0): {}},
			starts:  map[broker.TopicPartition]int64{at("dlq.a", 0): 0, at("dlq.a", 1): 5},
			ends:    map[broker.TopicPartition]int64{at("dlq.a", 0): 10, at("dlq.a", 1): 8},
			times:   map[int64]time.Time{8: now.Add(-20 * time.Minute), 5: now.Add(-50 * time.Minute)},
			pointers: []repository.PointerCount{
				{Topic: "orders", State: entity.CompletionRefused, Count: 3, OldestDeath: now.Add(-2 * time.Hour)},
				{Topic: "orders", State: entity.CompletionWaiting, Count: 2, OldestDeath: now.Add(-30 * time.Minute)},
				{Topic: "unlimited", State: entity.CompletionWaiting, Count: 1, OldestDeath: now.Add(-30 * time.Minute)},
			},
			// The position that is stored for partition 1 belongs to an earlier topic id, because the topic was deleted
			// and created again.
			positions: []repository.IngestPosition{
				{Topic: "dlq.a", TopicID: "id", Partition: 0, Next: 8}, {Topic: "dlq.a", TopicID: "earlier", Partition: 1, Next: 7},
			},
		}
		c := s.collector(t)
		c.now = func() time.Time { return now }
		const left, waiting = "dlq_pointers_source_seconds_left", "dlq_pointers_waiting"
		wantMetrics(t, c, `
dlq_pointers_waiting{state="not_ingested",topic="dlq.a"} 5
dlq_pointers_waiting{state="refused",topic="orders"} 3
dlq_pointers_waiting{state="waiting",topic="orders"} 2
dlq_pointers_waiting{state="waiting",topic="other"} 1
`, waiting)
		wantMetrics(t, c, `dlq_pointers_source_retention_seconds{topic="orders"} 3600
dlq_pointers_source_seconds_left{topic="orders"} 600
`, left, "dlq_pointers_source_retention_seconds")
		check.Equal(t, s.reads, 2, "records that were read")

		<-time.After(stateAge)
		s.positions[0].Next, s.positions[1] = 10, repository.IngestPosition{Topic: "dlq.a", TopicID: "id", Partition: 1, Next: 8}
		wantMetrics(t, c, `dlq_pointers_source_seconds_left{topic="orders"} 1800
`, left)
		<-time.After(stateAge)
		s.pointers = s.pointers[:1]
		wantMetrics(t, c, "", left) // retention has removed the record of this refused message
		delete(s.ends, at("dlq.a", 1))
		<-time.After(stateAge)
		wantMetrics(t, c, `dlq_pointers_waiting{state="refused",topic="orders"} 3
`, waiting) // topic "dlq.a" has no series because its number of records is unknown
	})
}

// Each problem of a share group is a series of its own. The share groups beyond the limit share the label
// group="other", with one series for each kind of problem. When the names of groups are masked, all share groups share
// that label.
func TestSharesCollector_Problems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &shared{
			groups: []broker.ShareGroup{{Name: "fine", DeadLetterTopic: "dlq.a"}, {Name: "g", DeadLetterTopic: "a"}},
			topics: map[string]map[string]string{"dlq.a": {"errors.deadletterqueue.group.enable": "true"}},
		}
		c := s.collector(t)
		wantMetrics(t, c, `
dlq_share_group_problems{code="topic_missing",group="g"} 1
dlq_share_group_problems{code="wrong_prefix",group="g"} 1
`, "dlq_share_group_problems")
		c.masked = true
		wantMetrics(t, c, `
dlq_share_group_problems{code="topic_missing",group="other"} 1
dlq_share_group_problems{code="wrong_prefix",group="other"} 1
`, "dlq_share_group_problems")
		for i := range 1100 {
			s.groups = append(s.groups, broker.ShareGroup{Name: fmt.Sprintf("group%04d", i), DeadLetterTopic: "a"})
		}
		if n := testutil.CollectAndCount(s.collector(t), "dlq_share_group_problems"); n != 2*1001 {
			t.Errorf("%d series, want two for each of 1,000 groups and for the rest", n)
		}
	})
}

// TestExpiredRefusedRecord: when retention has removed the record of one refused message, the metric shows the time
// that is left for the record of the next one.
func TestExpiredRefusedRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		store := fake.New(time.Now)
		for _, death := range []time.Time{now.Add(-2 * time.Hour), now.Add(-50 * time.Minute)} {
			m := entity.NewMessage("orders", "rejected", death)
			m.Source.Timestamp, m.Share = death, &entity.ShareRecord{State: entity.CompletionRefused}
			store.Rows[m.ID] = &memory.Row{Message: m}
		}
		s := &shared{
			groups:  []broker.ShareGroup{{Name: "g", DeadLetterTopic: "dlq.a"}},
			topics:  map[string]map[string]string{"dlq.a": {"errors.deadletterqueue.group.enable": "true"}, "orders": {"retention.ms": "3600000"}},
			offsets: map[broker.TopicPartition]broker.ShareOffset{at("orders", 0): {}},
		}
		s.pointers = check.Must(store.CountPointers(t.Context(), map[string]time.Time{"orders": now.Add(-time.Hour)}))(t)
		wantMetrics(t, s.collector(t), `
dlq_pointers_source_seconds_left{topic="orders"} 600
`, "dlq_pointers_source_seconds_left")
	})
}
