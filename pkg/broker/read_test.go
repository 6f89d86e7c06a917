package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"time"

	kafkaprotocol "github.com/segmentio/kafka-go/protocol"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker/brokertest"
	"github.com/dlq-manager/dlq-manager/pkg/broker/internal/protocol"
)

// TestReads_EndWithTheirContext: a read ends between two portions of a batch when its context ends.
func TestReads_EndWithTheirContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var records []brokertest.Record
	for range 100 {
		records = append(records, brokertest.Record{Value: scanBytes})
	}
	cursor := cursorOf(t, brokertest.BatchOf(t, brokertest.Zstd, records...))
	shown := 0
	s := scan{to: 1000, fn: func(Record) bool { shown++; cancel(); return false }}
	if _, err := s.deliver(ctx, cursor, readBytes); !errors.Is(err, context.Canceled) || shown > 2 || s.next != int64(shown) {
		t.Errorf("deliver = %v after %d records, next %d; want %v after the first", err, shown, s.next, context.Canceled)
	}
}

// cursorOf returns the cursor over a broker's answer with these batches, for partition 0 of a topic without a name.
func cursorOf(t *testing.T, batches []byte) *protocol.Cursor {
	t.Helper()
	b := binary.BigEndian.AppendUint32(nil, 1)  // correlation
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0) // throttle time, number of topics, empty name of the topic
	b = append(b, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) // number of partitions, the partition's number, no error
	b = append(b, make([]byte, 8+8+4)...)       // high watermark and last stable offset, no aborted transactions
	b = binary.BigEndian.AppendUint32(b, uint32(len(batches)))
	b = append(b, batches...)
	d := protocol.NewFetchDecoder(FetchRequest{
		Stream: true, MaxBatchBytes: readBytes, Limits: readLimits(), Partitions: []FetchPartition{{}},
	})
	conn := struct {
		io.Reader
		io.Writer
	}{bytes.NewReader(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)), io.Discard}
	raw := check.Must(d.Request().Exchange(conn, protocol.Versions{kafkaprotocol.Fetch: 4}))(t)
	return d.Decode(raw).Partitions[0].Portions.(*protocol.Cursor)
}

// TestReads_ReserveDecoders: the calls that run at the same time reserve memory for their decoders too, and so never
// use more than the limit for all reads.
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
