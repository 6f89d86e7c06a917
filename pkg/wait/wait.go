// Package wait provides the pauses of loops: Sleep, which ends early when its context ends; Ready, which tries until
// something is ready; Backoff, which gets longer with every failure; Broadcast, which wakes all goroutines that wait
// for a change; Rounds, in which callers wait together for one answer; and Gates,
// before which callers wait until there is room.
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

// Ready calls try until it succeeds, for at most timeout and with a pause between two calls. After the timeout it returns
// the error of the last call that ended in time, because a call that the timeout has cut short only names the timeout. If
// no call ended in time, it returns the error of the first call. When ctx ends, Ready returns the error of ctx.
func Ready(ctx context.Context, timeout, pause time.Duration, try func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	deadline, _ := limited.Deadline()
	var last error
	for again := true; again; again = Sleep(limited, pause) {
		err := try(limited)
		if err == nil {
			return nil
		}
		// The clock decides: on a busy machine, a connection may see its deadline before the context ends.
		if last == nil || time.Now().Before(deadline) {
			last = err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return last
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
