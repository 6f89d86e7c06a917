package archive

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// noteTimeout bounds what a run waits for its note, so that one that was told to end
// does.
const noteTimeout = 5 * time.Second

// note leaves a run in the store. Where that has no place for it yet, or is away, there
// is the log.
func (a *Archiver) note(ctx context.Context, run repository.ArchiveRun) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTimeout)
	defer cancel()
	if err := a.store.KeepArchiveRun(bounded, run); err != nil {
		a.log.Warn("nobody is told of the archive run", zap.String("result", string(run.Result)), zap.Error(err))
	}
}

// ended is what became of a run.
func ended(ctx context.Context, id uuid.UUID, r Report, err error) repository.ArchiveRun {
	run := repository.ArchiveRun{
		ID: id, Result: repository.ArchiveComplete, Moved: r.Archived, Purged: r.Purged, Bookkept: r.Bookkept,
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		run.Result, run.Error = repository.ArchiveStopped, err.Error()
	default:
		run.Result, run.Error = repository.ArchiveIncomplete, err.Error()
	}
	return run
}
