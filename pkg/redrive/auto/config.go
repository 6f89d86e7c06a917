package auto

import (
	"errors"
	"fmt"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Config holds the settings of automatic retry. Backoff, BackoffMax and Jitter also set when a message is due again
// after any other attempt on it has failed.
type Config struct {
	// Topics are the original topics to retry, as globs or anchored regular expressions; empty turns automatic retry off.
	Topics []string `mapstructure:"topics"`
	// Batch is the maximum number of messages that are claimed and sent together.
	Batch int `mapstructure:"batch"`
	// Parallelism is the maximum number of batches that a process sends at once.
	Parallelism int `mapstructure:"parallelism"`
	// IdleSleep is the first pause when no message is due. While no message is due, the pause doubles up to two
	// seconds.
	IdleSleep time.Duration `mapstructure:"idle_sleep"`
	// Backoff is the pause after the first failure of a message; it doubles with each further failure up to BackoffMax.
	// Jitter is the share of the pause by which it varies at random. A message with one attempt left is sent to a
	// failing partition only after the partition has accepted no record for BackoffMax.
	Backoff    time.Duration `mapstructure:"backoff"`
	BackoffMax time.Duration `mapstructure:"backoff_max"`
	Jitter     float64       `mapstructure:"jitter"`
	// MaxReturnShare is the share of a topic's automatically sent messages that may fail again before automatic retry of
	// the topic pauses; 0 for no limit.
	MaxReturnShare float64 `mapstructure:"max_return_share"`
}

// DefaultConfig returns the default settings.
func DefaultConfig() Config {
	return Config{
		Batch:       32,
		Parallelism: 4,
		IdleSleep:   200 * time.Millisecond,
		Backoff:     2 * time.Second,
		BackoffMax:  256 * time.Second,
		Jitter:      0.1,
	}
}

// maxBatch is the largest valid value of Config.Batch.
const maxBatch = 500

// Validate reports every setting that cannot work.
func (c Config) Validate() error {
	var problems []error
	refuse := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Errorf("auto."+format, args...))
		}
	}
	if _, err := c.patterns(); err != nil {
		problems = append(problems, err)
	}
	refuse(c.Batch < 1 || c.Batch > maxBatch, "batch: %d is not between 1 and %d", c.Batch, maxBatch)
	refuse(c.Parallelism < 1 || c.Parallelism > 64, "parallelism: %d is not between 1 and 64", c.Parallelism)
	refuse(c.IdleSleep <= 0, "idle_sleep: %s is not positive", c.IdleSleep)
	refuse(c.Backoff <= 0, "backoff: %s is not positive", c.Backoff)
	refuse(c.BackoffMax < c.Backoff, "backoff_max: %s is less than backoff (%s)", c.BackoffMax, c.Backoff)
	refuse(!(c.Jitter >= 0 && c.Jitter < 1), "jitter: %v is not between 0 and 1", c.Jitter)
	refuse(!(c.MaxReturnShare >= 0 && c.MaxReturnShare <= 1), "max_return_share: %v is not between 0 and 1", c.MaxReturnShare)
	return errors.Join(problems...)
}

// RetryBackoff returns the wait for the next attempt after a failure.
func (c Config) RetryBackoff() wait.Backoff {
	return wait.Backoff{Base: c.Backoff, Max: c.BackoffMax, Jitter: c.Jitter}
}

// patterns compiles the topics of automatic retry.
func (c Config) patterns() (deadletter.Patterns, error) {
	if len(c.Topics) == 0 {
		return deadletter.Patterns{}, nil
	}
	var problems []error
	for _, text := range c.Topics {
		if _, err := deadletter.ParsePatterns(text); err != nil {
			problems = append(problems, fmt.Errorf("auto.topics: %s", fieldReason(err)))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return deadletter.Patterns{}, err
	}
	return deadletter.ParsePatterns(c.Topics...)
}

// fieldReason returns the reason of an entity.FieldError without the name of its field; for any other error it returns
// the whole text.
func fieldReason(err error) string {
	var field *entity.FieldError
	if errors.As(err, &field) {
		return field.Reason
	}
	return err.Error()
}
