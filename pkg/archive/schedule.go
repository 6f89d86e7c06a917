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

// drainTime is the time for which a run may continue after ctx has ended. When the run is cancelled after it, nothing
// is lost, because every completed batch is committed.
const drainTime = 20 * time.Second

// RunOnSchedule starts runs by the schedule, in UTC, until ctx ends. The schedule has the five fields of cron, or it is
// a word such as @daily. A run that is due while the previous one is still running is skipped. A failed run is logged
// and the next one starts as scheduled. When ctx ends, a run in progress has 20 seconds to finish and is then
// cancelled. RunOnSchedule then returns nil, because this is the normal end; it returns an error only for an invalid
// schedule.
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

// scheduled performs a run. It logs the error of a run that could not start, because such a run logs no line of its
// own.
func (a *Archiver) scheduled(ctx context.Context) {
	if r, err := a.Run(ctx); err != nil && r == (Report{}) {
		a.log.Error("archive run could not start", zap.Error(err))
	}
}

// parseSchedule rejects two kinds of schedules that the cron package accepts: schedules that name a time zone, and
// schedules whose only dates never occur, such as 30 February.
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

// cronLog logs the cron package's message that a run was skipped. It drops the other messages of the package, except
// errors, because each run logs its own result.
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
	PurgeDays     int `mapstructure:"purge_days"`     // days that messages stay in the archive, and redrives after their end
	// PurgeWholeQuarters keeps the archived messages in the database until all messages of their quarter have been
	// there for PurgeDays. So they stay up to three months longer, but none are deleted row by row. It has no effect on
	// messages in objects.
	PurgeWholeQuarters bool   `mapstructure:"purge_whole_quarters"`
	AuditDays          int    `mapstructure:"audit_days"` // days for which audit entries are kept, at least 365
	Schedule           string `mapstructure:"schedule"`   // when runs start: five cron fields in UTC; "" for a single run at once

	Store string      `mapstructure:"store"` // where messages of closed days of the archive are stored: InPostgres (default) or InS3
	S3    tier.Config `mapstructure:"s3"`    // the bucket, when Store is InS3
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
	// maxDays is so small that PostgreSQL's timestamps can express every date that is computed from a setting in days.
	maxDays = 365_000
	// minAuditDays is the smallest allowed AuditDays; the store refuses to delete audit entries that are younger.
	minAuditDays = 365
)

// Validate reports every problem at once. A value of 0 days is allowed for messages; it means that they are moved or
// deleted in the next run.
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
