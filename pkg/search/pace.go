package search

import (
	"context"
	"time"
)

const (
	// loadAge is the time for which an answer of UnderLoad is used.
	loadAge = time.Second
	// longestRest is the longest pause of a worker under load, after a step that took long.
	longestRest = 10 * time.Second
)

// LoadReporter is a store that reports whether it is under load, such as by redrives and heavy ingest.
type LoadReporter interface {
	UnderLoad(ctx context.Context) (bool, error)
}

// pace slows a worker down while the store is under load. The worker then pauses after each step for as long as the step
// took, at most longestRest.
type pace struct {
	asked     time.Time // when UnderLoad was last called
	underLoad bool
}

// rest returns the pause after a step that took the time in took, when more messages wait. A store that does not answer,
// and a nil store, count as under load.
func (p *pace) rest(ctx context.Context, store LoadReporter, took time.Duration) time.Duration {
	if store == nil {
		return min(took, longestRest)
	}
	if now := time.Now(); p.asked.IsZero() || now.Sub(p.asked) >= loadAge {
		underLoad, err := store.UnderLoad(ctx)
		p.asked, p.underLoad = now, underLoad || err != nil
	}
	if !p.underLoad {
		return 0
	}
	return min(took, longestRest)
}
