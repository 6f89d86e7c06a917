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
	c, err := broker.Open(cfg, opts...)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// admin makes and deletes topics by kafka-go's client, not by ours.
func admin(t testing.TB) *kafka.Client {
	transport := &kafka.Transport{MetadataTTL: 200 * time.Millisecond}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafka.Client{Addr: kafka.TCP(stacktest.Kafka(t)...), Transport: transport}
}

func uniqueName(t testing.TB) string {
	name := strings.NewReplacer("/", "-", "#", "").Replace(t.Name())
	return fmt.Sprintf("broker.%s.%s", name, uuid.NewString()[:8])
}

func createTopic(t testing.TB, partitions int, settings ...kafka.ConfigEntry) string {
	t.Helper()
	name := uniqueName(t)
	createNamed(t, name, partitions, settings...)
	return name
}

func createNamed(t testing.TB, name string, partitions int, settings ...kafka.ConfigEntry) {
	t.Helper()
	stacktest.CreateTopic(t, admin(t), kafka.TopicConfig{
		Topic: name, NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: settings,
	})
	t.Cleanup(func() { deleteTopic(t, name) })
}

func deleteTopic(t testing.TB, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := admin(t).DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{name}}); err != nil {
		t.Errorf("delete topic %s: %v", name, err)
	}
}

// eventually asks until ok, a bounded number of times.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for range 500 {
		if ok() {
			return
		}
		<-ticker.C
	}
	t.Fatalf("never came: %s", what)
}

func end(t testing.TB, c *broker.Cluster, tp broker.TopicPartition) int64 {
	t.Helper()
	ends, err := c.EndOffsets(testContext(t), []broker.TopicPartition{tp})
	if err != nil {
		t.Fatalf("EndOffsets(%s): %v", tp, err)
	}
	return ends[tp]
}

func mustProduce(t testing.TB, c *broker.Cluster, tp broker.TopicPartition, records ...broker.Record) broker.ProduceResult {
	t.Helper()
	res := c.NewProducer(broker.ProducerConfig{Timeout: 20 * time.Second}).Produce(testContext(t), tp, records)
	if err := res.Err(); err != nil {
		t.Fatalf("Produce(%s): %v", tp, err)
	}
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
	err := c.Scan(testContext(t), tp, 0, end(t, c, tp), "", func(r broker.Record) bool {
		all = append(all, r.Clone())
		return false
	})
	if err != nil {
		t.Fatalf("Scan(%s): %v", tp, err)
	}
	return all
}

func texts(records []broker.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	return strings.Join(out, " ")
}

// faultyNetwork drops the answers to produce requests: the broker has written
// its answer, the client sees the connection end.
type faultyNetwork struct {
	mu      sync.Mutex
	drop    int // answers still to drop, negative for all
	dropped int
	onSent  func()
	open    []net.Conn
	sent    map[protocol.ApiKey]int
}

func (f *faultyNetwork) count(key protocol.ApiKey) (n int) {
	f.set(func(f *faultyNetwork) { n = f.sent[key] })
	return n
}

// cut ends every connection, as a broker's restart does.
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
			_, _ = c.Conn.Read(make([]byte, 4096)) // the broker is done when it answers
			return 0, io.EOF
		}
	}
	return c.Conn.Read(b)
}

func sameBytes(a, b []byte) bool {
	return (a == nil) == (b == nil) && bytes.Equal(a, b)
}

func deleteRecordsRequest(tp broker.TopicPartition, offset int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	topic, partition := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	topic.Topic, partition.Partition, partition.Offset = tp.Topic, tp.Partition, offset
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	return req
}
