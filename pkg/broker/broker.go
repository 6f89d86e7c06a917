// Package broker is the client for Kafka: it lists topics with their ids, reads and writes records byte for byte, and
// reports for every failed write whether the record can be in the log.
//
// All requests use kafka-go's connections, but are addressed to a leader by its broker id instead of kafka-go's
// cached map of topics. That cache therefore holds only brokers (a cluster with thousands of topics is not listed
// again every other second), and a moved leader is noticed when the old one reports it, not when a cache expires.
package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
)

const (
	clientID = "dlq-manager"

	// brokersTTL is how long a new broker or address may stay unknown: short, because the request is small.
	brokersTTL = 2 * time.Second

	dialTimeout    = 3 * time.Second
	requestTimeout = 10 * time.Second
)

// DialFunc opens one network connection to a broker.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Option configures a Cluster.
type Option func(*Cluster)

// WithDial replaces the function that opens TCP connections, for tests with faults of the network.
func WithDial(dial DialFunc) Option { return func(c *Cluster) { c.tcp = dial } }

// Cluster is a connection pool to one Kafka cluster. It is safe for concurrent use. No call creates a topic.
type Cluster struct {
	cfg          Config
	tcp          DialFunc
	certificates certificates
	logins       *secret.Rotation[login]
	follower     follower
	transport    *kafka.Transport
	stop         context.CancelFunc
	closed       atomic.Bool
	leaders      leaderCache
}

// Open checks cfg without a connection: when the cluster is down, calls fail, and each call tries to connect again.
func Open(cfg Config, opts ...Option) (*Cluster, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("open kafka: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	c := &Cluster{
		cfg:          cfg,
		tcp:          (&net.Dialer{Timeout: dialTimeout}).DialContext,
		certificates: certificates{cfg: cfg.TLS},
		logins:       secret.NewRotation(cfg.SASL.login),
		stop:         stop,
		leaders:      leaderCache{topics: map[string]topicLeaders{}},
	}
	for _, opt := range opts {
		opt(c)
	}
	c.transport = &kafka.Transport{
		Dial:        c.dial(dropUnsent),
		DialTimeout: dialTimeout,
		MetadataTTL: brokersTTL,
		// Empty but not nil asks for the brokers and no topic at all.
		MetadataTopics: []string{},
		ClientID:       clientID,
		Context:        ctx,
	}
	return c, nil
}

// Close closes all connections, those in use after their request. Later calls fail with ErrClosed. Groups stay open.
func (c *Cluster) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.transport.CloseIdleConnections()
		c.stop()
	}
	return nil
}

// dial returns a function that opens a connection, secures it and signs in, and lets prepare set socket options
// first. Certificates and secrets are read for each connection: they rotate without a restart.
func (c *Cluster) dial(prepare func(net.Conn)) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		open := func() (net.Conn, error) { return c.open(ctx, network, address, prepare) }
		if !c.cfg.usesSASL() {
			return open()
		}
		return c.signIn(ctx, open)
	}
}

func (c *Cluster) open(ctx context.Context, network, address string, prepare func(net.Conn)) (net.Conn, error) {
	conn, err := c.tcp(ctx, network, address)
	if err != nil {
		return nil, err
	}
	prepare(conn)
	if !c.cfg.usesTLS() {
		return conn, nil
	}
	return c.certificates.secure(ctx, conn, address)
}

// dropUnsent makes close discard bytes that are not sent yet. Otherwise the kernel keeps sending them for minutes,
// and an abandoned batch could still arrive after it was settled and sent again.
func dropUnsent(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

func keepAsIs(net.Conn) {}

// leaderCache caches partitions' leaders, for writes and single reads, until a broker reports another leader.
type leaderCache struct {
	mu     sync.Mutex
	topics map[string]topicLeaders
}

type topicLeaders struct {
	asked      time.Time
	partitions map[int32]int32
}

// leadersTTL may be long: a wrong cached leader costs a round trip, never a wrong result.
const leadersTTL = time.Minute

func (l *leaderCache) get(tp TopicPartition) (int32, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry, ok := l.topics[tp.Topic]
	if !ok || time.Since(entry.asked) > leadersTTL {
		return 0, false
	}
	leader, ok := entry.partitions[tp.Partition]
	return leader, ok && leader >= 0
}

func (l *leaderCache) put(t Topic) {
	partitions := make(map[int32]int32, len(t.Partitions))
	for _, p := range t.Partitions {
		partitions[p.ID] = p.Leader
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics[t.Name] = topicLeaders{asked: time.Now(), partitions: partitions}
}

func (l *leaderCache) forget(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.topics, topic)
}

// leader returns a partition's leader from the cache or from a broker. Errors are those of Topics, or ErrNoLeader.
func (c *Cluster) leader(ctx context.Context, tp TopicPartition) (int32, error) {
	if leader, ok := c.leaders.get(tp); ok {
		return leader, nil
	}
	found, errs, err := c.lookUpLeaders(ctx, []TopicPartition{tp})
	if err != nil {
		return 0, err
	}
	if err := errs[tp]; err != nil {
		return 0, err
	}
	return found[tp], nil
}

// lookUpLeaders asks a broker for the leaders of parts, and returns the errors of those without one.
func (c *Cluster) lookUpLeaders(ctx context.Context, parts []TopicPartition) (map[TopicPartition]int32, map[TopicPartition]error, error) {
	topics, err := c.Topics(ctx, topicNames(parts)...)
	if err != nil {
		return nil, nil, err
	}
	byName := make(map[string]Topic, len(topics))
	for _, t := range topics {
		byName[t.Name] = t
		if t.Err == nil {
			c.leaders.put(t)
		}
	}
	found := make(map[TopicPartition]int32, len(parts))
	errs := map[TopicPartition]error{}
	for _, tp := range parts {
		leader, err := byName[tp.Topic].leaderOf(tp)
		if err != nil {
			errs[tp] = err
			continue
		}
		found[tp] = leader
	}
	return found, errs, nil
}

func topicNames(parts []TopicPartition) []string {
	seen := make(map[string]bool, len(parts))
	names := make([]string, 0, len(parts))
	for _, tp := range parts {
		if !seen[tp.Topic] {
			seen[tp.Topic] = true
			names = append(names, tp.Topic)
		}
	}
	return names
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}
