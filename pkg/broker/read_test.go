package broker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	kafkaprotocol "github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

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

// TestReadAt_Throttled: while the broker only asks for a pause, ReadAtOnce says so, and ReadAt waits. A throttle is no
// reason to ask for the leader again.
func TestReadAt_Throttled(t *testing.T) {
	t.Parallel()
	kafka := check.Must(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders")))(t)
	defer kafka.Close()
	c := check.Must(Open(Config{Brokers: kafka.ListenAddrs(), SecurityProtocol: "PLAINTEXT"}))(t)
	defer c.Close()
	tp := TopicPartition{Topic: "orders"}
	check.NoError(t, c.NewProducer(ProducerConfig{}).Produce(t.Context(), tp, []Record{{Value: []byte("a")}}).Err())
	check.Must(c.leaders.of(t.Context(), tp))(t)
	var throttled, described atomic.Int32
	kafka.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		kafka.KeepControl()
		if throttled.Add(-1) < 0 {
			return nil, nil, false
		}
		res := req.ResponseKind().(*kmsg.FetchResponse)
		res.ThrottleMillis = 10
		return res, nil, true
	})
	kafka.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		kafka.KeepControl()
		if len(req.(*kmsg.MetadataRequest).Topics) > 0 {
			described.Add(1)
		}
		return nil, nil, false
	})
	throttled.Store(1)
	_, err := c.ReadAtOnce(t.Context(), tp, 0)
	check.Equal(t, check.As[*ThrottledError](t, err, "ReadAtOnce").Pause, 10*time.Millisecond, "pause")
	check.Is(t, err, ErrUnavailable, "ReadAtOnce")
	throttled.Store(throttledTries - 1)
	got, err := c.ReadAt(t.Context(), tp, 0)
	check.True(t, err == nil && string(got.Value) == "a", "ReadAt = %q, %v, want the record", got.Value, err)
	throttled.Store(throttledTries)
	check.Is(t, check.Err(c.ReadAt(t.Context(), tp, 0)), ErrUnavailable, "ReadAt under a throttle without end")
	check.Equal(t, described.Load(), 0, "requests for leaders")
}
