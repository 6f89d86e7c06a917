package bucket

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
)

// stallLimit is how long a connection to the store may be silent while a request is sent or its answer is awaited or
// read. A store that stops in the middle of a body would otherwise hold the request for ever.
const stallLimit = time.Minute

// transport returns the client's own transport, with connections that end after a silence.
func transport(secure bool, limit time.Duration) (http.RoundTripper, error) {
	t, err := minio.DefaultTransport(secure)
	if err != nil {
		return nil, fmt.Errorf("open the bucket: %w", err)
	}
	dial := t.DialContext
	t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &impatient{c, limit}, nil
	}
	return t, nil
}

// impatient is a connection whose reads and writes fail when, for the time limit, no read and no write has begun. A
// write also prolongs a waiting read, because a response is awaited while its request is still being sent.
type impatient struct {
	net.Conn
	limit time.Duration
}

// Read implements net.Conn.
func (c *impatient) Read(b []byte) (int, error) {
	if err := c.Conn.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Read(b)
}

// Write implements net.Conn.
func (c *impatient) Write(b []byte) (int, error) {
	if err := c.Conn.SetDeadline(time.Now().Add(c.limit)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
