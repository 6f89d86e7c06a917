// Package stacktest provides servers for tests: one PostgreSQL, one Kafka, one S3 server and one OpenSearch node per
// test process, started for the first test that needs them. Each test creates its own database, topics and consumer
// groups with unique names.
package stacktest

import (
	"context"
	"errors"
	"flag"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/integration/stack"
)

// patience limits the start of a server. In the first run on a machine, this includes the download of the server.
const patience = 10 * time.Minute

// shared is one server for all tests of the process. It is a package variable, because there is no other place that all
// tests can reach.
type shared[S interface{ Stop() error }] struct {
	run     func(context.Context) (S, error)
	start   sync.Once
	server  S
	running bool
	err     error
}

var (
	postgres   = started(stack.Options{Postgres: true, Fast: true, Log: os.Stderr})
	broker     = started(stack.Options{Kafka: true, Fast: true, Log: os.Stderr})
	secured    = &shared[*stack.Stack]{run: startSecured}
	s3         = &shared[*stack.S3]{run: stack.StartS3}
	openSearch = &shared[*stack.OpenSearch]{run: stack.StartOpenSearch}
)

func started(opts stack.Options) *shared[*stack.Stack] {
	return &shared[*stack.Stack]{run: func(ctx context.Context) (*stack.Stack, error) { return stack.Start(ctx, opts) }}
}

func startSecured(ctx context.Context) (*stack.Stack, error) {
	authority, err := stack.NewAuthority()
	if err != nil {
		return nil, err
	}
	return stack.Start(ctx, stack.Options{Kafka: true, Own: true, Fast: true, Log: os.Stderr, KafkaAuthority: authority})
}

// Postgres returns the superuser's URL of a running PostgreSQL. Without a server the test fails; it
// is never skipped.
func Postgres(t testing.TB) string {
	t.Helper()
	return postgres.get(t).DatabaseURL()
}

// Kafka returns the addresses of a running Kafka, which creates no topics automatically. Without a
// broker the test fails; it is never skipped.
func Kafka(t testing.TB) []string {
	t.Helper()
	return broker.get(t).Brokers()
}

// SecuredKafka returns a running Kafka with access rules and a listener for clients with certificates, as
// stack.Options.KafkaAuthority describes. Each test uses names of its own for users, topics and groups. Without a broker
// the test fails; it is never skipped.
func SecuredKafka(t testing.TB) *stack.Stack {
	t.Helper()
	return secured.get(t)
}

// S3 returns a running S3 server. Each test creates its own bucket. Without a server the test fails; it is never
// skipped.
func S3(t testing.TB) *stack.S3 {
	t.Helper()
	return s3.get(t)
}

// OpenSearch returns a running node of OpenSearch. Each test uses an index prefix of its own. Without a node the test
// fails; it is never skipped.
func OpenSearch(t testing.TB) *stack.OpenSearch {
	t.Helper()
	return openSearch.get(t)
}

// Main runs the tests of a package, stops the servers they started and exits. Call it from TestMain. Without Main, the
// servers still end with the process on Linux, but their data remains until the next start of a stack.
func Main(m interface{ Run() int }) {
	code := m.Run()
	postgres.stop()
	broker.stop()
	secured.stop()
	s3.stop()
	openSearch.stop()
	os.Exit(code)
}

// Parallel sets the number of tests of a package that run at the same time, unless the flag -parallel was given. By
// default it is the number of processors, which is few for tests that mostly wait for servers. TestMain calls Parallel
// before Main.
func Parallel(tests int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", strconv.Itoa(tests))
	}
}

func (s *shared[S]) get(t testing.TB) S {
	t.Helper()
	s.start.Do(func() {
		// Later tests use the server too, so its start must not depend on the context of this test.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.server, s.err = s.run(ctx)
		s.running = s.err == nil
	})
	if s.err != nil {
		t.Fatalf("a test needs a server: %v", s.err)
	}
	return s.server
}

// stop stops the server after the last test. What it cannot remove, the next start of a stack removes.
func (s *shared[S]) stop() {
	if s.running {
		_ = s.server.Stop()
	}
}

// Admin returns a client of kafka-go for the test's Kafka. It uses no code of dlq-manager.
func Admin(t testing.TB) *kafka.Client {
	t.Helper()
	transport := &kafka.Transport{MetadataTTL: 200 * time.Millisecond}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafka.Client{Addr: kafka.TCP(Kafka(t)...), Transport: transport}
}

// CreateTopic creates a topic, which is deleted at the end of the test.
func CreateTopic(t testing.TB, name string, partitions int, settings ...kafka.ConfigEntry) {
	t.Helper()
	client := Admin(t)
	topic := kafka.TopicConfig{Topic: name, NumPartitions: partitions, ReplicationFactor: -1, ConfigEntries: settings}
	err := whenAvailable(context.WithoutCancel(t.Context()), func(ctx context.Context) error {
		res, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{topic}})
		if err != nil {
			return err
		}
		return res.Errors[name]
	})
	if err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
	t.Cleanup(func() { DeleteTopic(t, name) })
}

// DeleteTopic deletes a topic if it exists.
func DeleteTopic(t testing.TB, name string) {
	t.Helper()
	client := Admin(t)
	err := whenAvailable(context.Background(), func(ctx context.Context) error {
		res, err := client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{name}})
		if err != nil {
			return err
		}
		return res.Errors[name]
	})
	if err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) {
		t.Errorf("delete topic %s: %v", name, err)
	}
}

// whenAvailable repeats change, for at most one minute, while the broker is unavailable. On a busy machine, the broker
// may register at the controller only after some seconds.
func whenAvailable(ctx context.Context, change func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := change(ctx)
		if !errors.Is(err, kafka.BrokerNotAvailable) || ctx.Err() != nil {
			return err
		}
		<-ticker.C
	}
}
