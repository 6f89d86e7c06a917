package repositorytest

import (
	"sync"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Clock is the clock of a store under test. It stands still until it is moved,
// shows nanoseconds and a zone that is not UTC, neither of which a store may
// keep, and is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows a moment in the past.
func NewClock() *Clock {
	zone := time.FixedZone("IST", 5*3600+1800)
	return &Clock{now: time.Date(2026, 3, 4, 10, 36, 7, 123456789, zone)}
}

// Now returns what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Kept returns what the clock shows as a store keeps it.
func (c *Clock) Kept() time.Time { return entity.Moment(c.Now()) }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
