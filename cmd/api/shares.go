package main

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/rest/wire"
	"github.com/dlq-manager/dlq-manager/pkg/sharegroup"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// shareGroups implements rest.ShareWatcher.
type shareGroups struct{ watcher *sharegroup.Watcher }

// ShareGroups returns the share groups even when the cluster has not reported everything about them. For example, Kafka
// may not let this program describe a group; then the topics of that group are not known. It returns false while no
// group is known and the watcher is not ready.
func (s shareGroups) ShareGroups() ([]entity.ShareGroup, bool) {
	groups := wire.Each(s.watcher.Snapshot().Groups(), func(g sharegroup.Group) entity.ShareGroup {
		return entity.ShareGroup{
			Name: g.Name, DeadLetterTopic: g.DeadLetterTopic, CopiesRecords: g.CopiesRecords,
			Topics: g.Topics, TopicsKnown: g.Offsets != nil, Problems: g.Problems,
		}
	})
	select {
	case <-s.watcher.Ready():
		return groups, true
	default:
		return groups, len(groups) > 0
	}
}

const (
	// maxShareGroupLabels is the maximum number of share groups that metrics name. Further groups share the label
	// "other".
	maxShareGroupLabels = 1000

	// notIngested is the value of the label state for dead letters that are not stored as messages yet.
	notIngested = "not_ingested"
)

// shareStore is the part of a store that sharesCollector uses.
type shareStore interface {
	CountPointers(ctx context.Context, removed map[string]time.Time) ([]repository.PointerCount, error)
	IngestPositions(ctx context.Context) ([]repository.IngestPosition, error)
}

// sharesCollector reports how many dead letters of share groups still lack their record, how much time is left until
// retention removes these records, and the problems because of which the broker would lose dead letters of a share
// group. Every replica reports the same values.
type sharesCollector struct {
	store    shareStore
	snapshot func() *sharegroup.Snapshot
	backlog  *backlog
	labels   *telemetry.TopicLabels
	masked   bool // whether the names of share groups are masked
	now      func() time.Time

	waiting, left, retention, problems *prometheus.Desc

	counts reading[[]repository.PointerCount]
	unread reading[map[string]unread]
}

