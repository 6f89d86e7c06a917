package archive

import (
	"context"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// A run that was told to end must, and within 24 seconds: three times five and the two
// pauses are 18. A beginning that cannot be noted is made good by the end.
const (
	noteTimeout = 5 * time.Second
	notePause   = time.Second
	endNotes    = 3
)

// note leaves a run in the store, in so many tries. Where that has no place for it yet,
// or is away, there is the log.
func (a *Archiver) note(ctx context.Context, run repository.ArchiveRun, tries int) {
	ctx = context.WithoutCancel(ctx)
	err := a.keep(ctx, run)
	for try := 1; err != nil && try < tries; try++ {
		<-time.After(a.pause << (try - 1))
		err = a.keep(ctx, run)
	}
	if err != nil {
		a.log.Warn("nobody is told of the archive run", zap.String("result", string(run.Result)), zap.Error(err))
	}
}

func (a *Archiver) keep(ctx context.Context, run repository.ArchiveRun) error {
	bounded, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	return a.store.KeepArchiveRun(bounded, run)
}

// ended is what became of a run.
func ended(ctx context.Context, id uuid.UUID, r Report, err error) repository.ArchiveRun {
	run := repository.ArchiveRun{
		ID: id, Result: repository.ArchiveComplete, Took: r.Duration, Moved: r.Archived, Purged: r.Purged, Bookkept: r.Bookkept,
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
