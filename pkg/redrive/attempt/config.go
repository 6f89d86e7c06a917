package attempt

import (
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Config holds the durations of attempts.
type Config struct {
	ClaimExpiry    time.Duration // how long an attempt owns its message
	SettleInterval time.Duration // time between two turns of the settler
	StuckAfter     time.Duration // how long a message may be RETRYING before it is reported
	Backoff        wait.Backoff  // until the next automatic attempt on a message that failed
}

// SendWindow is the maximum age of a claim at which its record may be sent.
func (c Config) SendWindow() time.Duration { return c.ClaimExpiry / 2 }

// finishWindow is the maximum age of a claim at which its result is stored: less than the claim's expiry.
func (c Config) finishWindow() time.Duration { return c.ClaimExpiry * 2 / 3 }
