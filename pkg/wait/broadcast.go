package wait

import (
	"context"
	"sync"
	"time"
)

// Broadcast wakes all goroutines that wait for a change. The zero value is ready to use. It is safe for concurrent use.
type Broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// Listen returns a channel that the next call of Notify closes.
func (b *Broadcast) Listen() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

// Notify wakes all goroutines that wait on a channel of Listen.
func (b *Broadcast) Notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// Until waits until changed is closed or d has passed. It returns false when ctx ended before that.
func Until(ctx context.Context, changed <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		return false
	}
	return true
}
