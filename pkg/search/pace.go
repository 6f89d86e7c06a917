package search

import (
	"context"
	"time"
)

const (
	// crowdedAge is how long an answer to whether the store is crowded holds.
	crowdedAge = time.Second
	// forgotten is how long nobody asked when the answers before count no more.
	forgotten = time.Minute
	// rests is how many times as long as it works the worker rests while the store is
	// crowded, and lessRests the same when that has lasted for longer than patient: who
	// gives way to an endless stream would never be found in again.
	rests, lessRests = 3, 1
	patient          = 15 * time.Minute
	// longestRest keeps a worker at work whose steps take long.
	longestRest = 10 * time.Second
)

// crowd says whether there is more urgent work than what is made behind the messages.
type crowd interface {
	Crowded(ctx context.Context) (bool, error)
}

// pace makes the worker give way to redrives and to a flood of messages: what it
// does can wait, what they do is waited for.
type pace struct {
	asked   time.Time // when the store was asked last
	since   time.Time // since when it is crowded; zero when it is not
	crowded bool
}

// rest is how long to wait after a step that took so long, when there is more to do.
// A store that does not answer is taken for crowded.
func (p *pace) rest(ctx context.Context, store crowd, took time.Duration) time.Duration {
	now := time.Now()
	if p.asked.IsZero() || now.Sub(p.asked) >= crowdedAge {
		crowded, err := store.Crowded(ctx)
		if now.Sub(p.asked) > forgotten { // there was nothing to do for a while
			p.since = time.Time{}
		}
		p.asked, p.crowded = now, crowded || err != nil
		switch {
		case !p.crowded:
			p.since = time.Time{}
		case p.since.IsZero():
			p.since = now
		}
	}
	switch {
	case !p.crowded:
		return 0
	case now.Sub(p.since) > patient:
		return min(lessRests*took, longestRest)
	default:
		return min(rests*took, longestRest)
	}
}
