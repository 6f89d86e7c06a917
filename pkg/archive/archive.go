// Package archive moves finished messages from the live table to the archive and finally deletes them from the archive.
// The caller, or RunOnSchedule, decides when a run starts; the store does the work.
package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Store has the methods that a run calls. Methods with the parameter batch commit after each batch, so the work before
// an error or before the end of ctx is kept. Returned numbers count only what was certainly done.
type Store interface {
	// TryLock takes the archiver's lock if no other archiver has it. ok reports whether it did. unlock must be called
	// when ok is true; otherwise it is nil.
	TryLock(ctx context.Context) (unlock func(), ok bool, err error)
	// ArchiveOld moves to the archive the messages in a final state that have not changed for retentionDays.
	ArchiveOld(ctx context.Context, retentionDays, batch int) (int64, error)
	// CreatePartitions creates the partitions for the present quarter and for as many quarters after it as the
	// parameter ahead says. It returns the number of new partitions.
	CreatePartitions(ctx context.Context, ahead int) (int64, error)
	// PurgePartitions deletes the partition of each quarter whose messages have all been in the archive for longer than
	// days, and returns the number of deleted messages. A partition that is being read may stay until the next run.
	PurgePartitions(ctx context.Context, days, batch int) (int64, error)
	// PurgeArchive deletes, one by one, the messages that have been in the archive for longer than days.
	PurgeArchive(ctx context.Context, days, batch int) (int64, error)
	// PurgeBookkeeping deletes rows that are kept for a limited time, such as expired idempotency keys, redrives that
	// ended longer than redriveDays ago, and audit entries older than auditDays, which must be at least 365. If the
	// deletion of one kind of rows fails, PurgeBookkeeping goes on with the other kinds.
	PurgeBookkeeping(ctx context.Context, redriveDays, auditDays, batch int) (int64, error)
	// KeepArchiveRun stores a run and its result for monitoring.
	KeepArchiveRun(ctx context.Context, run repository.ArchiveRun) error
}

// Tier stores closed days of the archive in objects of an object store. A day of the archive is closed once it has
// ended (in UTC), because no further message can be archived on it. After an error with one object, the methods of Tier
// go on with the other objects. The returned numbers count only what was certainly done.
type Tier interface {
	// Move moves the messages of closed days from the database to objects, and returns the number of moved messages.
	Move(ctx context.Context) (int64, error)
	// Purge deletes the messages of objects that have been in the archive for longer than days.
	Purge(ctx context.Context, days, batch int) (int64, error)
	// Clean replaces each object that contains restored or deleted messages by an object without them, and deletes
	// objects that are no longer needed. It returns the number of deleted objects.
	Clean(ctx context.Context) (int64, error)
}

// Report contains the results of one run.
type Report struct {
	Partitions int64 // partitions of the archive that were created, one for each quarter
	Archived   int64 // messages moved to the archive
	Stored     int64 // messages of the archive moved to objects
	Purged     int64 // messages deleted from the archive
	Cleaned    int64 // objects deleted
	Bookkept   int64 // rows that PurgeBookkeeping deleted, such as keys, redrives and audit entries
	Duration   time.Duration
	OtherRuns  bool // another archiver holds the lock, so nothing was done
}

// Archiver performs runs. It keeps no state between them.
type Archiver struct {
	cfg   Config
	store Store
	tier  Tier // nil when no objects are used, so that the whole archive is in the store
	log   *zap.Logger
	now   func() time.Time
	pause time.Duration // pause before the second try to store the result of a run; doubled for each later try
}

// Option changes an Archiver.
type Option func(*Archiver)

// WithClock replaces time.Now, from which the archiver takes durations and the logged time of the next run.
func WithClock(now func() time.Time) Option { return func(a *Archiver) { a.now = now } }

// WithTier makes the archiver move closed days of the archive to the objects of t.
func WithTier(t Tier) Option { return func(a *Archiver) { a.tier = t } }

// New returns an archiver. The archiver writes the result of each run to the log and to the store. Metrics alone would
// not do, because the program often exits before they are read.
func New(cfg Config, store Store, log *zap.Logger, opts ...Option) *Archiver {
	a := &Archiver{cfg: cfg, store: store, log: log, now: time.Now, pause: notePause}
	for _, o := range opts {
		o(a)
	}
	return a
}

// Run performs one run and logs one line about it. When another archiver is running, Run does nothing and says so in
// the log and in the report, but returns no error. When the start of the run cannot be stored, the run still goes on.
// The steps are independent: when one step fails, all other steps are still tried, and the returned error contains all
// errors. When ctx ends during a run, no further step begins, and the report contains the completed work.
func (a *Archiver) Run(ctx context.Context) (Report, error) {
	began := a.now()
	unlock, ok, err := a.store.TryLock(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("lock the archive: %w", err)
	}
	if !ok {
		a.log.Info("another archiver is running: nothing done")
		return Report{OtherRuns: true, Duration: a.now().Sub(began)}, nil
	}
	defer unlock()

	id := uuid.New()
	a.note(ctx, repository.ArchiveRun{ID: id, Result: repository.ArchiveRunning}, 1)
	var r Report
	err = a.steps(ctx, &r)
	r.Duration = a.now().Sub(began)
	a.account(r, err)
	a.note(ctx, ended(ctx, id, r, err), endNotes)
	return r, err
}

