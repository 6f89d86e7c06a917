package main

import (
	"context"
	"sync"
	"time"
)

const (
	// stateAge is how old numbers of the database may be: scrapers must not load it.
	stateAge = 5 * time.Second

	// stateTimeout is how long a scrape waits for them.
	stateTimeout = 2 * time.Second
)

// reading is what a collector read last. The zero value has read nothing.
type reading[T any] struct {
	mu      sync.Mutex
	at      time.Time
	value   T
	known   bool
	pending <-chan struct{} // a question that was given up and is not answered yet; or nil
}

// current returns what ask answers, or answered a moment ago; known is false while the
// store does not answer.
func (r *reading[T]) current(ask func(context.Context) (T, error)) (value T, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) >= stateAge {
		r.value, r.known = r.read(ask)
		r.at = time.Now()
	}
	return r.value, r.known
}

// read waits for an answer, for a time. A driver may wait for a silent server whatever
// its context says, so nobody waits for it here, and no second question is asked beside
// it.
func (r *reading[T]) read(ask func(context.Context) (T, error)) (value T, known bool) {
	if r.pending != nil {
		select {
		case <-r.pending: // what it was told is too old by now
			r.pending = nil
		default:
			return value, false
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), stateTimeout)
	defer cancel()
	var answer T
	var failed error
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		answer, failed = ask(ctx)
	}()
	select {
	case <-answered:
		if failed != nil {
			return value, false
		}
		return answer, true
	case <-ctx.Done():
		r.pending = answered
		return value, false
	}
}
