package proxy

import (
	"io"
	"time"
)

// Slowness is what a bad network does to every connection, without breaking one.
// The zero value is a good network.
type Slowness struct {
	// Latency is how much later the upstream's bytes arrive. As in a network,
	// it costs nothing of what can be under way at once.
	Latency time.Duration

	// BytesPerSecond bounds each direction of each connection; 0 is no bound.
	BytesPerSecond int

	// Piece is the largest number of bytes that are sent on at once; 0 means as
	// they come.
	Piece int
}

// Slow sets how slow the network is from now on, for connections that are open
// already as well.
func (p *Proxy) Slow(s Slowness) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slowness = s
}

func (p *Proxy) slow() Slowness {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.slowness
}

// Without a Piece of one's own, what is bounded goes in pieces of this size. A
// pause that is owed is made up to once it is worth a sleep.
const (
	boundedPiece  = 4 << 10
	shortestPause = 5 * time.Millisecond
)

// pacer is one direction of a connection. The zero value is ready.
type pacer struct {
	free time.Time // when the bytes that were sent are through
}

// send writes b as slowly as the network is at that moment. False means that the
// connection is over: wait said so, or the other side does not take any more.
func (c *pacer) send(to io.Writer, b []byte, slow func() Slowness, wait func(time.Duration) bool) bool {
	for len(b) > 0 {
		s := slow()
		n := len(b)
		if s.BytesPerSecond > 0 {
			n = min(n, boundedPiece)
		}
		if s.Piece > 0 {
			n = min(n, s.Piece)
		}
		if pause := c.owed(s, n); pause >= shortestPause && !wait(pause) {
			return false
		}
		if _, err := to.Write(b[:n]); err != nil {
			return false
		}
		b = b[n:]
	}
	return true
}

// owed is how long to wait until n bytes more are through.
func (c *pacer) owed(s Slowness, n int) time.Duration {
	now := time.Now()
	if s.BytesPerSecond <= 0 {
		c.free = now
		return 0
	}
	if c.free.Before(now) {
		c.free = now
	}
	c.free = c.free.Add(time.Duration(n) * time.Second / time.Duration(s.BytesPerSecond))
	return c.free.Sub(now)
}
