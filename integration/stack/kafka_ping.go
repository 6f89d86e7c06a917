package stack

import (
	"context"
	"errors"

	"github.com/segmentio/kafka-go"
)

// pingKafka succeeds when the broker serves clients and groups. Asking for the
// offsets of a group makes a new broker create the topic that keeps them, and
// tells when a returning broker has read it; the first group would have to wait
// for that otherwise, and kafka-go waits five seconds at a time.
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
	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: "stack"})
	if err != nil {
		return err
	}
	if errors.Is(offsets.Error, kafka.GroupIdNotFound) {
		return nil // kfake's way to say that the group has no offsets
	}
	return offsets.Error
}
