package redrive

import (
	"errors"
	"fmt"
	"time"
)

// minClaimExpiry leaves 5 s for a publish after the send window: an attempt must end before others may settle it.
const minClaimExpiry = 12 * time.Second

// Config holds the settings of attempts, redrives and automatic retry.
type Config struct {
	// Workers is how many parts of one redrive this process sends at once; 0 leaves redrives to other processes.
	Workers int `mapstructure:"workers"`
	// ClaimExpiry is how long an attempt owns its message. No record is sent in the second half of that time.
	ClaimExpiry time.Duration `mapstructure:"claim_expiry"`
	// SettleInterval is how often abandoned claims are settled.
	SettleInterval time.Duration `mapstructure:"settle_interval"`
	// StuckAfter is how long a message may be RETRYING before that is logged and counted as stuck.
	StuckAfter time.Duration `mapstructure:"stuck_after"`
	// OutcomeInterval is how often committed offsets are read, to learn which sent records were consumed.
	OutcomeInterval time.Duration `mapstructure:"outcome_interval"`
	// ConsumerGroups sets the consumer group of topics whose dead letters name none; the first matching rule applies.
	ConsumerGroups []GroupRule `mapstructure:"consumer_groups"`
	// Auto is automatic retry.
	Auto Auto `mapstructure:"auto"`
}

// GroupRule sets the consumer group of topics.
type GroupRule struct {
	Topic string `mapstructure:"topic"` // pattern of original topics
	Group string `mapstructure:"group"`
}

// Auto holds the settings of automatic retry. Backoff, BackoffMax and Jitter also set the next attempt after every
// failure.
type Auto struct {
	// Topics are the original topics to retry, as globs or anchored regular expressions; empty turns automatic retry off.
	Topics []string `mapstructure:"topics"`
	// Batch is how many messages are claimed and sent together.
	Batch int `mapstructure:"batch"`
	// Parallelism is how many batches a process sends at once.
	Parallelism int `mapstructure:"parallelism"`
	// IdleSleep is the first pause when no message is due; while that lasts it doubles up to two seconds.
	IdleSleep time.Duration `mapstructure:"idle_sleep"`
	// Backoff is the pause after the first failure; it doubles with each further one up to BackoffMax, and Jitter is
	// its random share. A message's last attempt is made at a failing partition only after
	// no record was accepted there for BackoffMax.
	Backoff    time.Duration `mapstructure:"backoff"`
	BackoffMax time.Duration `mapstructure:"backoff_max"`
	Jitter     float64       `mapstructure:"jitter"`
}

// DefaultConfig returns the default settings.
func DefaultConfig() Config {
	return Config{
		Workers:         4,
		ClaimExpiry:     30 * time.Second,
		SettleInterval:  5 * time.Second,
		StuckAfter:      10 * time.Minute,
		OutcomeInterval: 5 * time.Second,
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

// Validate reports every invalid setting.
func (c Config) Validate() error {
	var problems []error
	if c.Workers < 0 || c.Workers > 64 {
		problems = append(problems, fmt.Errorf("workers: %d is not between 0 and 64", c.Workers))
	}
	if c.ClaimExpiry < minClaimExpiry || c.ClaimExpiry > time.Hour {
		problems = append(problems, fmt.Errorf("claim_expiry: %s is not between %s and 1h", c.ClaimExpiry, minClaimExpiry))
	}
	if c.SettleInterval < 100*time.Millisecond || c.SettleInterval > time.Hour {
		problems = append(problems, fmt.Errorf("settle_interval: %s is not between 100ms and 1h", c.SettleInterval))
	}
	if c.StuckAfter < c.ClaimExpiry || c.StuckAfter > 7*24*time.Hour {
		problems = append(problems, fmt.Errorf("stuck_after: %s is not between claim_expiry (%s) and 168h", c.StuckAfter, c.ClaimExpiry))
	}
	if c.OutcomeInterval < 100*time.Millisecond || c.OutcomeInterval > time.Hour {
		problems = append(problems, fmt.Errorf("outcome_interval: %s is not between 100ms and 1h", c.OutcomeInterval))
	}
	if _, err := parseGroups(c.ConsumerGroups); err != nil {
		problems = append(problems, err)
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
	if _, err := a.patterns(); err != nil {
		problems = append(problems, err)
	}
	refuse(a.Batch < 1 || a.Batch > batchMessages, "batch: %d is not between 1 and %d", a.Batch, batchMessages)
	refuse(a.Parallelism < 1 || a.Parallelism > 64, "parallelism: %d is not between 1 and 64", a.Parallelism)
	refuse(a.IdleSleep <= 0, "idle_sleep: %s is not positive", a.IdleSleep)
	refuse(a.Backoff <= 0, "backoff: %s is not positive", a.Backoff)
	refuse(a.BackoffMax < a.Backoff, "backoff_max: %s is less than backoff (%s)", a.BackoffMax, a.Backoff)
	refuse(!(a.Jitter >= 0 && a.Jitter < 1), "jitter: %v is not between 0 and 1", a.Jitter)
	return problems
}

// sendWindow is the maximum age of a claim at which its record may be sent.
func (c Config) sendWindow() time.Duration { return c.ClaimExpiry / 2 }

// finishWindow is the maximum age of a claim at which its result is stored: less than the claim's expiry.
func (c Config) finishWindow() time.Duration { return c.ClaimExpiry * 2 / 3 }
