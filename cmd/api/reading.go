package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// stateAge is how old numbers of the database may be: scrapers must not load it.
	stateAge = 5 * time.Second

	// stateTimeout is how long a scrape waits for them.
	stateTimeout = 2 * time.Second
)

var errNoAnswer = fmt.Errorf("no answer within %s", stateTimeout)

// reading holds the last value that a collector read. The zero value holds none and
// reports no failure.
type reading[T any] struct {
	log  *zap.Logger // has one line when answers cease and one when they come again; or nil
	what string      // the subject of these lines

	silent  bool // there was no answer the last time
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
		var err error
		r.value, err = r.read(ask)
		r.known = err == nil
		r.at = time.Now()
		r.report(err)
	}
	return r.value, r.known
}

// read waits for an answer, for a time. A driver may wait for a silent server whatever
// its context says, so the scrape does not wait for it, and no second question is asked beside
// it.
func (r *reading[T]) read(ask func(context.Context) (T, error)) (value T, err error) {
	if r.pending != nil {
		select {
		case <-r.pending: // its answer is too old by now
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

// report logs that there is no answer when there was one before, and the other way round:
// scrapes come for ever, and metrics that are missing look like those of nothing.
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
