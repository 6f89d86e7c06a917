package search

import (
	"context"
	"time"
)

const (
	// crowdedAge is how long an answer to whether the store is under load holds.
	crowdedAge = time.Second
	// longestRest keeps a filler at work whose steps take long.
	longestRest = 10 * time.Second
)

// crowd says whether the store has more urgent work than payloads.
type crowd interface {
	Crowded(ctx context.Context) (bool, error)
}

// pace makes the PayloadFiller give way to redrives and to a flood of messages: while
// there are any, it rests as long as it works.
type pace struct {
	asked   time.Time // when the store was asked last
	crowded bool
}

// rest is how long to wait after a step that took so long, when there is more to do.
// A store that does not answer is taken for crowded.
func (p *pace) rest(ctx context.Context, store crowd, took time.Duration) time.Duration {
	if now := time.Now(); p.asked.IsZero() || now.Sub(p.asked) >= crowdedAge {
		crowded, err := store.Crowded(ctx)
		p.asked, p.crowded = now, crowded || err != nil
	}
	if !p.crowded {
		return 0
	}
	return min(took, longestRest)
}
