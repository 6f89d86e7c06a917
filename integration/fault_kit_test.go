package integration_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/integration/proxy"
	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// pick returns the parameter short, or the parameter long if DLQ_TEST_LONG=1. In a long run, faults last longer and
// occur more often, and some of them occur only then.
func pick[T any](short, long T) T {
	if os.Getenv("DLQ_TEST_LONG") == "1" {
		return long
	}
	return short
}

// lasting waits for d, the duration of a fault.
func lasting(d time.Duration) { <-time.After(d) }

func newProxy(t *testing.T, matcher func() proxy.Matcher) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Listen(matcher)
	check.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

// proxiedKafka starts a Kafka for this test only, and a proxy in front of it. Clients that use the addresses of the
// returned stack bypass the proxy.
func proxiedKafka(t *testing.T, settings map[string]string) (*stack.Stack, *proxy.Proxy) {
	t.Helper()
	p := newProxy(t, proxy.KafkaRequests)
	own := ownStack(t, stack.Options{Kafka: true, KafkaAdvertise: p.Addr(), KafkaSettings: settings})
	p.To(own.KafkaBehind())
	return own, p
}

// kafkaBy returns the setting that makes a program connect to Kafka through the proxy p.
func kafkaBy(p *proxy.Proxy) string { return "DLQ_KAFKA_BROKERS=" + p.Addr() }

// databaseBy returns the setting that makes a program connect to its database through the proxy p.
func databaseBy(p *proxy.Proxy) string { return fmt.Sprintf("DLQ_DATABASE_PORT=%d", p.Port()) }

// hostOf returns the host:port of a database URL.
func hostOf(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	check.NoError(t, err)
	return u.Host
}

// chance decides at random where a test injects faults, and counts the faults. Its methods are safe for concurrent use.
type chance struct {
	mu     sync.Mutex
	random *rand.Rand
	counts map[string]int
}

func newChance(l *letters) *chance {
	return &chance{random: rand.New(rand.NewPCG(l.random.Uint64(), 0)), counts: map[string]int{}}
}

// of returns true at random: on average, once in n calls.
func (c *chance) of(n int) bool { return c.intN(n) == 0 }

func (c *chance) intN(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

func (c *chance) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// enough reports whether each fault named in least has occurred at least as often as least says.
func (c *chance) enough(least map[string]int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for what, n := range least {
		if c.counts[what] < n {
			return false
		}
	}
	return true
}

// wantCounted fails a test in which too few faults occurred, because such a test proves nothing.
func (c *chance) wantCounted(t *testing.T, least map[string]int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("what happened: %v", c.counts)
	for what, n := range least {
		if c.counts[what] < n {
			t.Errorf("%s: %d times, want at least %d", what, c.counts[what], n)
		}
	}
}

// awaitBroken waits for the answer to a retry-all request during which a fault occurred. The answer must be a complete
// report, or an error that asks the client to try again.
func (l *letters) awaitBroken(asked <-chan answer) answer {
	l.t.Helper()
	var a answer
	select {
	case a = <-asked:
	case <-time.After(2 * time.Minute):
		l.t.Fatal("retry-all did not answer within two minutes")
	}
	l.t.Logf("retry-all = %d %.300s; now %d resolved, %d in doubt, %d pending",
		a.status, a.body, l.with("RESOLVED"), l.with("RETRYING"), l.with("PENDING"))
	if a.status == http.StatusOK {
		wantWhole(l.t, a)
	} else {
		wantUnavailable(l.t, a, "retry-all", 502, 503)
	}
	return a
}

// wantNoFalseSuccess checks that the original topic has a record of each message that is RESOLVED in the database.
func (l *letters) wantNoFalseSuccess() {
	l.t.Helper()
	var resolved []uuid.UUID
	check.NoError(l.t, l.db.Select(&resolved, `SELECT id FROM dlq.dlq_messages WHERE status = 'RESOLVED'`))
	published := l.published()
	missing := 0
	for _, id := range resolved {
		if published[id.String()] == 0 {
			missing++
		}
	}
	if missing > 0 {
		l.t.Errorf("%d of %d RESOLVED messages are not in the original topic, want all there", missing, len(resolved))
	}
}

// published returns the number of records in the original topic, by the id of the message that was published.
func (l *letters) published() map[string]int {
	l.t.Helper()
	published := map[string]int{}
	for _, r := range l.kafka.readAll(l.target) {
		published[header(r, "dlq-message-id")]++
	}
	return published
}

// somePending returns up to n random PENDING messages.
func (l *letters) somePending(n int) []string {
	l.t.Helper()
	var all []uuid.UUID
	check.NoError(l.t, l.db.Select(&all, `SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' ORDER BY id`))
	l.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	ids := make([]string, 0, n)
	for _, id := range all[:min(n, len(all))] {
		ids = append(ids, id.String())
	}
	return ids
}

// click is an operator's request to retry one message, with the API's answer to it.
type click struct {
	id string
	answer
}

// clicks retries these messages concurrently, one request for each message. The requests are distributed over the
// given APIs in turn.
func (l *letters) clicks(ids []string, apis ...*process) []click {
	out := make([]click, len(ids))
	start := make(chan struct{})
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() {
			<-start
			status, body := apis[i%len(apis)].try(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", nil)
			out[i] = click{id, answer{status, body}}
		})
	}
	close(start)
	all.Wait()
	return out
}

// state is a message's state in the database.
type state struct {
	Status string
	Count  int     `db:"retry_count"`
	Class  *string `db:"last_publish_error_class"`
}

func (l *letters) state(id string) (s state) {
	l.t.Helper()
	if err := l.db.Get(&s, `SELECT status, retry_count, last_publish_error_class FROM dlq.dlq_messages WHERE id = $1`, id); err != nil {
		l.t.Fatalf("message %s: %v", id, err)
	}
	return s
}
