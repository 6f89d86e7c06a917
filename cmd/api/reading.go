package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// stateAge is the maximum age of a cached value: frequent scrapes must not load the database.
	stateAge = 5 * time.Second

	// stateTimeout limits how long a scrape waits for the database.
	stateTimeout = 2 * time.Second
)

var errNoAnswer = fmt.Errorf("no answer within %s", stateTimeout)

// reading caches the last value that a collector read. The zero value is empty and logs nothing.
type reading[T any] struct {
	log  *zap.Logger // gets a line when queries start to fail and a line when they work again; may be nil
	what string      // the subject of these log lines

	silent  bool // the last query failed
	mu      sync.Mutex
	at      time.Time
	value   T
	known   bool
	pending <-chan struct{} // closed when the query that timed out returns; nil without such a query
}

// current returns the value of ask, at most stateAge old. known is false while the store does not
// answer.
func (r *reading[T]) current(ask func(context.Context) (T, error)) (value T, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) >= stateAge {
		var err error
		r.value, err = r.read(ask)
		r.known = err == nil
		r.at = time.Now()
		r.report(err)
	}
	return r.value, r.known
}

// read calls ask and waits at most stateTimeout. A driver may ignore its context while a server is silent, so read
// returns before the driver does, and starts no second query while the first is pending.
func (r *reading[T]) read(ask func(context.Context) (T, error)) (value T, err error) {
	if r.pending != nil {
		select {
		case <-r.pending: // the answer of the query that timed out would be too old
			r.pending = nil
		default:
			return value, errNoAnswer
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
			return value, failed
		}
		return answer, nil
	case <-ctx.Done():
		r.pending = answered
		return value, errNoAnswer
	}
}

// report logs when queries start to fail and when they work again. It logs no other query, because scrapes never stop.
// It logs these two events, because a missing metric looks like a metric without values.
func (r *reading[T]) report(err error) {
	if r.log == nil || r.silent == (err != nil) {
		return
	}
	r.silent = err != nil
	if r.silent {
		r.log.Warn("metrics are missing: the database does not answer", zap.String("of", r.what), zap.Error(err))
		return
	}
	r.log.Info("metrics are back: the database answers", zap.String("of", r.what))
}
