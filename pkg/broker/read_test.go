package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker/brokertest"
)

// TestReads_EndWithTheirContext: in the middle of a batch, and between two portions of it.
func TestReads_EndWithTheirContext(t *testing.T) {
	t.Parallel()
	cursor := func(records ...brokertest.Record) *Cursor {
		data := brokertest.BatchOf(t, brokertest.Zstd, records...)
		return decodeOne(FetchRequest{Stream: true, Limits: readLimits()}, FetchPartition{}, nil, data).Portions.(*Cursor)
	}
	t.Run("ReadAt", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c := cursor(brokertest.Record{Value: 200 << 20})
		if _, _, err := c.within(ctx, readBytes, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("within = %v, want %v", err, context.Canceled)
		}
		n := c.reader.(*batchReader).src.work
		check.True(t, n <= 1<<20, "%d bytes were decompressed after the end", n)
	})
	t.Run("Scan", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		var records []brokertest.Record
		for range 100 {
			records = append(records, brokertest.Record{Value: scanBytes})
		}
		shown := 0
		s := scan{to: 1000, fn: func(Record) bool { shown++; cancel(); return false }}
		if _, err := s.show(ctx, cursor(records...), readBytes); !errors.Is(err, context.Canceled) || shown > 2 || s.next != int64(shown) {
			t.Errorf("show = %v after %d records, next %d; want %v after the first", err, shown, s.next, context.Canceled)
		}
	})
}

// TestReads_ReserveDecoders: all running calls together use no more than the reserved memory.
func TestReads_ReserveDecoders(t *testing.T) { //nolint:paralleltest // it takes all the memory for reading
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	total := int64(0)
	for {
		release, err := reserveRead(ctx, readBytes)
		if err != nil {
			break
		}
		defer release()
		total += readBytes + 20<<20
	}
	check.True(t, total != 0 && total <= 240<<20, "calls may take %d bytes, want at most 240 MiB", total)
}
