package protocol

import (
	"context"
	"errors"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker/brokertest"
)

// TestReads_EndWithTheirContext: in the middle of a batch. Package broker tests the end between two portions.
func TestReads_EndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	data := brokertest.BatchOf(t, brokertest.Zstd, brokertest.Record{Value: 200 << 20})
	limits := Limits{RecordBytes: 128 << 20, Headers: 1, BatchBytes: 1 << 30}
	c := decodeOne(FetchRequest{Stream: true, Limits: limits}, FetchPartition{}, nil, data).Portions.(*Cursor)
	if _, _, err := c.ReadWithin(ctx, 8<<20, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("ReadWithin = %v, want %v", err, context.Canceled)
	}
	n := c.reader.(*batchReader).src.work
	check.True(t, n <= 1<<20, "%d bytes were decompressed after the end", n)
}
