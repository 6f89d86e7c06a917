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

	mu      sync.Mutex
	at      time.Time
	counts  []repository.Count
	pending <-chan []repository.Count // a question that was given up and is not answered yet; or nil
}

const (
	// stateAge is how old the numbers may be: scrapers must not load the database.
	stateAge = 5 * time.Second

	// stateTimeout is how long a scrape waits for them.
	stateTimeout = 2 * time.Second
)

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
	c.counts = c.ask()
	c.at = time.Now()
	return c.counts
}

// ask returns nil when the store does not answer in time. A driver may wait for
// a silent server whatever its context says, so nobody waits for it here, and no
// second question is asked beside it.
func (c *stateCollector) ask() []repository.Count {
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
	answer := make(chan []repository.Count, 1)
	go func() {
		counts, err := c.store.Counts(ctx)
		if err != nil {
			counts = nil
		}
		answer <- counts
	}()
	select {
	case counts := <-answer:
		return counts
	case <-ctx.Done():
		c.pending = answer
		return nil
	}
}
