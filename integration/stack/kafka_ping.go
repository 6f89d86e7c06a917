package stack

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"

	"github.com/segmentio/kafka-go"
)

// pingKafka returns nil when the broker has joined its cluster and serves clients and consumer groups. It also asks for
// the offsets of a consumer group. A new broker then creates its offsets topic, and a restarted broker answers only
// after it has read that topic. Otherwise the first consumer group of a test would wait for that topic, and kafka-go
// waits in steps of five seconds.
func pingKafka(ctx context.Context, broker string) error {
	// A transport remembers an unreachable broker, so each ping uses a new transport.
	transport := &kafka.Transport{}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(broker), Transport: transport}

	meta, err := client.Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(meta.Brokers, func(b kafka.Broker) bool { return net.JoinHostPort(b.Host, strconv.Itoa(b.Port)) == broker }) {
		return errors.New("the broker is not in the cluster yet")
	}
	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: "stack"})
	if err != nil {
		return err
	}
	if errors.Is(offsets.Error, kafka.GroupIdNotFound) {
		return nil // kfake, the stand-in, gives this answer for a consumer group without offsets
	}
	return offsets.Error
}
