package proxy

import (
	"io"
	"time"
)

// Slowness describes a slow network, which affects every connection without breaking one. The zero
// value is a fast network.
type Slowness struct {
	// Latency delays the bytes from the upstream to the client. As in a real network, it does not reduce the number of
	// bytes per second.
	Latency time.Duration

	// BytesPerSecond limits each direction of each connection; 0 means no limit.
	BytesPerSecond int

	// Piece is the largest number of bytes forwarded at once; 0 means no limit.
	Piece int
}

// Slow sets how slow the network is from now on, for open connections too.
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

// If BytesPerSecond is set and Piece is not, bytes are sent in pieces of boundedPiece. The pacer adds up short pauses,
// and waits only when their sum reaches shortestPause.
const (
	boundedPiece  = 4 << 10
	shortestPause = 5 * time.Millisecond
)

// pacer delays one direction of a connection. The zero value is ready.
type pacer struct {
	free time.Time // time at which a network of this bandwidth has transferred the bytes sent so far
}

// send writes b at the network's current speed. It returns false when the connection has ended:
// wait returned false, or the write failed.
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

// owed returns how long to wait until a network of this bandwidth has also transferred the next n bytes.
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
