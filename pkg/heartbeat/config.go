package heartbeat

import (
	"errors"
	"fmt"
	"time"
)

// Config holds the settings of heartbeats.
type Config struct {
	// Topic is a dead-letter topic used only for heartbeats, which the ingester reads; "" turns heartbeats off.
	// Partition 0 is used.
	Topic string `mapstructure:"topic"`
	// Interval is the time between two heartbeats of one process.
	Interval time.Duration `mapstructure:"interval"`
	// LostAfter is the time after which a heartbeat that is not visible counts as lost.
	LostAfter time.Duration `mapstructure:"lost_after"`
}

// DefaultConfig sends no heartbeats; with a topic set, one per minute.
func DefaultConfig() Config {
	return Config{Interval: time.Minute, LostAfter: 5 * time.Minute}
}

// Validate reports all problems at once.
func (c Config) Validate() error {
	var errs []error
	if c.Interval < time.Second || c.Interval > time.Hour {
		errs = append(errs, fmt.Errorf("heartbeat.interval must be 1s to 1h, not %s", c.Interval))
	}
	if c.LostAfter <= Fresh || c.LostAfter > time.Hour {
		errs = append(errs, fmt.Errorf("heartbeat.lost_after must be more than %s and at most 1h, not %s", Fresh, c.LostAfter))
	}
	return errors.Join(errs...)
}
