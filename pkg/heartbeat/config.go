package heartbeat

import (
	"errors"
	"fmt"
	"time"
)

// Config says where heartbeats go and how often.
type Config struct {
	// Topic is a dead-letter topic that has nothing else in it, and that the
	// ingester reads; "" for no heartbeats. Partition 0 is used.
	Topic string `mapstructure:"topic"`
	// Interval is the time between two heartbeats of one process.
	Interval time.Duration `mapstructure:"interval"`
	// LostAfter is for how long a heartbeat is looked for.
	LostAfter time.Duration `mapstructure:"lost_after"`
}

// DefaultConfig sends none; where a topic is named, one a minute.
func DefaultConfig() Config {
	return Config{Interval: time.Minute, LostAfter: 5 * time.Minute}
}

// Validate reports every problem at once.
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
