package archive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/archive/tier"
)

// drainTime is how long a run may continue after the program was asked to end. Committed batches are kept, so
// cancelling the rest loses nothing.
const drainTime = 20 * time.Second

// RunOnSchedule starts runs by the schedule, in UTC, until ctx ends. The schedule has the five fields of cron, or is
// a word such as @daily. A run that is due while the previous one is still running is skipped. A failed run is logged
// and the next one starts as scheduled. When ctx ends, a present run has 20 seconds to finish and is then cancelled;
// the result is nil, because that is the normal end. Only an invalid schedule is an error.
func (a *Archiver) RunOnSchedule(ctx context.Context, schedule string) error {
	plan, err := parseSchedule(schedule)
	if err != nil {
		return err
	}
	work, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()

	log := cronLog{a.log}
	clock := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(log), cron.WithChain(cron.SkipIfStillRunning(log)))
	clock.Schedule(plan, cron.FuncJob(func() { a.scheduled(work) }))
	a.log.Info("archiver waits", zap.String("schedule", schedule), zap.Time("next_run", plan.Next(a.now().UTC())))
	clock.Start()

	<-ctx.Done()
	idle := clock.Stop()
	limit := time.AfterFunc(drainTime, cancel)
	defer limit.Stop()
	<-idle.Done()
	return nil
}

// scheduled logs the error of a run that failed before it could log its own line.
func (a *Archiver) scheduled(ctx context.Context) {
	if r, err := a.Run(ctx); err != nil && r == (Report{}) {
		a.log.Error("archive run could not start", zap.Error(err))
	}
}

// parseSchedule rejects two kinds of schedules that the cron package accepts: schedules with a time zone, and schedules
// with only dates that never occur, such as 30 February.
func parseSchedule(schedule string) (cron.Schedule, error) {
	if strings.Contains(schedule, "TZ=") {
		return nil, fmt.Errorf("schedule %q: times are in UTC, a time zone cannot be set", schedule)
	}
	plan, err := cron.ParseStandard(schedule)
	if err != nil {
		return nil, fmt.Errorf("schedule %q is not five cron fields (minute hour day month weekday): %w", schedule, err)
	}
	if plan.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, fmt.Errorf("schedule %q never occurs", schedule)
	}
	return plan, nil
}

// cronLog logs that a run was skipped; the cron package's other log lines would only repeat the lines of a run.
type cronLog struct{ log *zap.Logger }

func (l cronLog) Info(msg string, _ ...any) {
	if msg == "skip" {
		l.log.Warn("archive run is skipped: the previous one is still running")
	}
}

func (l cronLog) Error(err error, msg string, _ ...any) { l.log.Error(msg, zap.Error(err)) }

// Config sets how long finished messages are kept, and where.
type Config struct {
	RetentionDays int `mapstructure:"retention_days"` // days that a message stays in the live table after its last change
	BatchSize     int `mapstructure:"batch_size"`     // rows moved or deleted between two commits, at most
	PurgeDays     int `mapstructure:"purge_days"`     // days in the archive; for redrives, days after their end
	// PurgeWholeQuarters keeps messages in the archive until all messages of their quarter have been there for
	// PurgeDays: up to three months longer, and nothing is deleted row by row.
	PurgeWholeQuarters bool   `mapstructure:"purge_whole_quarters"`
	AuditDays          int    `mapstructure:"audit_days"` // days that the audit trail is kept, at least 365
	Schedule           string `mapstructure:"schedule"`   // five cron fields in UTC; empty: one run

	Store string      `mapstructure:"store"` // where closed days of the archive are: InPostgres (default) or InS3
	S3    tier.Config `mapstructure:"s3"`    // the bucket for InS3
}

// The values of Config.Store.
const (
	InPostgres = "postgres"
	InS3       = "s3"
)

// DefaultConfig keeps finished messages 30 days in the live table and a year in the archive, and audit entries two
// years.
func DefaultConfig() Config {
	return Config{RetentionDays: 30, BatchSize: 1000, PurgeDays: 365, AuditDays: 730, Store: InPostgres}
}

const (
	// maxDays is so small that every date computed from a setting fits PostgreSQL's timestamps.
	maxDays = 365_000
	// minAuditDays is the minimum time for which the store keeps the audit trail: the record of a change must outlive
	// the change.
	minAuditDays = 365
)

// Validate reports every problem at once. For messages, 0 days is allowed and means at once.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		key       string
		days, min int
	}{{"retention_days", c.RetentionDays, 0}, {"purge_days", c.PurgeDays, 0}, {"audit_days", c.AuditDays, minAuditDays}} {
		if d.days < d.min || d.days > maxDays {
			errs = append(errs, fmt.Errorf("%s must be %d to %d, not %d", d.key, d.min, maxDays, d.days))
		}
	}
	if c.BatchSize < 1 || c.BatchSize > 1_000_000 {
		errs = append(errs, fmt.Errorf("batch_size must be 1 to 1000000, not %d", c.BatchSize))
	}
	if c.Schedule != "" {
		if _, err := parseSchedule(c.Schedule); err != nil {
			errs = append(errs, err)
		}
	}
	switch c.Store {
	case InPostgres, "":
	case InS3:
		errs = append(errs, c.S3.Usable())
	default:
		errs = append(errs, fmt.Errorf("store must be %s or %s, not %q", InPostgres, InS3, c.Store))
	}
	return errors.Join(errs...)
}
