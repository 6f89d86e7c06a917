package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/archive"
	"github.com/dlq-manager/dlq-manager/pkg/archive/tier"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
)

// tieredStore is a store whose archive has a second tier. The methods of Archive take precedence over those of Store,
// because Store has them from the types that it embeds.
type tieredStore struct {
	*postgres.Store
	*tier.Archive
}

var _ rest.Database = tieredStore{}

// shownStore returns the store from which the API answers requests.
func (p *parts) shownStore(store repository.Core) (rest.Store, error) {
	full, ok := store.(*postgres.Store)
	if !ok || p.base.Config.Archive.Store != archive.InS3 {
		return store, nil
	}
	bucket, err := tier.OpenBucket(p.base.Config.Archive.S3)
	if err != nil {
		return nil, err
	}
	p.bucket = bucket
	objects := postgres.NewObjects(p.db)
	p.base.Registry.MustRegister(newObjectsCollector(objects, p.base.Log))
	return tieredStore{full, tier.NewArchive(full, objects, tier.NewRewriter(objects, bucket), bucket)}, nil
}

// bucketCheck is the readiness check of the object store. Without it the API works, except for messages in objects.
func (p *parts) bucketCheck() []rest.Check {
	if p.bucket == nil {
		return nil
	}
	return []rest.Check{{Name: "archive", Probe: func(ctx context.Context) error { return p.bucket.Check(ctx) }}}
}

// objectStats describes the objects of the archive.
type objectStats interface {
	ObjectStats(ctx context.Context) (repository.ObjectStats, error)
}

// objectsCollector reports the objects of the archive. Every replica reports the same values.
type objectsCollector struct {
	store                             objectStats
	objects, messages, bytes, waiting *prometheus.Desc
	stats                             reading[repository.ObjectStats]
}

func newObjectsCollector(store objectStats, log *zap.Logger) *objectsCollector {
	return &objectsCollector{
		store: store, stats: reading[repository.ObjectStats]{log: log, what: "objects of the archive"},
		objects:  prometheus.NewDesc("dlq_archive_objects", "Objects of the archive in the object store.", nil, nil),
		messages: prometheus.NewDesc("dlq_archive_object_messages", "Archived messages in the object store.", nil, nil),
		bytes:    prometheus.NewDesc("dlq_archive_object_bytes", "Size of the archive's objects.", nil, nil),
		waiting: prometheus.NewDesc("dlq_archive_undeleted_since_timestamp_seconds",
			"Since when bytes of restored, erased or purged messages wait to be deleted from the object store, in Unix seconds; absent when none wait. Bytes that an object lock retains do not count.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *objectsCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.objects, c.messages, c.bytes, c.waiting} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *objectsCollector) Collect(ch chan<- prometheus.Metric) {
	stats, known := c.stats.current(c.store.ObjectStats)
	if !known {
		return
	}
	gauge := func(d *prometheus.Desc, value float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value)
	}
	gauge(c.objects, float64(stats.Objects))
	gauge(c.messages, float64(stats.Messages))
	gauge(c.bytes, float64(stats.Bytes))
	if !stats.WaitingSince.IsZero() {
		gauge(c.waiting, seconds(stats.WaitingSince))
	}
}
