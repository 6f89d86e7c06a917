package broker

import "context"

// Ping returns nil when a broker answers a request for one topic, which is cheap in a large cluster.
func (c *Cluster) Ping(ctx context.Context) error {
	_, err := c.Topics(ctx, "__consumer_offsets")
	return err
}
