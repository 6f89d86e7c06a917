package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// stateCollector tells how many messages there are, and since when the oldest
// waits. Every replica tells the same numbers: aggregate them with max, not sum.
type stateCollector struct {
	store interface {
		TopicSummaries(ctx context.Context, visible *entity.TopicPatterns) ([]repository.TopicSummary, error)
	}
	messages, oldest *prometheus.Desc
	topics           reading[[]repository.TopicSummary]
}

func newStateCollector(store repository.Topics) *stateCollector {
	return &stateCollector{
		store: store,
		messages: prometheus.NewDesc("dlq_messages",
			"Messages in the live table, by original topic.", []string{"topic", "status"}, nil),
		oldest: prometheus.NewDesc("dlq_oldest_pending_timestamp_seconds",
			"When the oldest PENDING message of an original topic was stored; nothing for topics without one.", []string{"topic"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.messages
	ch <- c.oldest
}

// Collect implements prometheus.Collector. While the store does not answer, the
// numbers are missing rather than old.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	topics, _ := c.topics.current(func(ctx context.Context) ([]repository.TopicSummary, error) {
		return c.store.TopicSummaries(ctx, nil)
	})
	for _, t := range topics {
		for status, messages := range t.Counts {
			ch <- prometheus.MustNewConstMetric(c.messages, prometheus.GaugeValue, float64(messages), t.Topic, string(status))
		}
		if !t.OldestPending.IsZero() {
			ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, seconds(t.OldestPending), t.Topic)
		}
	}
}

// seconds is a moment as metrics have it.
func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }
