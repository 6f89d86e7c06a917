package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// recentGroupsQuery reads the ends of two indexes. The planner must be able to tell the
// cut-off: of one that is not known until it runs it expects a third of all groups, and
// reads them all.
const recentGroupsQuery = `
	SELECT
		(SELECT count(*) FROM dlq.error_groups
		 WHERE first_seen > coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
		   AND NOT muted AND id <> ALL ($3::uuid[])) AS new,
		(SELECT count(*) FROM dlq.error_groups
		 WHERE regressed_at > coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
		   AND NOT muted AND id <> ALL ($3::uuid[])) AS regressed`

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
