package redrive

import (
	"context"
	"sync"
	"time"
)

// bell wakes all waiting goroutines of the process when a redrive may have changed.
type bell struct {
	mu sync.Mutex
	ch chan struct{}
}

// listen returns a channel that is closed at the next ring.
func (b *bell) listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// until waits for a ring or for d, whichever is first. It returns false when ctx ended first.
func until(ctx context.Context, ring <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ring:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}
