package broker

import (
	"context"
	"fmt"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
)

// Fetch reads many partitions of one leader. The error belongs to the request; a partition's own error is in its
// entry.
//
// Uncompressed records refer to the memory of the answer, one block for each partition; others to blocks of 128 KiB.
func (c *Cluster) Fetch(ctx context.Context, req FetchRequest) (FetchResponse, error) {
	if len(req.Partitions) == 0 {
		return FetchResponse{}, nil
	}
	if req.MaxBytes <= 0 {
		req.MaxBytes = protocol.DefaultFetchBytes
	}
	// A connection may still be working on a cancelled request.
	req.Partitions = slices.Clone(req.Partitions)
	d := protocol.NewFetchDecoder(req)
	res, err := conn.Ask(ctx, c.pool, req.Leader, conn.RequestTimeout+req.MaxWait, d.Request())
	if err != nil {
		return FetchResponse{}, fmt.Errorf("fetch from broker %d: %w", req.Leader, err)
	}
	return d.Decode(res), nil
}
