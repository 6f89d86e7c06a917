package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// stateCollector reports the number of messages by topic and status, and the creation time of the oldest PENDING
// message of each topic. Every replica reports the same values, so they must be aggregated with max and not with sum.
type stateCollector struct {
	store interface {
		TopicTotals(ctx context.Context, names []string) ([]repository.TopicTotal, error)
	}
	labels           *telemetry.TopicLabels // which topics metrics name
	messages, oldest *prometheus.Desc
	topics           reading[[]repository.TopicTotal]
}

func newStateCollector(store repository.Topics, labels *telemetry.TopicLabels) *stateCollector {
	return &stateCollector{
		store: store, labels: labels,
		messages: prometheus.NewDesc("dlq_messages",
			"Messages in the live table, by original topic. Topics that do not exist in the cluster are counted together as other.", []string{"topic", "status"}, nil),
		oldest: prometheus.NewDesc("dlq_oldest_pending_timestamp_seconds",
			"When the oldest PENDING message of an original topic was stored; absent for topics without one.", []string{"topic"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.messages
	ch <- c.oldest
}

// Collect implements prometheus.Collector. When the store did not answer the last query, it exports no values, because
// old values would be wrong.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	topics, _ := c.topics.current(func(ctx context.Context) ([]repository.TopicTotal, error) {
		return c.store.TopicTotals(ctx, c.labels.Topics())
	})
	type series struct{ topic, status string }
	counts, oldest := map[series]int64{}, map[string]time.Time{}
	for _, t := range topics {
		topic := telemetry.OtherTopics
		if !t.Others {
			topic = c.labels.Label(t.Topic)
		}
		for status, messages := range t.Counts {
			counts[series{topic, string(status)}] += messages
		}
		if first, known := oldest[topic]; !t.OldestPending.IsZero() && (!known || t.OldestPending.Before(first)) {
			oldest[topic] = t.OldestPending
		}
	}
	for s, messages := range counts {
		ch <- prometheus.MustNewConstMetric(c.messages, prometheus.GaugeValue, float64(messages), s.topic, s.status)
	}
	for topic, at := range oldest {
		ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, seconds(at), topic)
	}
}

// seconds converts a time to Unix seconds.
func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
