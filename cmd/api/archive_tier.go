package main

import (
	"context"

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
	return tieredStore{full, tier.NewArchive(full, objects, tier.NewRewriter(objects, bucket), bucket)}, nil
}

// bucketCheck is the readiness check of the object store. Without it the API works, except for messages in objects.
func (p *parts) bucketCheck() []rest.Check {
	if p.bucket == nil {
		return nil
	}
	return []rest.Check{{Name: "archive", Probe: func(ctx context.Context) error { return p.bucket.Check(ctx) }}}
}
