package fake

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// KeepArchiveRun implements repository.ArchiveRuns.
func (s *Store) KeepArchiveRun(ctx context.Context, run repository.ArchiveRun) error {
	return s.step(ctx, "keep an archive run", func(now time.Time) error {
		run.StartedAt, run.FinishedAt = now, time.Time{}
		if run.Result != repository.ArchiveRunning {
			run.StartedAt = now.Add(-run.Took)
		}
		run.Took = 0
		if old, known := s.archiveRuns[run.ID]; known {
			if old.Result != repository.ArchiveRunning {
				return nil
			}
			run.StartedAt = old.StartedAt
		}
		if run.Result != repository.ArchiveRunning {
			run.FinishedAt = now
		}
		run.Error = repository.BoundArchiveError(run.Error)
		s.archiveRuns[run.ID] = run
		return nil
	})
}

// LatestArchiveRuns implements repository.ArchiveRuns.
func (s *Store) LatestArchiveRuns(ctx context.Context) (last, complete *repository.ArchiveRun, err error) {
	err = s.step(ctx, "read archive runs", func(time.Time) error {
		for _, run := range s.archiveRuns {
			if last == nil || later(run.StartedAt, run.ID, last.StartedAt, last.ID) {
				last = &run
			}
			if run.Result == repository.ArchiveComplete &&
				(complete == nil || later(run.FinishedAt, run.ID, complete.FinishedAt, complete.ID)) {
				complete = &run
			}
		}
		return nil
	})
	return last, complete, err
}

func later(a time.Time, idA uuid.UUID, b time.Time, idB uuid.UUID) bool {
	if !a.Equal(b) {
		return a.After(b)
	}
	return idA.String() > idB.String()
}
