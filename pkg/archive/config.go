package archive

import (
	"errors"
	"fmt"
)

// Config says how long finished messages are kept, and where.
type Config struct {
	RetentionDays int `mapstructure:"retention_days"` // days in the live table after the last change
	BatchSize     int `mapstructure:"batch_size"`     // rows moved or deleted between two commits, at most
	PurgeDays     int `mapstructure:"purge_days"`     // days in the archive; for redrives, after their end
	// PurgeWholeQuarters lets messages stay in the archive until all of their quarter
	// have been there for PurgeDays: up to three months longer, and nothing is deleted
	// row by row.
	PurgeWholeQuarters bool   `mapstructure:"purge_whole_quarters"`
	AuditDays          int    `mapstructure:"audit_days"` // days that the audit trail is kept, at least 365
	Schedule           string `mapstructure:"schedule"`   // five cron fields in UTC; empty: one run
}

// DefaultConfig is 30 days live, a year in the archive, two years of audit.
func DefaultConfig() Config {
	return Config{RetentionDays: 30, BatchSize: 1000, PurgeDays: 365, AuditDays: 730}
}

const (
	// maxDays keeps every cut-off inside the range of PostgreSQL's timestamps.
	maxDays = 365_000
	// minAuditDays is what the store refuses to forget: who changed what must not
	// vanish with the change itself.
	minAuditDays = 365
)

// Validate reports every problem at once. 0 days is allowed for messages: at
// once.
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
	return errors.Join(errs...)
}
