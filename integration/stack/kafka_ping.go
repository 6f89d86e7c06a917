package stack

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"
)

// pingKafka succeeds when the broker serves clients and groups. Asking for a
// group's coordinator makes a new broker create the topic of the offsets, which
// the first group would have to wait for otherwise.
func pingKafka(ctx context.Context, broker string) error {
	// A transport remembers that a broker was away, hence a new one each time.
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(broker), Transport: transport}

	meta, err := client.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return err
	}
	if len(meta.Brokers) == 0 {
		return errors.New("the cluster has no broker yet")
	}
	found, err := client.FindCoordinator(ctx, &kafka.FindCoordinatorRequest{
		Key: "stack", KeyType: kafka.CoordinatorKeyTypeConsumer,
	})
	if err != nil {
		return err
	}
	return found.Error
}
