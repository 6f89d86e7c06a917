package main

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// stateCollector tells how many messages there are. Every replica tells the same
// numbers: aggregate them with max, not sum.
type stateCollector struct {
	store interface {
		Counts(ctx context.Context) ([]repository.Count, error)
	}
	messages *prometheus.Desc

	mu     sync.Mutex
	at     time.Time
	counts []repository.Count
}

// stateAge is how old the numbers may be: scrapers must not load the database.
const stateAge = 5 * time.Second

func newStateCollector(store repository.Reader) *stateCollector {
	return &stateCollector{
		store:    store,
		messages: prometheus.NewDesc("dlq_messages", "Messages in the live table.", []string{"topic", "status"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *stateCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.messages }

// Collect implements prometheus.Collector. While the store does not answer, the
// numbers are missing rather than old.
func (c *stateCollector) Collect(ch chan<- prometheus.Metric) {
	for _, n := range c.current() {
		ch <- prometheus.MustNewConstMetric(c.messages, prometheus.GaugeValue, float64(n.Messages),
			n.OriginalTopic, string(n.Status))
	}
}

func (c *stateCollector) current() []repository.Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.at) < stateAge {
		return c.counts
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	counts, err := c.store.Counts(ctx)
	if err != nil {
		counts = nil
	}
	c.counts, c.at = counts, time.Now()
	return counts
}
