package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// archiveCollector reports the last archive run and the last complete one from the store, because the archiver serves
// no metrics. Every replica reports the same values.
type archiveCollector struct {
	store                        repository.ArchiveRuns
	success, rows, took, results *prometheus.Desc
	runs                         reading[archiveRuns]
}

type archiveRuns struct{ last, complete *repository.ArchiveRun }

func newArchiveCollector(store repository.ArchiveRuns, log *zap.Logger) *archiveCollector {
	return &archiveCollector{
		store: store, runs: reading[archiveRuns]{log: log, what: "archive runs"},
		success: prometheus.NewDesc("dlq_archive_last_success_timestamp_seconds",
			"When the last complete archive run ended, in Unix seconds; absent when there was none.", nil, nil),
		rows: prometheus.NewDesc("dlq_archive_last_success_rows",
			"Rows that the last complete archive run moved (archive) or deleted (purge, bookkeeping).", []string{"step"}, nil),
		took: prometheus.NewDesc("dlq_archive_last_success_duration_seconds",
			"How long the last complete archive run took.", nil, nil),
		results: prometheus.NewDesc("dlq_archive_last_run_result",
			"1 for the result of the archive run that started last. A run that stays running was killed, or could not record its end.", []string{"result"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *archiveCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.success, c.rows, c.took, c.results} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *archiveCollector) Collect(ch chan<- prometheus.Metric) {
	runs, _ := c.runs.current(func(ctx context.Context) (runs archiveRuns, err error) {
		runs.last, runs.complete, err = c.store.LatestArchiveRuns(ctx)
		return runs, err
	})
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if last := runs.last; last != nil {
		for _, result := range repository.ArchiveResults() {
			value := 0.0
			if last.Result == result {
				value = 1
			}
			gauge(c.results, value, string(result))
		}
	}
	if run := runs.complete; run != nil {
		gauge(c.success, seconds(run.FinishedAt))
		gauge(c.took, run.FinishedAt.Sub(run.StartedAt).Seconds())
		gauge(c.rows, float64(run.Moved), "archive")
		gauge(c.rows, float64(run.Purged), "purge")
		gauge(c.rows, float64(run.Bookkept), "bookkeeping")
	}
}
