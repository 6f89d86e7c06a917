package main

import (
	"context"
	"sync"
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

	mu      sync.Mutex
	at      time.Time
	topics  []repository.TopicSummary
	pending <-chan []repository.TopicSummary // a question that was given up and is not answered yet; or nil
}

const (
	// stateAge is how old the numbers may be: scrapers must not load the database.
	stateAge = 5 * time.Second

	// stateTimeout is how long a scrape waits for them.
	stateTimeout = 2 * time.Second
)

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
	for _, t := range c.current() {
		for status, messages := range t.Counts {
			ch <- prometheus.MustNewConstMetric(c.messages, prometheus.GaugeValue, float64(messages), t.Topic, string(status))
		}
		if !t.OldestPending.IsZero() {
			ch <- prometheus.MustNewConstMetric(c.oldest, prometheus.GaugeValue, float64(t.OldestPending.UnixMilli())/1000, t.Topic)
		}
	}
}

func (c *stateCollector) current() []repository.TopicSummary {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < stateAge {
		return c.topics
	}
	c.topics = c.ask()
	c.at = time.Now()
	return c.topics
}

// ask returns nil when the store does not answer in time. A driver may wait for
// a silent server whatever its context says, so nobody waits for it here, and no
// second question is asked beside it.
func (c *stateCollector) ask() []repository.TopicSummary {
	if c.pending != nil {
		select {
		case <-c.pending: // too old by now
			c.pending = nil
		default:
			return nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	answer := make(chan []repository.TopicSummary, 1)
	go func() {
		topics, err := c.store.TopicSummaries(ctx, nil)
		if err != nil {
			topics = nil
		}
		answer <- topics
	}()
	select {
	case topics := <-answer:
		return topics
	case <-ctx.Done():
		c.pending = answer
		return nil
	}
}
