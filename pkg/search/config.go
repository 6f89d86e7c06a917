package search

import (
	"errors"
	"fmt"
	"time"
)

// Config says how much of each record can be searched, and how eagerly it is
// made so. Another PayloadBytes has everything catalogued anew.
type Config struct {
	PayloadBytes int64         `mapstructure:"payload_bytes"` // of each record's text that free text is searched in
	Batch        int           `mapstructure:"batch"`         // messages that are catalogued together
	Interval     time.Duration `mapstructure:"interval"`      // between two looks for new messages
}

// DefaultConfig is 4 KiB of each record, and new messages twice a second.
func DefaultConfig() Config {
	return Config{PayloadBytes: 4 << 10, Batch: 500, Interval: 500 * time.Millisecond}
}

// Validate reports every problem at once. No payload bytes are allowed: then free
// text is searched in error messages alone.
func (c Config) Validate() error {
	var errs []error
	if c.PayloadBytes < 0 || c.PayloadBytes > maxValue {
		errs = append(errs, fmt.Errorf("search.payload_bytes must be 0 to 1MiB, not %d", c.PayloadBytes))
	}
	if c.Batch < 1 || c.Batch > 10_000 {
		errs = append(errs, fmt.Errorf("search.batch must be 1 to 10000, not %d", c.Batch))
	}
	if c.Interval < 10*time.Millisecond || c.Interval > time.Minute {
		errs = append(errs, fmt.Errorf("search.interval must be 10ms to 1m, not %s", c.Interval))
	}
	return errors.Join(errs...)
}
