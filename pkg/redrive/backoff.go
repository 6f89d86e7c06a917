package redrive

import "time"

// Backoff says how long to wait after a failure: Base after the first attempt,
// twice as long after each further one, Max at most, all of it spread by Jitter
// (0.1 is ±10 %) so that what failed together does not come back together.
type Backoff struct {
	Base, Max time.Duration
	Jitter    float64
}

// After returns the wait behind the attempt with that number, counted from 1.
// random is from [0, 1) and places the wait within the jitter.
func (b Backoff) After(attempt int, random float64) time.Duration {
	wait := b.Base
	for i := 1; i < attempt && wait < b.Max; i++ {
		wait *= 2
	}
	wait = min(wait, b.Max)
	return time.Duration(float64(wait) * (1 + b.Jitter*(2*random-1)))
}
