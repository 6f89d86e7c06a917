package broker

import (
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
)

// Option configures a Cluster.
type Option func(*options)

type options struct{ conn conn.Options }

// WithDial replaces the function that opens TCP connections, so that tests can inject network faults.
func WithDial(dial DialFunc) Option { return func(o *options) { o.conn.Dial = dial } }

// WithTokenReport sets a function that gets the result of every request for a token, nil for success. While the current
// token is valid, sign-ins still succeed after a failed request for a new token.
func WithTokenReport(report func(error)) Option {
	return func(o *options) { o.conn.TokenReport = report }
}

// Cluster is a connection pool to one Kafka cluster. It is safe for concurrent use. No call creates a topic.
type Cluster struct {
	pool    *conn.Pool
	leaders *leaders
}

// Open checks cfg but opens no connection. While the cluster is down, each call of a method tries to connect, and
// fails.
func Open(cfg Config, opts ...Option) (*Cluster, error) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	pool, err := conn.Open(cfg, o.conn)
	if err != nil {
		return nil, err
	}
	return &Cluster{pool: pool, leaders: newLeaders(pool)}, nil
}

// Close closes all connections; a connection in use is closed when its request ends. Later calls fail with ErrClosed.
// It does not close consumer groups that Group returned.
func (c *Cluster) Close() error {
	c.pool.Close()
	return nil
}
