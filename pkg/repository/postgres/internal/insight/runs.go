package insight

import (
	"context"
	"database/sql"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
)

// Runs implements repository.ArchiveRuns.
type Runs struct{ db *conn.DB }

// NewRuns returns Runs that send their statements to db.
func NewRuns(db *conn.DB) *Runs { return &Runs{db} }

const keepArchiveRunQuery = `
	INSERT INTO dlq.archive_runs AS r (id, started_at, finished_at, result, moved, purged, bookkept, error)
	SELECT $2, CASE WHEN $3 <> 'running' THEN n.moment - $8::bigint * interval '1 microsecond' ELSE n.moment END,
		CASE WHEN $3 <> 'running' THEN n.moment END, $3, $4, $5, $6, $7
	FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS moment) n
	ON CONFLICT (id) DO UPDATE SET finished_at = excluded.finished_at, result = excluded.result, moved = excluded.moved,
		purged = excluded.purged, bookkept = excluded.bookkept, error = excluded.error
	WHERE r.result = 'running'`

// KeepArchiveRun implements repository.ArchiveRuns.
func (s *Runs) KeepArchiveRun(ctx context.Context, run repository.ArchiveRun) error {
	return conn.Translate("record an archive run", s.db.Exec(ctx, keepArchiveRunQuery, s.db.Clock(), run.ID, string(run.Result),
		run.Moved, run.Purged, run.Bookkept, repository.BoundArchiveError(codec.Clean(run.Error)), run.Took.Microseconds()))
}

// latestArchiveRunsQuery reads two runs of the archiver: the run that started last, and the run that finished last of
// those that did all of their work.
const latestArchiveRunsQuery = `
	(SELECT true AS latest, r.* FROM dlq.archive_runs r ORDER BY r.started_at DESC, r.id DESC LIMIT 1)
	UNION ALL
	(SELECT false, r.* FROM dlq.archive_runs r WHERE r.result = 'complete' ORDER BY r.finished_at DESC, r.id DESC LIMIT 1)`

type archiveRunRow struct {
	Latest     bool         `db:"latest"`
	ID         uuid.UUID    `db:"id"`
	StartedAt  time.Time    `db:"started_at"`
	FinishedAt sql.NullTime `db:"finished_at"`
	Result     string       `db:"result"`
	Moved      int64        `db:"moved"`
	Purged     int64        `db:"purged"`
	Bookkept   int64        `db:"bookkept"`
	Error      string       `db:"error"`
}

// LatestArchiveRuns implements repository.ArchiveRuns.
func (s *Runs) LatestArchiveRuns(ctx context.Context) (last, complete *repository.ArchiveRun, err error) {
	var found []archiveRunRow
	if err := s.db.Select(ctx, &found, latestArchiveRunsQuery); err != nil {
		return nil, nil, conn.Translate("read archive runs", err)
	}
	for _, r := range found {
		run := &repository.ArchiveRun{
			ID: r.ID, Result: repository.ArchiveResult(r.Result), StartedAt: entity.TruncateTime(r.StartedAt), FinishedAt: codec.TimeOf(r.FinishedAt),
			Moved: r.Moved, Purged: r.Purged, Bookkept: r.Bookkept, Error: r.Error,
		}
		if r.Latest {
			last = run
		} else {
			complete = run
		}
	}
	return last, complete, nil
}

// purgeArchiveRunsQuery deletes old runs of the archiver, but keeps the last run that did all of its work.
const purgeArchiveRunsQuery = `
	WITH gone AS (
		DELETE FROM dlq.archive_runs WHERE id = ANY (ARRAY(
			SELECT id FROM dlq.archive_runs
			WHERE started_at < coalesce($1::timestamptz, now()) - make_interval(days => $2)
			  AND id IS DISTINCT FROM (
				SELECT c.id FROM dlq.archive_runs c WHERE c.result = 'complete' ORDER BY c.finished_at DESC, c.id DESC LIMIT 1)
			LIMIT $3 FOR UPDATE SKIP LOCKED))
		RETURNING 1
	)
	SELECT count(*) FROM gone`
