package shop

import (
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// first returns the script's first record that belongs to the topic and whose turn satisfies wanted.
func first(t *testing.T, topic string, wanted func(turn int) bool) *kgo.Record {
	t.Helper()
	for n := range streams * round {
		rec := newScript(DefaultConfig()).record(n, time.UnixMilli(1714554000000))
		if rec.Topic == topic && wanted(n/streams) {
			return rec
		}
	}
	t.Fatalf("the script has no such record of %s", topic)
	return nil
}

func withNewProduct(turn int) bool { return newProductTurns[turn] }

func cutOff(turn int) bool { return orderDefects[turn] == truncated }

// sentBack returns the record as dlq-manager would republish it.
func sentBack(rec *kgo.Record, id string) *kgo.Record {
	again := *rec
	again.Headers = append([]kgo.RecordHeader{}, rec.Headers...)
	again.Headers = append(again.Headers, text(idHeader, id))
	return &again
}

func TestService(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	clock := time.UnixMilli(0)
	w := newWorld(DefaultConfig(), func() time.Time { return clock })
	w.open()
	orders := newOrders("", w, newLogbook(&log))

	curable, broken := first(t, OrdersTopic, withNewProduct), first(t, OrdersTopic, cutOff)
	steps := []struct {
		name string
		rec  *kgo.Record
		dead bool
		log  string
	}{
		{"FailsWhileTheCauseLasts", curable, true, ""},
		{
			"SaysThatItFailedAgain", sentBack(curable, "id-1"), true,
			"orders-service dead-lettered order O-1004 again (redelivered, dlq-message-id id-1): product P-NEW-3 is not in the catalogue\n",
		},
		{
			"AcceptsWhatIsCured", sentBack(curable, "id-1"), false,
			"orders-service accepted order O-1004 (redelivered, dlq-message-id id-1)\n",
		},
		{
			"ConsumesOnce", sentBack(curable, "id-1"), false,
			"orders-service skipped order O-1004 (dlq-message-id id-1 was accepted before)\n",
		},
		{
			"AcceptsAnotherIDAnew", sentBack(curable, "id-2"), false,
			"orders-service accepted order O-1004 (redelivered, dlq-message-id id-2)\n",
		},
		{
			"NeverAcceptsABrokenBody", sentBack(broken, "id-3"), true,
			"orders-service dead-lettered order O-1007 again (redelivered, dlq-message-id id-3): Unexpected end-of-input: expected close marker for Object\n",
		},
	}
	for _, step := range steps {
		if step.name == "AcceptsWhatIsCured" {
			w.recover()
		}
		log.Reset()
		letter := orders.consume(step.rec)
		if (letter != nil) != step.dead || log.String() != step.log {
			t.Errorf("%s: dead letter %v, log %q; want %v, %q", step.name, letter != nil, log.String(), step.dead, step.log)
		}
		if letter != nil && (!bytes.Equal(letter.Value, step.rec.Value) || !bytes.Equal(letter.Key, step.rec.Key)) {
			t.Errorf("%s: the dead letter has another key or value than the record", step.name)
		}
	}
}

func TestBurstFailuresAreKnownBeforehand(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Brokers = []string{"unused:9092"}
	s, err := New(cfg, nil)
	check.NoError(t, err)
	want := map[string]int{OrdersDeadLetters: 5, PaymentsDeadLetters: 6, UsersDeadLetters: 4}
	if got := s.BurstFailures(); !maps.Equal(got, want) {
		t.Errorf("BurstFailures = %v, want %v", got, want)
	}
}

func TestServiceTries(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		temporary bool
		want      int
	}{
		"ThreeTimesWhatMayPass": {true, 3},
		"OnceWhatCannotPass":    {false, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			s := &service{handle: func(*kgo.Record) *failure { calls++; return &failure{temporary: c.temporary} }}
			if f := s.try(failing()); f.attempts != c.want || calls != c.want {
				t.Errorf("%d calls, attempts %d, want %d", calls, f.attempts, c.want)
			}
		})
	}
}

func TestCauses(t *testing.T) {
	t.Parallel()
	w := newWorld(DefaultConfig(), time.Now)
	w.open()
	log := newLogbook(nil)
	services := map[string]*service{
		OrdersTopic: newOrders("", w, log), PaymentsTopic: newPayments("", w, log), UsersTopic: newUsers("", log),
	}
	found := map[string]int{}
	for n := range 60 {
		rec := newScript(DefaultConfig()).record(n, time.Now())
		svc := services[rec.Topic]
		if f := svc.try(rec); f != nil {
			found[svc.noun+": "+f.reason()]++
		}
	}
	for _, want := range []struct {
		text  string
		count int
	}{
		{"order: product P-NEW-", 2},
		{"order: Unexpected end-of-input", 1},
		{"order: Cannot deserialize value of type `java.math.BigDecimal`", 1},
		{"order: order has no body", 1},
		{"payment: Read timed out", 4},
		{"payment: Invalid UTF-8", 1},
		{"payment: Cannot deserialize value of type `java.math.BigDecimal`", 1},
		{"user: ERROR: duplicate key", 2},
		{"user: com.fasterxml.jackson.core.io.JsonEOFException", 1},
		{"user: Sink connector 'users-service'", 1},
	} {
		got := 0
		for reason, count := range found {
			if strings.HasPrefix(reason, want.text) {
				got += count
			}
		}
		check.True(t, got == want.count, "of the first 60 records %d fail with %q, want %d; all: %v", got, want.text, want.count, found)
	}
}
