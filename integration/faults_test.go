package integration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// impatient lets abandoned claims expire as soon as the program allows.
func impatient(more ...string) []string {
	return append([]string{"DLQ_REDRIVE_CLAIM_EXPIRY=12s", "DLQ_REDRIVE_SETTLE_INTERVAL=1s"}, more...)
}

// TestKilledAPIRetriesOnce: an API that is killed again and again in the middle
// of a retry-all costs no message and doubles none. Its claims expire, and
// another replica looks into the original topic for what became of them.
func TestKilledAPIRetriesOnce(t *testing.T) {
	t.Parallel()
	const kills = 3
	l := newLetters(newSystem(t))
	l.stored(5000)
	l.slow(300 * time.Millisecond)
	other := l.startReady("api", impatient()...)
	for n := range kills {
		victim := l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=2")...)
		before := l.with("PENDING")
		asked := l.retryAll(victim)
		eventually(t, 30*time.Second, "messages are claimed", func() bool {
			pending := l.with("PENDING")
			return pending >= 0 && pending < before
		})
		<-time.After(time.Duration(l.random.IntN(600)) * time.Millisecond) // a random point, not a wait for something
		victim.kill()
		if a := l.await(asked); a.status != 0 {
			t.Fatalf("kill %d came too late: retry-all = %d %.300s", n, a.status, a.body)
		}
	}
	left := l.with("RETRYING")
	t.Logf("%d claims and %d pending messages are left by %d kills", left, l.with("PENDING"), kills)
	if left == 0 {
		t.Error("no claim was abandoned, want kills in the middle")
	}
	l.slow(0)
	l.retryTheRest(other)
	l.wantResolvedOnce()
	if got := total(other, l.source); got != len(l.sent) {
		t.Errorf("%d messages are listed, want %d", got, len(l.sent))
	}
}

// TestStoppedAPIAnswersAndResumes: a program that is told to end finishes what
// it has sent, gives back what it has not, and tells the client who waits under
// which id the work is known.
func TestStoppedAPIAnswersAndResumes(t *testing.T) {
	t.Parallel()
	l := newLetters(newSystem(t))
	l.stored(5000)
	l.slow(400 * time.Millisecond)
	stopped := l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=1", "DLQ_SERVER_DRAIN_TIMEOUT=4s")...)
	asked := l.retryAll(stopped)
	eventually(t, 30*time.Second, "some messages are resolved", func() bool { return l.with("RESOLVED") > 0 })
	<-time.After(time.Duration(l.random.IntN(500)) * time.Millisecond) // a random point, not a wait for something
	stopped.stop()

	details := wantUnavailable(t, l.await(asked), "retry-all", 503)
	if _, err := uuid.Parse(details["redrive_id"]); err != nil {
		t.Errorf("details %v, want redrive_id", details)
	}
	resolved, pending := l.with("RESOLVED"), l.with("PENDING")
	t.Logf("%d resolved and %d pending when the program had ended", resolved, pending)
	if resolved == 0 || pending == 0 || resolved+pending != len(l.sent) {
		t.Errorf("%d resolved and %d pending, want some of each and nothing else of %d", resolved, pending, len(l.sent))
	}
	l.slow(0)
	l.retryTheRest(l.startReady("api", impatient()...))
	l.wantResolvedOnce()
}