func newSharesCollector(
	store shareStore, snapshot func() *sharegroup.Snapshot, cluster logs, labels *telemetry.TopicLabels, masked bool, log *zap.Logger,
) *sharesCollector {
	return &sharesCollector{
		store: store, snapshot: snapshot, backlog: &backlog{cluster: cluster}, labels: labels, masked: masked, now: time.Now,
		counts: reading[[]repository.PointerCount]{log: log, what: "share groups"},
		waiting: prometheus.NewDesc("dlq_pointers_waiting",
			"Dead letters of share groups whose record is not stored yet: by original topic those that wait for it (waiting) and those whose "+
				"record may not or cannot be read (refused), and by dead-letter topic those that are not messages yet (not_ingested).",
			[]string{"topic", "state"}, nil),
		left: prometheus.NewDesc("dlq_pointers_source_seconds_left",
			"Seconds until the retention of an original topic can remove a record that is waited for, counted from its death; "+
				"absent where none is waited for, and where retention has no limit or is not known.", []string{"topic"}, nil),
		retention: prometheus.NewDesc("dlq_pointers_source_retention_seconds",
			"The retention of the original topics of dlq_pointers_source_seconds_left.", []string{"topic"}, nil),
		problems: prometheus.NewDesc("dlq_share_group_problems",
			"1 for each reason why the broker would lose dead letters of a share group.", []string{"group", "code"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *sharesCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.waiting
	ch <- c.left
	ch <- c.retention
	ch <- c.problems
}

// Collect implements prometheus.Collector.
func (c *sharesCollector) Collect(ch chan<- prometheus.Metric) {
	s := c.snapshot()
	c.collectProblems(ch, s.Groups())
	counts, _ := c.counts.current(func(ctx context.Context) ([]repository.PointerCount, error) {
		return c.store.CountPointers(ctx, removedBefore(s, c.now()))
	})
	unread, _ := c.unread.current(func(ctx context.Context) (map[string]unread, error) {
		positions, err := c.store.IngestPositions(ctx)
		if err != nil {
			return nil, err
		}
		return c.backlog.read(ctx, deadLetterTopics(s), positions)
	})
	c.collectWaiting(ch, counts, unread)
	c.collectLeft(ch, s, counts, unread)
}

// removedBefore returns, for each original topic with a known and limited retention, the time before which the
// retention has removed all records.
func removedBefore(s *sharegroup.Snapshot, now time.Time) map[string]time.Time {
	removed := map[string]time.Time{}
	for _, g := range s.Groups() {
		for _, topic := range g.Topics {
			if retention := s.Retention(topic); retention > 0 {
				removed[topic] = now.Add(-retention)
			}
		}
	}
	return removed
}

// deadLetterTopics returns the valid names of dead-letter topics of share groups, at most MaxTopicLabels of them.
func deadLetterTopics(s *sharegroup.Snapshot) []string {
	names := slices.DeleteFunc(s.ReadTopics(), func(name string) bool { return !entity.ValidTopic(name) })
	return names[:min(len(names), telemetry.MaxTopicLabels)]
}

func (c *sharesCollector) collectProblems(ch chan<- prometheus.Metric, groups []sharegroup.Group) {
	type series struct{ group, code string }
	found, named := map[series]bool{}, 0
	for _, g := range groups {
		if len(g.Problems) == 0 {
			continue
		}
		label := telemetry.OtherTopics
		if !c.masked && named < maxShareGroupLabels {
			label = g.Name
			named++
		}
		for _, p := range g.Problems {
			found[series{label, p.Code}] = true
		}
	}
	for s := range found {
		ch <- prometheus.MustNewConstMetric(c.problems, prometheus.GaugeValue, 1, s.group, s.code)
	}
}

func (c *sharesCollector) collectWaiting(ch chan<- prometheus.Metric, counts []repository.PointerCount, backlog map[string]unread) {
	type series struct{ topic, state string }
	waiting := map[series]int64{}
	for _, n := range counts {
		waiting[series{c.labels.Label(n.Topic), string(n.State)}] += n.Count
	}
	for topic, n := range backlog {
		waiting[series{c.labels.Label(topic), notIngested}] += n.records
	}
	for s, n := range waiting {
		ch <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, float64(n), s.topic, s.state)
	}
}

// collectLeft reports, for each original topic, how much time is left until retention removes the records to which
// pointers point. It also considers dead letters that are not stored as messages yet. The original topics of these dead
// letters are not known, so each topic of the share groups that write to the dead-letter topic counts as a possible
// original topic.
func (c *sharesCollector) collectLeft(ch chan<- prometheus.Metric, s *sharegroup.Snapshot, counts []repository.PointerCount, backlog map[string]unread) {
	type deadline struct{ left, retention time.Duration }
	first := map[string]deadline{}
	now := c.now()
	wait := func(topic string, death time.Time, overdue bool) {
		retention := s.Retention(topic)
		if retention == 0 || death.IsZero() {
			return
		}
		label, left := c.labels.Label(topic), death.Add(retention).Sub(now)
		if known, found := first[label]; (!found || left < known.left) && (overdue || left > 0) {
			first[label] = deadline{left, retention}
		}
	}
	for _, n := range counts { // a refused message counts only until retention may have removed its record
		wait(n.Topic, n.OldestDeath, n.State == entity.CompletionWaiting)
	}
	for _, g := range s.Groups() {
		if n := backlog[g.DeadLetterTopic]; n.records > 0 {
			for _, topic := range g.Topics {
				wait(topic, n.oldest, true)
			}
		}
	}
	for topic, d := range first {
		ch <- prometheus.MustNewConstMetric(c.left, prometheus.GaugeValue, d.left.Seconds(), topic)
		ch <- prometheus.MustNewConstMetric(c.retention, prometheus.GaugeValue, d.retention.Seconds(), topic)
	}
}
