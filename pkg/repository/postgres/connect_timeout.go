package postgres

import (
	"context"
	"net"
	"time"
)

// timedDialer makes connections that do not wait for a silent server for ever.
// lib/pq reads only while it waits for an answer, and goes on waiting when the
// statement's context has ended: without a deadline of the connection itself, a
// server whose processes hang, though its machine still answers, holds up every
// caller.
type timedDialer struct {
	plain net.Dialer
	limit time.Duration // of silence; 0: none
}

// Dial is part of pq.Dialer.
func (d timedDialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout is part of pq.Dialer.
func (d timedDialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// DialContext is part of pq.DialerContext, which the driver prefers.
func (d timedDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.plain.DialContext(ctx, network, address)
	if err != nil || d.limit <= 0 {
		return c, err
	}
	return &timedConn{Conn: c, limit: d.limit}, nil
}

// timedConn gives every single read and write the same time. Its errors stay
// those of package net: the driver knows the connection for broken by them.
type timedConn struct {
	net.Conn
	limit time.Duration
	until time.Time // the driver's own deadline while it signs in
}

// SetDeadline bounds everything up to the moment t, the zero time nothing.
func (c *timedConn) SetDeadline(t time.Time) error {
	c.until = t
	return c.Conn.SetDeadline(t)
}

// Read waits at most for the limit. After that the connection is of no use:
// the answer may still come, and would be taken for the next one's.
func (c *timedConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(c.deadline()); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	return n, c.closeOnTimeout(err)
}

// writeChunk is what must be taken within the limit: the time is for silence,
// and a large record on a slow line is not silence.
const writeChunk = 64 << 10

// Write gives each part of b the limit.
func (c *timedConn) Write(b []byte) (written int, err error) {
	for first := true; first || len(b) > 0; first = false {
		part := b[:min(len(b), writeChunk)]
		if err := c.SetWriteDeadline(c.deadline()); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(part)
		written += n
		if err != nil {
			return written, c.closeOnTimeout(err)
		}
		b = b[n:]
	}
	return written, nil
}

func (c *timedConn) deadline() time.Time {
	deadline := time.Now().Add(c.limit)
	if !c.until.IsZero() && c.until.Before(deadline) {
		return c.until
	}
	return deadline
}

func (c *timedConn) closeOnTimeout(err error) error {
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // package net wraps nothing around it
		_ = c.Close()
	}
	return err
}
