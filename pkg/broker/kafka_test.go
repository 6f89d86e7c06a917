package broker_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, addresses []string, opts ...broker.Option) *broker.Cluster {
	t.Helper()
	cfg := broker.DefaultConfig()
	cfg.Brokers = addresses
	return openWith(t, cfg, opts...)
}

func openWith(t testing.TB, cfg broker.Config, opts ...broker.Option) *broker.Cluster {
	t.Helper()
	c := check.Must(broker.Open(cfg, opts...))(t)
	t.Cleanup(func() { c.Close() })
	return c
}

func uniqueName(t testing.TB) string {
	name := strings.NewReplacer("/", "-", "#", "").Replace(t.Name())
	return fmt.Sprintf("broker.%s.%s", name, uuid.NewString()[:8])
}

// onePartition returns a real cluster and the partition of a new topic.
func onePartition(t testing.TB) (*broker.Cluster, broker.TopicPartition) {
	t.Helper()
	return open(t, stacktest.Kafka(t)), broker.TopicPartition{Topic: createTopic(t, 1)}
}

func createTopic(t testing.TB, partitions int, settings ...kafka.ConfigEntry) string {
	t.Helper()
	name := uniqueName(t)
	stacktest.CreateTopic(t, name, partitions, settings...)
	return name
}

func end(t testing.TB, c *broker.Cluster, tp broker.TopicPartition) int64 {
	t.Helper()
	ends := check.Must(c.EndOffsets(testContext(t), []broker.TopicPartition{tp}))(t)
	return ends[tp]
}

func mustProduce(t testing.TB, c *broker.Cluster, tp broker.TopicPartition, records ...broker.Record) broker.ProduceResult {
	t.Helper()
	res := c.NewProducer(broker.ProducerConfig{Timeout: 20 * time.Second}).Produce(testContext(t), tp, records)
	check.NoError(t, res.Err())
	return res
}

func values(texts ...string) []broker.Record {
	records := make([]broker.Record, len(texts))
	for i, text := range texts {
		records[i].Value = []byte(text)
	}
	return records
}

func numbered(n int) []broker.Record {
	records := make([]broker.Record, n)
	for i := range records {
		records[i].Value = fmt.Appendf(nil, "%d", i)
	}
	return records
}

func scanAll(t testing.TB, c *broker.Cluster, tp broker.TopicPartition) []broker.Record {
	t.Helper()
	var all []broker.Record
	check.NoError(t, c.Scan(testContext(t), tp, 0, end(t, c, tp), "", func(r broker.Record) bool {
		all = append(all, r.Clone())
		return false
	}))
	return all
}

func texts(records []broker.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	return strings.Join(out, " ")
}

// faultyNetwork drops the answers to produce requests: the broker has appended the batch and answered, but the client
// only sees that the connection ends.
type faultyNetwork struct {
	mu      sync.Mutex
	drop    int // number of further answers to drop; negative: drop every answer
	dropped int
	onSent  func()
	open    []net.Conn
	sent    map[protocol.ApiKey]int
}

func (f *faultyNetwork) count(key protocol.ApiKey) (n int) {
	f.set(func(f *faultyNetwork) { n = f.sent[key] })
	return n
}

// cut closes every connection, as a broker's restart does.
func (f *faultyNetwork) cut() {
	f.set(func(f *faultyNetwork) {
		for _, conn := range f.open {
			conn.Close()
		}
		f.open = nil
	})
}

func (f *faultyNetwork) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	f.set(func(f *faultyNetwork) { f.open = append(f.open, conn) })
	return &faultyConn{Conn: conn, network: f}, nil
}

func (f *faultyNetwork) set(change func(*faultyNetwork)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *faultyNetwork) dropNow() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.drop == 0 {
		return false
	}
	f.drop--
	f.dropped++
	return true
}

type faultyConn struct {
	net.Conn
	network *faultyNetwork
	left    int
	produce bool
	dead    bool
}

func (c *faultyConn) Write(b []byte) (int, error) {
	if c.left == 0 && len(b) >= 6 {
		c.left = 4 + int(binary.BigEndian.Uint32(b))
		key := protocol.ApiKey(binary.BigEndian.Uint16(b[4:]))
		c.produce = key == protocol.Produce
		c.network.set(func(f *faultyNetwork) {
			if f.sent == nil {
				f.sent = map[protocol.ApiKey]int{}
			}
			f.sent[key]++
		})
	}
	n, err := c.Conn.Write(b)
	if c.left -= n; c.left == 0 && c.produce && c.network.onSent != nil {
		c.network.onSent()
	}
	return n, err
}

func (c *faultyConn) Read(b []byte) (int, error) {
	if c.dead {
		return 0, io.EOF
	}
	if c.produce && c.left == 0 {
		c.produce = false
		if c.network.dropNow() {
			c.dead = true
			_, _ = c.Conn.Read(make([]byte, 4096)) // waits for the broker's answer: then the batch is appended
			return 0, io.EOF
		}
	}
	return c.Conn.Read(b)
}

func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

func deleteRecordsRequest(tp broker.TopicPartition, offset int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	topic, partition := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	topic.Topic, partition.Partition, partition.Offset = tp.Topic, tp.Partition, offset
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	return req
}
