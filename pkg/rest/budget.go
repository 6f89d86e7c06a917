package rest

import (
	"context"
	"slices"
	"sync"
	"time"
)

// budgetTimeout is how long a request waits for units that other requests hold; slow clients are disconnected after about
// the same time.
const budgetTimeout = 5 * time.Second

// budget is a number of units that requests share. One principal gets at most half of it. It is safe for concurrent
// use.
type budget struct {
	total, share int64

	mu      sync.Mutex
	used    int64
	by      map[string]int64
	waiting []*waiter
}

// waiter waits for its units; granted is closed when it has them.
type waiter struct {
	who     string
	n       int64
	granted chan struct{}
}

func newBudget(total int64) *budget {
	return &budget{total: total, share: max(1, total/2), by: map[string]int64{}}
}

// try takes n units for who if they are free, else none.
func (b *budget) try(who string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(who, n)
}

func (b *budget) take(who string, n int64) bool {
	if b.used+n > b.total || b.by[who]+n > b.share {
		return false
	}
	b.used += n
	b.by[who] += n
	return true
}

// force takes n units even if they are not free, because they are already in use.
func (b *budget) force(who string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
	b.by[who] += n
}

// wait takes n units for who, and waits at most budgetTimeout for them. The error is errShare when the principal's own
// share is used up, errFull when the budget is, or that of a context that ends first.
func (b *budget) wait(ctx context.Context, who string, n int64) error {
	b.mu.Lock()
	if b.take(who, n) {
		b.mu.Unlock()
		return nil
	}
	if n > b.share {
		b.mu.Unlock()
		return errFull // more than a share is never granted
	}
	w := &waiter{who: who, n: n, granted: make(chan struct{})}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()

	timer := time.NewTimer(budgetTimeout)
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
	if at < 0 { // granted at the same moment
		return nil
	}
	b.waiting = slices.Delete(b.waiting, at, at+1)
	switch {
	case err != nil:
		return err
	case b.by[who]+n > b.share:
		return errShare
	default:
		return errFull
	}
}

// release returns n units of who. Waiters are served in order; a waiter that cannot be served yet does not delay the
// others.
func (b *budget) release(who string, n int64) {
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
