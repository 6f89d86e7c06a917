// Package budget shares a number of units, such as bytes of memory, between the requests of several clients.
package budget

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

var (
	// ErrShare means that the client itself has used up its share.
	ErrShare = errors.New("the principal's share is used up")
	// ErrFull means that all clients together have used up the budget, or that a client asked for more than a share.
	ErrFull = errors.New("the budget is used up")
)

// Timeout is how long a request waits at most for units that other requests hold.
const Timeout = 5 * time.Second

// A Budget is a number of units that requests share. One principal gets at most half of the budget. It is safe for
// concurrent use.
type Budget struct {
	Total, Share int64 // units of all principals together, and of one; constant

	mu      sync.Mutex
	used    int64
	by      map[string]int64
	waiting []*waiter
}

// waiter waits for units of a budget; granted is closed when the waiter has the units.
type waiter struct {
	who     string
	n       int64
	granted chan struct{}
}

// New returns a budget of total units. Each principal may have half of them, but at least one.
func New(total int64) *Budget {
	return &Budget{Total: total, Share: max(1, total/2), by: map[string]int64{}}
}

// Try takes n units for the client named who if these units are free and within the client's share, and reports whether
// it took them.
func (b *Budget) Try(who string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(who, n)
}

func (b *Budget) take(who string, n int64) bool {
	if b.used+n > b.Total || b.by[who]+n > b.Share {
		return false
	}
	b.used += n
	b.by[who] += n
	return true
}

// Force takes n units even if they are not free, because they are already in use.
func (b *Budget) Force(who string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	b.by[who] += n
}

// Wait takes n units for the client named who, and waits at most Timeout for them. The error is ErrShare when the
// principal's own share is used up, ErrFull when the whole budget is used up or n is more than a share, and the
// context's error when ctx ends first.
func (b *Budget) Wait(ctx context.Context, who string, n int64) error {
	b.mu.Lock()
	if b.take(who, n) {
		b.mu.Unlock()
		return nil
	}
	if n > b.Share {
		b.mu.Unlock()
		return ErrFull // a client never gets more than its share, so waiting would be in vain
	}
	w := &waiter{who: who, n: n, granted: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()

	timer := time.NewTimer(Timeout)
	defer timer.Stop()
	var err error
	select {
	case <-w.granted:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	at := slices.Index(b.waiting, w)
	if at < 0 { // a release has granted the units just before the wait ended
		return nil
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	switch {
	case err != nil:
		return err
	case b.by[who]+n > b.Share:
		return ErrShare
	default:
		return ErrFull
	}
}

// Release gives n units of the client named who back. It then serves the waiters in order; a waiter that cannot be
// served yet does not delay other waiters.
func (b *Budget) Release(who string, n int64) {
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	if b.by[who] -= n; b.by[who] == 0 {
		delete(b.by, who)
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(w *waiter) bool {
		if !b.take(w.who, w.n) {
			return false
		}
		close(w.granted)
		return true
	})
}

// Held returns how many units are taken, and how many requests wait for units.
func (b *Budget) Held() (used int64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, len(b.waiting)
}
