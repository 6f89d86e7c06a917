package shop

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// TestShop runs a whole shop on a real Kafka.
func TestShop(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	log := make(logLines, 1000)
	s, err := New(cfg, log)
	check.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	closed := make(chan error, 1)
	open, closeShop := context.WithCancel(ctx)
	defer closeShop()
	go func() { closed <- s.Run(open) }()

	letters := deadLetters(t, ctx, cfg, 15)
	curable := find(t, letters, "com.example.shop.catalogue.UnknownProductException")
	broken := find(t, letters, "com.fasterxml.jackson.core.io.JsonEOFException")

	s.Recover()
	sendBack(t, ctx, cfg, curable, "id-curable")
	log.await(t, ctx, "accepted order "+string(curable.Key)+" (redelivered, dlq-message-id id-curable)")
	sendBack(t, ctx, cfg, curable, "id-curable")
	log.await(t, ctx, "skipped order "+string(curable.Key)+" (dlq-message-id id-curable was accepted before)")
	sendBack(t, ctx, cfg, broken, "id-broken")
	log.await(t, ctx, "dead-lettered order "+string(broken.Key)+" again (redelivered, dlq-message-id id-broken)")

	returned := find(t, deadLetters(t, ctx, cfg, 16), "id-broken")
	if origins := count(returned, "kafka_dlt-original-offset"); origins != 2 || string(returned.Value) != string(broken.Value) {
		t.Errorf("the returned order has %d origins and value %q, want 2 and %q", origins, returned.Value, broken.Value)
	}

	closeShop()
	if err := <-closed; err != nil {
		t.Errorf("Run = %v after its context ended, want nil", err)
	}
}

func TestShopWithoutKafkaStopsCleanly(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Brokers = []string{"127.0.0.1:1"}
	s, err := New(cfg, nil)
	check.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// testConfig returns the configuration of a shop that writes its burst and no further records during a test.
func testConfig(t *testing.T) Config {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Brokers = stacktest.Kafka(t)
	cfg.Prefix = "shop-" + strings.ToLower(rand.Text()[:8]) + "."
	cfg.Interval = time.Hour
	cfg.Outage, cfg.CatalogueLag = time.Hour, time.Hour
	return cfg
}

// deadLetters reads n records from the beginning of the dead-letter topics.
func deadLetters(t *testing.T, ctx context.Context, cfg Config, n int) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ConsumeTopics(cfg.Prefix+OrdersDeadLetters, cfg.Prefix+PaymentsDeadLetters, cfg.Prefix+UsersDeadLetters))
	check.NoError(t, err)
	defer client.Close()
	var letters []*kgo.Record
	for len(letters) < n {
		letters = append(letters, client.PollFetches(ctx).Records()...)
		if ctx.Err() != nil {
			t.Fatalf("%d dead letters in time, want %d", len(letters), n)
		}
	}
	if len(letters) != n {
		t.Fatalf("%d dead letters, want %d", len(letters), n)
	}
	return letters
}

// find returns the first dead letter that has a header with this value.
func find(t *testing.T, letters []*kgo.Record, value string) *kgo.Record {
	t.Helper()
	for _, letter := range letters {
		for _, h := range letter.Headers {
			if string(h.Value) == value {
				return letter
			}
		}
	}
	t.Fatalf("no dead letter has a header with the value %s", value)
	return nil
}

func count(rec *kgo.Record, key string) (n int) {
	for _, h := range rec.Headers {
		if h.Key == key {
			n++
		}
	}
	return n
}

func sendBack(t *testing.T, ctx context.Context, cfg Config, letter *kgo.Record, id string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(cfg.Brokers...))
	check.NoError(t, err)
	defer client.Close()
	again := sentBack(letter, id)
	again.Topic = cfg.Prefix + OrdersTopic
	check.NoError(t, client.ProduceSync(ctx, again).FirstErr())
}

// logLines is a log that a test can wait for. A shop writes each line with one call.
type logLines chan string

func (l logLines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func (l logLines) await(t *testing.T, ctx context.Context, text string) {
	t.Helper()
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("no line with %q in time", text)
		}
	}
}
