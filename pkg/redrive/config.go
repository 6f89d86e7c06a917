package redrive

import (
	"errors"
	"fmt"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/redrive/auto"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/outcomes"
)

// minClaimExpiry is the smallest allowed ClaimExpiry. A publish may begin until half of the claim's time is over, and
// take 5 s: it must end before other processes may settle the attempt.
const minClaimExpiry = 12 * time.Second

// Config holds the settings of attempts, redrives and automatic retry.
type Config struct {
	// Workers is the maximum number of parts of one redrive that this process sends at once; 0 leaves redrives to other
	// processes.
	Workers int `mapstructure:"workers"`
	// ClaimExpiry is how long a claim is valid. The attempt's record is sent only in the first half of that time; after
	// it, another process may settle the attempt.
	ClaimExpiry time.Duration `mapstructure:"claim_expiry"`
	// SettleInterval is the time between two searches for expired claims, whose attempts are then settled.
	SettleInterval time.Duration `mapstructure:"settle_interval"`
	// StuckAfter is how long a message may be RETRYING before that is logged and counted as stuck.
	StuckAfter time.Duration `mapstructure:"stuck_after"`
	// OutcomeInterval is how often committed offsets are read, to learn which sent records were consumed.
	OutcomeInterval time.Duration `mapstructure:"outcome_interval"`
	// MetadataGrace is how long a redrive waits for a target that does not exist, because Kafka's answers may be late or
	// the topic is just made again. Then it skips the messages for that target.
	MetadataGrace time.Duration `mapstructure:"metadata_grace"`
	// ConsumerGroups names the consumer groups of topics whose dead letters name none; the first matching rule applies.
	ConsumerGroups []outcomes.Rule `mapstructure:"consumer_groups"`
	// Auto is automatic retry.
	Auto auto.Config `mapstructure:"auto"`
}

// DefaultConfig returns the default settings.
func DefaultConfig() Config {
	return Config{
		Workers:         4,
		ClaimExpiry:     30 * time.Second,
		SettleInterval:  5 * time.Second,
		StuckAfter:      10 * time.Minute,
		OutcomeInterval: 5 * time.Second,
		MetadataGrace:   time.Minute,
		Auto:            auto.DefaultConfig(),
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
	if c.MetadataGrace < 0 || c.MetadataGrace > time.Hour {
		problems = append(problems, fmt.Errorf("metadata_grace: %s is not between 0 and 1h", c.MetadataGrace))
	}
	if _, err := outcomes.ParseRules(c.ConsumerGroups); err != nil {
		problems = append(problems, err)
	}
	return errors.Join(append(problems, c.Auto.Validate())...)
}
