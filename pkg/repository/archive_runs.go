package repository

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// ArchiveRuns is what became of the archiver's runs. The archiver is gone before
// anybody could ask it, so it leaves that here.
type ArchiveRuns interface {
	// KeepArchiveRun notes a run, or what became of one that was noted before under the
	// same id: its result, its numbers and its error. StartedAt and FinishedAt are not
	// looked at: a run starts when it is first noted, or, when it is over by then, Took
	// before that. It is over when its result is first another than ArchiveRunning; what
	// is noted of it later changes nothing.
	KeepArchiveRun(ctx context.Context, run ArchiveRun) error

	// LatestArchiveRuns returns the run that started last and the complete one that
	// finished last, which may be the same; nil where there is none.
	LatestArchiveRuns(ctx context.Context) (last, complete *ArchiveRun, err error)
}

// ArchiveRun is one run of the archiver.
type ArchiveRun struct {
	ID         uuid.UUID
	Result     ArchiveResult
	StartedAt  time.Time
	FinishedAt time.Time     // zero while it runs
	Took       time.Duration // for KeepArchiveRun alone, of one that is over; LatestArchiveRuns has 0
	Moved      int64         // messages, to the archive; where its error was a lost connection, at least
	Purged     int64         // messages, out of the archive for good
	Bookkept   int64         // rows of other kinds that were deleted
	Error      string        // the first MaxArchiveError bytes are kept
}

// ArchiveResult says how a run ended. The set is closed.
type ArchiveResult string

// The results of runs.
const (
	ArchiveRunning    ArchiveResult = "running"    // not over; or killed
	ArchiveComplete   ArchiveResult = "complete"   // every step was done
	ArchiveIncomplete ArchiveResult = "incomplete" // a step failed
	ArchiveStopped    ArchiveResult = "stopped"    // it was told to end
)

// ArchiveResults lists every result.
func ArchiveResults() []ArchiveResult {
	return []ArchiveResult{ArchiveRunning, ArchiveComplete, ArchiveIncomplete, ArchiveStopped}
}

// MaxArchiveError is how much of a run's error is kept, in bytes.
const MaxArchiveError = 1000

// BoundArchiveError is what stores keep of a run's error.
func BoundArchiveError(text string) string { return bound(text, MaxArchiveError) }

// ArchiveRunLife is for how long runs are kept at least; the last complete one is kept
// for ever.
const ArchiveRunLife = 90 * 24 * time.Hour
