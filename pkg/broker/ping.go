package broker

import "context"

// Ping answers nil when a broker answers. It asks for one topic, whatever the
// answer, since asking for all would cost a large cluster something each time.
func (c *Cluster) Ping(ctx context.Context) error {
	_, err := c.Topics(ctx, "__consumer_offsets")
	return err
}
