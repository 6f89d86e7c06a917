package redrive

import (
	"errors"
	"fmt"
	"time"
)

// minClaimExpiry leaves room for one publish (5 s) after the send window, which
// is half of the expiry: an attempt must be over before anybody may settle it.
const minClaimExpiry = 12 * time.Second

// Config says how attempts are carried out.
type Config struct {
	// Workers is how many batches one redrive has under way at once.
	Workers int `mapstructure:"workers"`
	// ClaimExpiry is how long an attempt owns its message. Nothing is sent once
	// half of it is over; what is left is for the answer and for storing it.
	ClaimExpiry time.Duration `mapstructure:"claim_expiry"`
	// SettleInterval is how often abandoned claims are looked for.
	SettleInterval time.Duration `mapstructure:"settle_interval"`
	// Auto is automatic retry.
	Auto Auto `mapstructure:"auto"`
}

// Auto says what is retried without being asked, and how fast. Backoff,
// BackoffMax and Jitter also set the next attempt time of every failure.
type Auto struct {
	Topics      []string      `mapstructure:"topics"`
	Batch       int           `mapstructure:"batch"`
	Parallelism int           `mapstructure:"parallelism"`
	IdleSleep   time.Duration `mapstructure:"idle_sleep"`
	Backoff     time.Duration `mapstructure:"backoff"`
	BackoffMax  time.Duration `mapstructure:"backoff_max"`
	Jitter      float64       `mapstructure:"jitter"`
}

// DefaultConfig returns the settings that serve unless others are given.
func DefaultConfig() Config {
	return Config{
		Workers:        4,
		ClaimExpiry:    30 * time.Second,
		SettleInterval: 5 * time.Second,
		Auto: Auto{
			Batch:       32,
			Parallelism: 4,
			IdleSleep:   200 * time.Millisecond,
			Backoff:     2 * time.Second,
			BackoffMax:  256 * time.Second,
			Jitter:      0.1,
		},
	}
}

// Validate reports every setting that cannot work.
func (c Config) Validate() error {
	var problems []error
	if c.Workers < 1 || c.Workers > 64 {
		problems = append(problems, fmt.Errorf("workers: %d is not between 1 and 64", c.Workers))
	}
	if c.ClaimExpiry < minClaimExpiry || c.ClaimExpiry > time.Hour {
		problems = append(problems, fmt.Errorf("claim_expiry: %s is not between %s and 1h", c.ClaimExpiry, minClaimExpiry))
	}
	if c.SettleInterval < 100*time.Millisecond || c.SettleInterval > time.Hour {
		problems = append(problems, fmt.Errorf("settle_interval: %s is not between 100ms and 1h", c.SettleInterval))
	}
	return errors.Join(append(problems, c.Auto.problems()...)...)
}

func (a Auto) problems() []error {
	var problems []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf("auto."+format, args...))
		}
	}
	refuse(len(a.Topics) > 0, "topics: automatic retry does not exist in this version; leave the list empty")
	refuse(a.Batch < 1, "batch: %d is not positive", a.Batch)
	refuse(a.Parallelism < 1, "parallelism: %d is not positive", a.Parallelism)
	refuse(a.IdleSleep <= 0, "idle_sleep: %s is not positive", a.IdleSleep)
	refuse(a.Backoff <= 0, "backoff: %s is not positive", a.Backoff)
	refuse(a.BackoffMax < a.Backoff, "backoff_max: %s is less than backoff (%s)", a.BackoffMax, a.Backoff)
	refuse(!(a.Jitter >= 0 && a.Jitter < 1), "jitter: %v is not between 0 and 1", a.Jitter)
	return problems
}

// sendWindow is how old a claim may be when its record is sent.
func (c Config) sendWindow() time.Duration { return c.ClaimExpiry / 2 }

// finishWindow is how old a claim may be while its result is still being
// stored: somewhat before others may settle it.
func (c Config) finishWindow() time.Duration { return c.ClaimExpiry * 2 / 3 }