// quartersAhead is the number of quarters whose partitions are created in advance, so that half a year without a run
// does no harm.
const quartersAhead = 2

func (a *Archiver) steps(ctx context.Context, r *Report) error {
	var errs []error
	for _, step := range []struct {
		name string
		rows *int64
		do   func() (int64, error)
	}{
		{"partitions", &r.Partitions, func() (int64, error) { return a.store.CreatePartitions(ctx, quartersAhead) }},
		{"archive", &r.Archived, func() (int64, error) { return a.store.ArchiveOld(ctx, a.cfg.RetentionDays, a.cfg.BatchSize) }},
		{"objects", &r.Stored, func() (int64, error) { return a.move(ctx) }},
		{"purge", &r.Purged, func() (int64, error) { return a.purge(ctx) }},
		{"objects to delete", &r.Cleaned, func() (int64, error) { return a.clean(ctx) }},
		{"bookkeeping", &r.Bookkept, func() (int64, error) {
			return a.store.PurgeBookkeeping(ctx, a.cfg.PurgeDays, a.cfg.AuditDays, a.cfg.BatchSize)
		}},
	} {
		if err := ctx.Err(); err != nil {
			return errors.Join(append(errs, fmt.Errorf("before step %s: %w", step.name, err))...)
		}
		n, err := step.do()
		*step.rows = n
		if err != nil {
			errs = append(errs, fmt.Errorf("step %s: %w", step.name, err))
		}
	}
	return errors.Join(errs...)
}

// move moves closed days of the archive to objects. When no object store is configured, it does nothing.
func (a *Archiver) move(ctx context.Context) (int64, error) {
	if a.tier == nil {
		return 0, nil
	}
	return a.tier.Move(ctx)
}

// clean replaces objects that contain restored or deleted messages, and deletes objects that are no longer needed. When
// no object store is configured, it does nothing.
func (a *Archiver) clean(ctx context.Context) (int64, error) {
	if a.tier == nil {
		return 0, nil
	}
	return a.tier.Clean(ctx)
}

// purge deletes the messages that have been in the archive for long enough. It first deletes those in objects. Then it
// drops the partitions of whole quarters, which is cheaper than deleting rows. Unless PurgeWholeQuarters is set, it
// then deletes the remaining messages row by row, including those of partitions that a reader blocked.
func (a *Archiver) purge(ctx context.Context) (purged int64, err error) {
	steps := []func(context.Context, int, int) (int64, error){a.store.PurgePartitions}
	if a.tier != nil {
		steps = []func(context.Context, int, int) (int64, error){a.tier.Purge, a.store.PurgePartitions}
	}
	if !a.cfg.PurgeWholeQuarters {
		steps = append(steps, a.store.PurgeArchive)
	}
	var errs []error
	for _, step := range steps {
		n, err := step(ctx, a.cfg.PurgeDays, a.cfg.BatchSize)
		purged += n
		if errs = append(errs, err); ctx.Err() != nil {
			break
		}
	}
	return purged, errors.Join(errs...)
}

// account logs one line about the run. The log line contains the counts and the error, because the counts show how much
// a failed run has done. The program that calls Run only logs that it exits.
func (a *Archiver) account(r Report, err error) {
	fields := []zap.Field{
		zap.Int64("partitions", r.Partitions),
		zap.Int64("archived", r.Archived),
		zap.Int64("purged", r.Purged),
		zap.Int64("bookkeeping", r.Bookkept),
		zap.Duration("duration", r.Duration),
	}
	if a.tier != nil {
		fields = append(fields, zap.Int64("stored_in_objects", r.Stored), zap.Int64("objects_deleted", r.Cleaned))
	}
	if err != nil {
		a.log.Warn("archive run is incomplete", append(fields, zap.Error(err))...)
		return
	}
	a.log.Info("archive run is complete", fields...)
}

// The end of a run is stored with up to three tries of five seconds each, with pauses of one and two seconds between
// the tries. Together these are 18 of the 24 seconds for which a run may continue after a signal. If the start of a run
// could not be stored, storing its end inserts the whole run.
const (
	noteTimeout = 5 * time.Second
	notePause   = time.Second
	endNotes    = 3
)

// note stores the state of a run, in at most the given number of tries. If the store has no table for runs yet, or is
// unavailable, note logs the error and returns.
func (a *Archiver) note(ctx context.Context, run repository.ArchiveRun, tries int) {
	ctx = context.WithoutCancel(ctx)
	err := a.keep(ctx, run)
	for try := 1; err != nil && try < tries; try++ {
		<-time.After(a.pause << (try - 1))
		err = a.keep(ctx, run)
	}
	if err != nil {
		a.log.Warn("the archive run could not be recorded", zap.String("result", string(run.Result)), zap.Error(err))
	}
}

func (a *Archiver) keep(ctx context.Context, run repository.ArchiveRun) error {
	bounded, cancel := context.WithTimeout(ctx, noteTimeout)
	defer cancel()
	return a.store.KeepArchiveRun(bounded, run)
}

// ended returns an ArchiveRun for a run that has ended with the given report and error.
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
