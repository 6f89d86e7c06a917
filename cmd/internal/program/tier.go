package program

import (
	"context"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/archive"
	"github.com/dlq-manager/dlq-manager/pkg/archive/tier"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// movesAndRewrites is the tier as the archiver uses it.
type movesAndRewrites struct {
	*tier.Mover
	*tier.Rewriter
}

// ArchiveTier returns the option that makes the archiver use the object store, or none when the archive is only in
// PostgreSQL. Without the bucket, a run could neither purge nor delete what is there.
func (b Base) ArchiveTier(ctx context.Context, db *sqlx.DB) ([]archive.Option, error) {
	objects := postgres.NewObjects(db)
	if b.Config.Archive.Store != archive.InS3 {
		used, err := objects.Used(ctx)
		if err == nil && used {
			err = errors.New("archive.store is postgres, but messages of the archive are in objects: set it to s3 until they are purged or restored")
		}
		return nil, err
	}
	bucket, err := tier.OpenBucket(b.Config.Archive.S3)
	if err != nil {
		return nil, err
	}
	return []archive.Option{archive.WithTier(movesAndRewrites{tier.NewMover(objects, bucket), tier.NewRewriter(objects, bucket)})}, nil
}
