package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/archive"
	"github.com/dlq-manager/dlq-manager/pkg/archive/tier"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/rest"
)

// tieredStore is a store whose archive has a second tier. When both embedded types have a method, the method of
// tier.Database is used, because Store gets the method only from a type that it embeds itself.
type tieredStore struct {
	*postgres.Store
	tier.Database
}

// useTier lets the API read and change the archived messages in the object store as well as those in the database. When
// the configuration has no object store, requests that need an object answer 503 with the reason. The API starts all
// the same, for two reasons: operators must be able to work on live messages even if a setting of the archive is wrong,
// and the archiver may begin to move messages after the API has started. useTier returns the archive for redrives; nil
// without a database.
func (p *parts) useTier(stores *rest.Stores, store repository.Core) (redrive.Archive, error) {
	full, ok := store.(*postgres.Store)
	if !ok {
		return nil, nil
	}
	objects := postgres.NewObjects(p.db)
	unconfigured := tier.NewUnconfigured(full, objects)
	both := tieredStore{full, unconfigured}
	var archived redrive.Archive = unconfigured
	if p.base.Config.Archive.Store == archive.InS3 {
		bucket, err := tier.OpenBucket(p.base.Config.Archive.S3)
		if err != nil {
			return nil, err
		}
		p.bucket = bucket
		p.base.Registry.MustRegister(newObjectsCollector(objects, p.base.Log))
		tiers := tier.NewArchive(full, objects, tier.NewRewriter(objects, bucket), bucket)
		both.Database, archived = tiers, tiers
	}
	stores.Values = both
	db := stores.Database
	db.Objects, db.Changes = both, both
	reads := tieredReads{p.search.reads, both}
	db.Searches, db.Exports = reads, reads
	return archived, nil
}

// tieredReads searches archived messages in both tiers of the archive. It searches live messages as a store without a
// second tier does.
type tieredReads struct {
	liveReads
	archive tieredStore
}

// liveReads contains the methods of a store, or of its replica, that search and export messages.
type liveReads interface {
	Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error)
	CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error)
	Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error
	IndexedUntil(ctx context.Context) (time.Time, error)
}

func (r tieredReads) Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error) {
	if q.Archived {
		return r.archive.Search(ctx, q)
	}
	return r.liveReads.Search(ctx, q)
}

func (r tieredReads) CountMatching(ctx context.Context, q repository.CountQuery) (repository.MatchCount, error) {
	if q.Archived {
		return r.archive.CountMatching(ctx, q)
	}
	return r.liveReads.CountMatching(ctx, q)
}

func (r tieredReads) Export(ctx context.Context, q repository.ExportQuery, yield func(*entity.Message) error) error {
	if q.Archived {
		return r.archive.Export(ctx, q, yield)
	}
	return r.liveReads.Export(ctx, q, yield)
}

// bucketCheck returns the readiness check of the object store. While the object store is unavailable, the API works,
// except for messages in objects.
func (p *parts) bucketCheck() []rest.Check {
	if p.bucket == nil {
		return nil
	}
	return []rest.Check{{Name: "archive", Probe: func(ctx context.Context) error { return p.bucket.Check(ctx) }}}
}

// objectStats is the part of a store that describes the objects of the archive.
type objectStats interface {
	ObjectStats(ctx context.Context) (repository.ObjectStats, error)
}

// objectsCollector reports the number and the size of the archive's objects, the number of their messages, and since
// when bytes wait to be deleted. Every replica reports the same values.
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