// TestBrokerGoesAway: Kafka dies in the middle of a retry-all. Whoever asks for
// a retry is told to come again, reading goes on, and when Kafka is back so is
// everything else.
func TestBrokerGoesAway(t *testing.T) {
	t.Parallel()
	own := ownStack(t, stack.Options{Kafka: true})
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.Empty(t)))
	api := l.startReady("api", impatient()...)
	ingester := l.startReady("ingester")
	l.produce(5000, nil) // far more than is under way when Kafka dies, so that something must be left
	l.waitStored()

	l.slow(200 * time.Millisecond)
	asked := l.retryAll(api)
	point := 1 + l.random.IntN(1000)
	eventually(t, 30*time.Second, fmt.Sprintf("%d messages are resolved", point), func() bool { return l.with("RESOLVED") >= point })
	if err := own.KillKafka(); err != nil {
		t.Fatal(err)
	}
	l.slow(0)

	broken := l.await(asked)
	wantUnavailable(t, broken, "retry-all", 502, 503)
	t.Logf("retry-all = %d when %d were resolved, %d in doubt and %d pending",
		broken.status, l.with("RESOLVED"), l.with("RETRYING"), l.with("PENDING"))
	l.wantNoAttempt(api)
	if got := total(api, l.source); got != len(l.sent) {
		t.Errorf("%d messages are listed without a broker, want %d", got, len(l.sent))
	}
	eventually(t, 30*time.Second, "the ingester is not ready", func() bool {
		api.call(http.MethodGet, "/readyz", 200, nil)
		return ingester.status("/readyz") == 503
	})
	if err := own.StartKafka(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the ingester is ready again", func() bool { return ingester.status("/readyz") == 200 })
	l.produce(100, nil)
	l.waitStored()
	l.wantStoredOnce()
	if got := l.with("DEAD"); got != 0 {
		t.Errorf("%d messages are dead, want none: one outage is one attempt", got)
	}
	l.retryTheRest(api)
	l.wantResolvedOnce()
	api.wantRunning()
	ingester.wantRunning()
}

// wantNoAttempt retries a pending message while there is no broker: that is
// refused, and costs none of its attempts.
func (l *letters) wantNoAttempt(api *process) {
	l.t.Helper()
	var before struct {
		ID         string
		RetryCount int `db:"retry_count"`
	}
	if err := l.db.Get(&before, `SELECT id::text, retry_count FROM dlq.dlq_messages WHERE status = 'PENDING' LIMIT 1`); err != nil {
		l.t.Fatalf("a pending message: %v", err)
	}
	status, body := api.try(http.MethodPost, "/api/v1/dlq/messages/"+before.ID+"/retry", nil)
	wantUnavailable(l.t, answer{status, body}, "retry", 503)
	where := fmt.Sprintf("id = '%s' AND status = 'PENDING' AND retry_count = %d", before.ID, before.RetryCount)
	if l.count(where) != 1 {
		l.t.Errorf("the message is not pending after %d attempts any more, want no attempt without a broker", before.RetryCount)
	}
}

