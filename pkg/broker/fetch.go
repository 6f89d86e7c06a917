package broker

import (
	"context"
	"fmt"
	"slices"

	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
)

// Fetch reads many partitions of one leader. The returned error concerns the whole request; the error of a single
// partition is in that partition's entry of the response.
//
// Keys and values of uncompressed batches point into the bytes of the broker's answer, one block of memory for each
// partition. Keys and values of compressed batches point into blocks of at most 128 KiB, or have memory of their own
// when their record is larger.
func (c *Cluster) Fetch(ctx context.Context, req FetchRequest) (FetchResponse, error) {
	if len(req.Partitions) == 0 {
		return FetchResponse{}, nil
	}
	if req.MaxBytes <= 0 {
		req.MaxBytes = protocol.DefaultFetchBytes
	}
	// After ctx ends, Fetch returns, but a connection may still read the request. The caller may meanwhile change its list
	// of partitions, so the request gets a copy of the list.
	req.Partitions = slices.Clone(req.Partitions)
	d := protocol.NewFetchDecoder(req)
	res, err := conn.Ask(ctx, c.pool, req.Leader, conn.RequestTimeout+req.MaxWait, d.Request())
	if err != nil {
		return FetchResponse{}, fmt.Errorf("fetch from broker %d: %w", req.Leader, err)
	}
	return d.Decode(res), nil
}
