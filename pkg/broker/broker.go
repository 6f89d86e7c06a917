package broker

import (
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
)

// Option configures a Cluster.
type Option func(*options)

type options struct{ conn conn.Options }

// WithDial replaces the function that opens TCP connections, for tests with faults of the network.
func WithDial(dial DialFunc) Option { return func(o *options) { o.conn.Dial = dial } }

// WithTokenReport sets a function that gets the result of every request for a token, nil for success. While a token is
// valid, a failed request fails nothing else.
func WithTokenReport(report func(error)) Option {
	return func(o *options) { o.conn.TokenReport = report }
}

// Cluster is a connection pool to one Kafka cluster. It is safe for concurrent use. No call creates a topic.
type Cluster struct {
	pool    *conn.Pool
	leaders *leaders
}

// Open checks cfg without a connection: when the cluster is down, calls fail, and each call tries to connect again.
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
// Consumer groups stay open.
func (c *Cluster) Close() error {
	c.pool.Close()
	return nil
}
