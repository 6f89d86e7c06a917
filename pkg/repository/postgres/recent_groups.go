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
var recentGroupsQuery = `
	SELECT
		(SELECT count(*) FROM dlq.error_groups g
		 WHERE first_seen > coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
		   AND NOT (` + mutedEverywhere + `) AND id <> ALL ($3::uuid[])) AS new,
		(SELECT count(*) FROM dlq.error_groups g
		 WHERE regressed_at > coalesce($1::timestamptz, now()) - $2::bigint * interval '1 microsecond'
		   AND NOT (` + mutedEverywhere + `) AND id <> ALL ($3::uuid[])) AS regressed`

// mutedEverywhere is whether a group g is muted in every topic in which it ever came. It
// is asked of each group by itself: the planner would read all annotations for an EXISTS.
var mutedEverywhere = `(SELECT true FROM dlq.group_annotations n WHERE n.group_id = g.id AND n.muted LIMIT 1) IS NOT NULL AND (
		SELECT true FROM dlq.group_arrivals a
		WHERE a.group_id = g.id AND a.hour = '-infinity' AND a.messages > 0 AND NOT ` + mutedIn("a") + ` LIMIT 1) IS NULL`

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
