package main

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// recentGroups is the period for which an error group counts as recent after it appeared for the first time or
// regressed.
const recentGroups = time.Hour

// groupsCollector reports the numbers of error groups that are new or have regressed, which an operator may need to
// examine. It leaves out muted groups and those in except. Every replica reports the same counts.
type groupsCollector struct {
	store  repository.RecentGroups
	except []uuid.UUID
	recent *prometheus.Desc
	counts reading[repository.RecentCount]
}

func newGroupsCollector(store repository.RecentGroups, except []uuid.UUID, log *zap.Logger) *groupsCollector {
	return &groupsCollector{
		store: store, except: except, counts: reading[repository.RecentCount]{log: log, what: "error groups"},
		recent: prometheus.NewDesc("dlq_error_groups_recent",
			"Error groups that came first (new) or came back after all of theirs was resolved (regressed) within the last hour, "+
				"without muted ones.", []string{"change"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *groupsCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.recent }

// Collect implements prometheus.Collector.
func (c *groupsCollector) Collect(ch chan<- prometheus.Metric) {
	counts, known := c.counts.current(func(ctx context.Context) (repository.RecentCount, error) {
		return c.store.CountRecentGroups(ctx, recentGroups, c.except)
	})
	if !known {
		return
	}
	ch <- prometheus.MustNewConstMetric(c.recent, prometheus.GaugeValue, float64(counts.New), "new")
	ch <- prometheus.MustNewConstMetric(c.recent, prometheus.GaugeValue, float64(counts.Regressed), "regressed")
}
