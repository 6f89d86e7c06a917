package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// stateAge is the maximum age of a cached value. Values are cached so that frequent scrapes cause no load on the
	// database.
	stateAge = 5 * time.Second

	// stateTimeout limits the time for which a scrape waits for the database.
	stateTimeout = 2 * time.Second
)

var errNoAnswer = fmt.Errorf("no answer within %s", stateTimeout)

// reading caches the last value that a collector read. The zero value is empty and logs nothing.
type reading[T any] struct {
	log  *zap.Logger // logs a line when queries begin to fail and when they work again; nil to log nothing
	what string      // the name of the value, for these log lines

	silent  bool // whether the last query failed; always false without log
	mu      sync.Mutex
	at      time.Time
	value   T
	known   bool
	pending <-chan struct{} // closed when the query that timed out returns; nil when there is no such query
}

// current returns the result of the function ask, which is at most stateAge old. known is false when the last call of
// ask failed or timed out.
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

// read calls ask and waits at most stateTimeout. A driver may ignore the end of its context while the server does not
// answer. So read returns without waiting for the driver, and begins no second query while the first is still running.
func (r *reading[T]) read(ask func(context.Context) (T, error)) (value T, err error) {
	if r.pending != nil {
		select {
		case <-r.pending: // the query that timed out has ended; its answer is too old, so a new query begins
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

// report logs when queries begin to fail and when they work again. It does not log every failed query, because scrapes
// never stop. Without these log lines, an operator could not find out why a metric is missing.
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
