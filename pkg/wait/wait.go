// Package wait has the waits of a loop: Sleep, which ends with its context, Backoff, which grows with every failure,
// and Broadcast, which wakes all goroutines that wait for a change.
package wait

import (
	"context"
	"time"
)

// Sleep waits for d. It returns false when ctx ended first.
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

// Backoff computes the wait after a failure: Base after the first attempt, twice as long after each further one, at
// most Max. Jitter spreads the waits (0.1 is ±10 %), so that callers that fail together do not retry together.
type Backoff struct {
	Base, Max time.Duration
	Jitter    float64
}

// After returns the wait after the attempt with that number, counted from 1.
// random is from [0, 1) and chooses the wait within the jitter.
func (b Backoff) After(attempt int, random float64) time.Duration {
	wait := b.Base
	for i := 1; i < attempt && wait < b.Max; i++ {
		wait *= 2
	}
	wait = min(wait, b.Max)
	return time.Duration(float64(wait) * (1 + b.Jitter*(2*random-1)))
}