// TestDatabaseGoesAway: PostgreSQL dies twice while records are taken in and
// once while they are sent back. Kafka keeps what cannot be stored, and the
// programs go on by themselves.
func TestDatabaseGoesAway(t *testing.T) {
	t.Parallel()
	own := ownStack(t, stack.Options{Postgres: true})
	l := newLetters(newSystemOn(t, stacktest.Kafka(t), makeDatabase(t, own)))
	api := l.startReady("api", impatient()...)
	ingester := l.startReady("ingester")
	kill := func() {
		if err := own.KillPostgres(); err != nil {
			t.Fatal(err)
		}
	}
	start := func() {
		if err := own.StartPostgres(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	const outage = 40 // chunks that are produced meanwhile
	first := 1 + l.random.IntN(70)
	second := first + outage + 1 + l.random.IntN(70)
	l.produce(5000, func(chunk int) {
		switch chunk {
		case first, second:
			kill()
		case first + outage, second + outage:
			status, body := api.try(http.MethodGet, "/api/v1/dlq/"+l.source, nil)
			wantUnavailable(t, answer{status, body}, "list without a database", 503)
			api.wantRunning()
			ingester.wantRunning()
			start()
		}
	})
	l.waitStored()
	l.kafka.waitNoLag(l.prefix, l.source)
	l.wantStoredOnce()

	l.slow(200 * time.Millisecond)
	asked := l.retryAll(api)
	point := 1 + l.random.IntN(1500)
	eventually(t, 30*time.Second, fmt.Sprintf("%d messages are resolved", point), func() bool { return l.with("RESOLVED") >= point })
	kill()
	start()
	l.slow(0)
	broken := l.await(asked)
	t.Logf("retry-all = %d when %d were resolved, %d in doubt and %d pending",
		broken.status, l.with("RESOLVED"), l.with("RETRYING"), l.with("PENDING"))
	if broken.status == 200 { // an outage this short may have been waited out
		wantWhole(t, broken)
	} else {
		wantUnavailable(t, broken, "retry-all", 503)
	}
	eventually(t, 30*time.Second, "the API is ready", func() bool { return api.status("/readyz") == 200 })
	l.retryTheRest(api)
	l.wantStoredOnce()
	l.wantResolvedOnce()
	if got := total(api, l.source); got != len(l.sent) {
		t.Errorf("%d messages are listed, want %d", got, len(l.sent))
	}
	ingester.wantRunning()
}

// wantWhole: retry-all says 200 only when it took its whole selection.
func wantWhole(t *testing.T, a answer) {
	t.Helper()
	var got struct {
		Selected, Retried, Failed, Skipped int
		InDoubt                            int `json:"in_doubt"`
	}
	if err := json.Unmarshal(a.body, &got); err != nil {
		t.Fatalf("retry-all = %d %.300s: %v", a.status, a.body, err)
	}
	if got.Selected != got.Retried+got.Failed+got.Skipped+got.InDoubt {
		t.Errorf("retry-all = 200 %s, want every selected message in one of the counts", a.body)
	}
}

// makeDatabase makes a database on servers of one's own. It goes with them.
func makeDatabase(t *testing.T, own *stack.Stack) string {
	t.Helper()
	db, err := sqlx.Connect("postgres", own.DatabaseURL())
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec("CREATE DATABASE letters"); err != nil {
		t.Fatalf("create database: %v", err)
	}
	u, err := url.Parse(own.DatabaseURL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/letters"
	return u.String()
}

// TestZombieIngester: an ingester that stands still for longer than its session
// wakes up with records in its hands that another one has stored meanwhile.
func TestZombieIngester(t *testing.T) {
	t.Parallel()
	l := newLetters(newSystem(t))
	zombie, other := l.startReady("ingester"), l.startReady("ingester")
	both := func() bool {
		shares := l.kafka.shares(l.prefix)
		return len(shares) == 2 && shares[0] > 0 && shares[0]+shares[1] == partitions && shares[1] > 0
	}
	l.slow(50 * time.Millisecond)
	for range 2 {
		eventually(t, 30*time.Second, "both ingesters read", both)
		point := l.random.IntN(100)
		l.produce(2000, func(chunk int) {
			if chunk == point {
				zombie.signal(syscall.SIGSTOP)
			}
		})
		eventually(t, 30*time.Second, "the other has all partitions", func() bool {
			return slices.Equal(l.kafka.shares(l.prefix), []int{partitions})
		})
		l.waitStored()
		zombie.signal(syscall.SIGCONT)
		eventually(t, 30*time.Second, "the zombie is well", func() bool { return zombie.status("/readyz") == 200 })
		zombie, other = other, zombie
	}
	eventually(t, 30*time.Second, "both ingesters read", both)
	l.produce(200, nil)
	l.waitStored()
	l.kafka.waitNoLag(l.prefix, l.source)
	l.wantStoredOnce()
	zombie.wantRunning()
	other.wantRunning()
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatalf("%s to %s: %v", sig, p.name, err)
	}
}

// TestRestartedConsumerGroupKeepsCommittedOffsets: tools that look at the
// group's lag see none when there is none, however the ingester ended.
func TestRestartedConsumerGroupKeepsCommittedOffsets(t *testing.T) {
	t.Parallel()
	l := newLetters(newSystem(t))
	for name, end := range map[string]func(*process){"SIGTERM": (*process).stop, "SIGKILL": (*process).kill} {
		p := l.startReady("ingester")
		l.produce(500, nil)
		l.waitStored()
		l.kafka.waitNoLag(l.prefix, l.source)
		l.produce(500, nil)
		l.waitStored()
		end(p) // before or after the offsets were committed
		again := l.startReady("ingester")
		l.kafka.waitNoLag(l.prefix, l.source)
		again.stop()
		if got, want := l.kafka.committed(l.prefix, l.source), l.kafka.logEnds(l.source); !maps.Equal(got, want) {
			t.Errorf("after %s and a restart the group has committed %v, want %v", name, got, want)
		}
	}
	l.wantStoredOnce()
}
