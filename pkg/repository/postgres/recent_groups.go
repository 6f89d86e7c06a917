package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// recentGroupsQuery reads the ends of two indexes.
const recentGroupsQuery = `
	WITH asked AS MATERIALIZED (
		SELECT coalesce($1::timestamptz, clock_timestamp()) - $2::bigint * interval '1 microsecond' AS since
	)
	SELECT
		(SELECT count(*) FROM dlq.error_groups
		 WHERE first_seen > (SELECT since FROM asked) AND NOT muted AND id <> ALL ($3::uuid[])) AS new,
		(SELECT count(*) FROM dlq.error_groups
		 WHERE regressed_at > (SELECT since FROM asked) AND NOT muted AND id <> ALL ($3::uuid[])) AS regressed`

// CountRecentGroups implements repository.RecentGroups.
func (s *Store) CountRecentGroups(ctx context.Context, within time.Duration, except []uuid.UUID) (repository.RecentCount, error) {
	left := newColumn(oidUUID, len(except), 16)
	for _, id := range except {
		left.uuid(id)
	}
	var found []struct {
		New       int64 `db:"new"`
		Regressed int64 `db:"regressed"`
	}
	if err := s.selectRows(ctx, &found, recentGroupsQuery, s.clock(), within.Microseconds(), left.arg()); err != nil {
		return repository.RecentCount{}, translate("count recent groups", err)
	}
	return repository.RecentCount{New: found[0].New, Regressed: found[0].Regressed}, nil
}
