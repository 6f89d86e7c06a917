// Package wait provides the pauses of loops: Sleep, which ends early when its context ends; Backoff, which gets longer
// with every failure; and Broadcast, which wakes all goroutines that wait for a change.
package wait

import (
	"context"
	"time"
)

// Sleep waits for d. It returns false when ctx ended before that.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Backoff computes how long to wait after a failure. The wait is Base after the first attempt and twice as long after
// each further attempt, but at most Max. Jitter varies the waits at random (0.1 is ±10 %), so that callers that fail at
// the same time do not try again at the same time.
type Backoff struct {
	Base, Max time.Duration
	Jitter    float64
}

// After returns how long to wait after the attempt with the given number; the first attempt has the number 1. random
// must be in [0, 1); it chooses where the wait lies within the jitter.
func (b Backoff) After(attempt int, random float64) time.Duration {
	wait := b.Base
	for i := 1; i < attempt && wait < b.Max; i++ {
		wait *= 2
	}
	wait = min(wait, b.Max)
	return time.Duration(float64(wait) * (1 + b.Jitter*(2*random-1)))
}
