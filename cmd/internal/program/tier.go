package program

import (
	"context"
	"errors"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/archive"
	"github.com/dlq-manager/dlq-manager/pkg/archive/tier"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// movesAndRewrites is the second tier of the archive for the archiver, which moves messages to objects and rewrites
// objects.
type movesAndRewrites struct {
	*tier.Mover
	*tier.Rewriter
}

// ArchiveTier returns the option with which the archiver uses the object store; it returns none when the archive is
// only in PostgreSQL. It returns an error when objects exist but archive.store is not s3, because a run could then
// neither purge nor delete these objects.
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
