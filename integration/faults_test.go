package integration_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// impatient returns the settings in more, and before them the shortest claim expiry that the program allows.
func impatient(more ...string) []string {
	return append([]string{"DLQ_REDRIVE_CLAIM_EXPIRY=12s", "DLQ_REDRIVE_SETTLE_INTERVAL=1s"}, more...)
}

// TestKilledAPIFinishesItsRedrive: the API is killed repeatedly while it retries all messages of a topic. No message is
// lost or published twice, because each new process reads the stored attempts and continues.
func TestKilledAPIFinishesItsRedrive(t *testing.T) {
	t.Parallel()
	kills, letters := pick(10, 20), pick(8_000, 20_000)
	l := newLetters(newSystem(t))
	l.stored(letters)
	l.slow(300 * time.Millisecond)
	victim := l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=1")...)
	id := l.begin(victim)
	abandoned := 0
	for n := range kills {
		if n > 0 {
			victim = l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=1")...)
		}
		before := l.attempts()
		eventually(t, "messages are claimed", func() bool { return l.attempts() > before })
		<-time.After(time.Duration(l.random.IntN(600)) * time.Millisecond) // the kill must come at a random moment
		victim.kill()
		if l.with("RETRYING") > 0 {
			abandoned++
		}
	}
	left := l.with("PENDING")
	t.Logf("%d of %d kills left claims, the last %d messages pending", abandoned, kills, left)
	if abandoned < kills/4 || left == 0 {
		t.Error("no kill interrupted the redrive")
	}
	l.slow(0)
	last := l.startReady("api", impatient()...)
	got := l.finished(last, id)
	if got.Selected != letters || got.Succeeded != letters {
		t.Errorf("redrive = %+v, want all of %d succeeded", got, letters)
	}
	l.wantResolvedOnce()
	if got := total(last, l.source); got != len(l.sent) {
		t.Errorf("%d messages are listed, want %d", got, len(l.sent))
	}
}

// attempts returns how many attempts of all messages have started so far; -1 when the database does not answer.
func (l *letters) attempts() (n int) {
	if err := l.db.Get(&n, `SELECT coalesce(sum(attempt_no), 0) FROM dlq.dlq_messages`); err != nil {
		return -1
	}
	return n
}

// redrive is a redrive as the API returns it.
type redrive struct {
	ID, State, Note                            string
	Selected, Succeeded, Failed, Dead, Skipped int
	InDoubt                                    int `json:"in_doubt"`
	Waiting, Returned                          int
	Reasons                                    map[string]int
}

// begin starts a retry of all messages of the dead-letter topic, and returns the id of the redrive without waiting for
// its end.
func (l *letters) begin(p *process) string {
	l.t.Helper()
	return p.accepted("/api/v1/dlq/"+l.source+"/retry-all", "", "Prefer", "respond-async")
}

// beginAt is like begin, but the redrive sends at most rate messages a second.
func (l *letters) beginAt(p *process, rate int) string {
	l.t.Helper()
	return p.accepted("/api/v1/redrives", fmt.Sprintf(`{"filter": {"topic": %q}, "rate": %d}`, l.source, rate))
}

// accepted sends a request that starts a redrive, and returns the redrive's id.
func (p *process) accepted(path, order string, header ...string) string {
	p.t.Helper()
	status, body := p.try(http.MethodPost, path, []byte(order), header...)
	var got redrive
	if err := json.Unmarshal(body, &got); err != nil || status != http.StatusAccepted || got.ID == "" {
		p.t.Fatalf("POST %s = %d %.300s, want 202 and a redrive", path, status, body)
	}
	return got.ID
}

// finished waits until a redrive has ended, and fails the test unless its state is "finished".
func (l *letters) finished(p *process, id string) redrive {
	l.t.Helper()
	var got redrive
	eventually(l.t, "redrive "+id+" is over", func() bool {
		status, body := p.try(http.MethodGet, "/api/v1/redrives/"+id, nil)
		return status == http.StatusOK && json.Unmarshal(body, &got) == nil && (got.State == "finished" || got.State == "cancelled")
	})
	if got.State != "finished" || got.Waiting != 0 {
		l.t.Errorf("redrive = %+v, want finished with nothing waiting", got)
	}
	return got
}

// TestStoppedAPIHandsItsRedriveOn: an API that gets SIGTERM during a redrive finishes the messages that it has sent,
// and releases the others. It answers the waiting client with the id of the redrive, which another API continues.
func TestStoppedAPIHandsItsRedriveOn(t *testing.T) {
	t.Parallel()
	l := newLetters(newSystem(t))
	l.stored(5000)
	l.slow(400 * time.Millisecond)
	stopped := l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=1", "DLQ_SERVER_DRAIN_TIMEOUT=4s")...)
	asked := l.retryAll(stopped)
	eventually(t, "some messages are resolved", func() bool { return l.with("RESOLVED") > 0 })
	<-time.After(time.Duration(l.random.IntN(500)) * time.Millisecond) // SIGTERM must come at a random moment
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
	got := l.finished(l.startReady("api", impatient()...), details["redrive_id"])
	if got.Succeeded != len(l.sent) {
		t.Errorf("redrive = %+v, want all of %d succeeded", got, len(l.sent))
	}
	l.wantResolvedOnce()
}

// TestBrokerGoesAway: Kafka dies while the API retries all messages. The API answers a further retry with an error that
// asks the client to try again, and still answers reads. When Kafka is back, all work continues.
func TestBrokerGoesAway(t *testing.T) {
	t.Parallel()
	own := ownStack(t, stack.Options{Kafka: true})
	l := newLetters(newSystemOn(t, own.Brokers(), postgrestest.URL(t)))
	api := l.startReady("api", impatient()...)
	ingester := l.startReady("ingester")
	l.produce(5000, nil) // so many that most of them are not sent yet when Kafka dies
	l.waitStored()

	l.slow(200 * time.Millisecond)
	asked := l.retryAll(api)
	point := 1 + l.random.IntN(1000)
	eventually(t, fmt.Sprintf("%d messages are resolved", point), func() bool { return l.with("RESOLVED") >= point })
	killed := time.Now()
	check.NoError(t, own.KillKafka())
	l.slow(0)

	eventually(t, "the redrive waits", func() bool { return l.waits(api) })
	t.Logf("%d were resolved, %d in doubt and %d pending when nothing could be reached",
		l.with("RESOLVED"), l.with("RETRYING"), l.with("PENDING"))
	l.wantNoAttempt(api)
	if got := total(api, l.source); got != len(l.sent) {
		t.Errorf("%d messages are listed without a broker, want %d", got, len(l.sent))
	}
	eventuallyAs(t, readinessFollows, "the ingester is not ready", func() bool {
		api.call(http.MethodGet, "/readyz", 200, nil)
		return ingester.status("/readyz") == 503
	})
	check.NoError(t, own.StartKafka(t.Context()))
	eventuallyAs(t, readinessFollows, "the ingester is ready again", func() bool { return ingester.status("/readyz") == 200 })
	late := time.Since(killed) > 25*time.Second // on a busy machine; after 30 s retry-all answers that the redrive goes on
	l.produce(100, nil)
	l.waitStored()
	l.wantStoredOnce()
	whole := l.awaitBroken(asked)
	check.True(t, whole.status == http.StatusOK || late && whole.status == http.StatusServiceUnavailable,
		"retry-all = %d %.300s, want the answer once Kafka was back", whole.status, whole.body)
	if got := l.with("DEAD"); got != 0 {
		t.Errorf("%d messages are dead, want none: one outage is one attempt", got)
	}
	l.retryTheRest(api)
	l.wantResolvedOnce()
	api.wantRunning()
	ingester.wantRunning()
}

// waits reports whether the only redrive waits for Kafka or the database, according to the API.
func (l *letters) waits(api *process) bool {
	var got struct {
		Redrives []struct {
			WaitingSince *string `json:"waiting_since"`
		}
	}
	status, body := api.try(http.MethodGet, "/api/v1/redrives", nil)
	return status == http.StatusOK && json.Unmarshal(body, &got) == nil && len(got.Redrives) == 1 && got.Redrives[0].WaitingSince != nil
}

// wantNoAttempt retries a PENDING message while Kafka is down. The API must refuse the retry, and must count no
// attempt.
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
	check.True(l.t, strings.Contains(string(body), "Kafka cannot be reached"), "retry = %s, want it to name Kafka", body)
	where := fmt.Sprintf("id = '%s' AND status = 'PENDING' AND retry_count = %d", before.ID, before.RetryCount)
	if l.count(where) != 1 {
		l.t.Errorf("the message is no longer pending after %d attempts, want no attempt without a broker", before.RetryCount)
	}
}

// TestDatabaseGoesAway: PostgreSQL is killed twice during ingest, and once while the API retries all messages. Records
// that cannot be stored stay in Kafka, and the programs continue by themselves.
func TestDatabaseGoesAway(t *testing.T) {
	t.Parallel()
	own := ownStack(t, stack.Options{Postgres: true})
	l := newLetters(newSystemOn(t, stacktest.Kafka(t), makeDatabase(t, own)))
	api := l.startReady("api", impatient()...)
	ingester := l.startReady("ingester")
	kill := func() {
		check.NoError(t, own.KillPostgres())
	}
	start := func() {
		check.NoError(t, own.StartPostgres(t.Context()))
	}

	const outage = 40 // number of chunks of 20 records that are produced while PostgreSQL is down
	first := 1 + l.random.IntN(70)
	second := first + outage + 1 + l.random.IntN(70)
	l.produce(5000, func(chunk int) {
		switch chunk {
		case first, second:
			kill()
		case first + outage, second + outage:
			lasting(pick(0, 90*time.Second)) // in a long run, longer than the timeout of the ingester's statements
			status, body := api.try(http.MethodGet, "/api/v1/dlq/"+l.source, nil)
			wantUnavailable(t, answer{status, body}, "list without a database", 503)
			check.True(t, strings.Contains(string(body), "the database cannot be reached"), "list = %s, want it to name the database", body)
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
	eventually(t, fmt.Sprintf("%d messages are resolved", point), func() bool { return l.with("RESOLVED") >= point })
	kill()
	start()
	l.slow(0)
	broken := l.await(asked)
	t.Logf("retry-all = %d when %d were resolved, %d in doubt and %d pending",
		broken.status, l.with("RESOLVED"), l.with("RETRYING"), l.with("PENDING"))
	if broken.status == 200 { // after a short outage, the request may have succeeded all the same
		wantWhole(t, broken)
	} else {
		l.finished(api, wantUnavailable(t, broken, "retry-all", 503)["redrive_id"])
	}
	eventuallyAs(t, readinessFollows, "the API is ready", func() bool { return api.status("/readyz") == 200 })
	l.retryTheRest(api)
	l.wantStoredOnce()
	l.wantResolvedOnce()
	if got := total(api, l.source); got != len(l.sent) {
		t.Errorf("%d messages are listed, want %d", got, len(l.sent))
	}
	ingester.wantRunning()
}

// wantWhole checks an answer 200 to a retry-all request: the API may give it only after it has processed all selected
// messages.
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

// makeDatabase creates a database with the newest schema on the test's own servers, which end with the test.
func makeDatabase(t *testing.T, own *stack.Stack) string {
	t.Helper()
	db, err := sqlx.Connect("postgres", own.DatabaseURL())
	check.NoError(t, err)
	defer func() { _ = db.Close() }()
	if _, err := db.Exec("CREATE DATABASE letters"); err != nil {
		t.Fatalf("create database: %v", err)
	}
	u, err := url.Parse(own.DatabaseURL())
	check.NoError(t, err)
	u.Path = "/letters"
	return migrated(t, u.String())
}

// migrated gives the database at the URL the newest schema, and returns the URL.
func migrated(t *testing.T, database string) string {
	t.Helper()
	db := check.Must(sqlx.Connect("postgres", database))(t)
	defer func() { _ = db.Close() }()
	check.NoError(t, migrate.Up(t.Context(), db.DB))
	return database
}

// TestZombieIngester: an ingester is suspended for longer than its session. When it resumes, it has records in memory
// that another ingester has stored meanwhile. No record is lost or stored twice.
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
		eventually(t, "both ingesters read", both)
		point := l.random.IntN(100)
		l.produce(2000, func(chunk int) {
			if chunk == point {
				zombie.signal(syscall.SIGSTOP)
			}
		})
		eventually(t, "the other has all partitions", func() bool {
			return slices.Equal(l.kafka.shares(l.prefix), []int{partitions})
		})
		l.waitStored()
		zombie.signal(syscall.SIGCONT)
		eventuallyAs(t, readinessFollows, "the resumed ingester is ready", func() bool { return zombie.status("/readyz") == 200 })
		zombie, other = other, zombie
	}
	eventually(t, "both ingesters read", both)
	l.produce(200, nil)
	l.waitStored()
	l.kafka.waitNoLag(l.prefix, l.source)
	l.wantStoredOnce()
	zombie.wantRunning()
	other.wantRunning()
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	p.program.Signal(sig)
}

// TestRestartedConsumerGroupKeepsCommittedOffsets: when all records are stored, the consumer group has a lag of 0, for
// example in Kafka's own tools, even if the ingester was killed and started again.
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
		end(p) // the ingester ends either before or after it has committed the offsets of the last records
		again := l.startReady("ingester")
		l.kafka.waitNoLag(l.prefix, l.source)
		again.stop()
		if got, want := l.kafka.committed(l.prefix, l.source), l.kafka.logEnds(l.source); !maps.Equal(got, want) {
			t.Errorf("after %s and a restart the group has committed %v, want %v", name, got, want)
		}
	}
	l.wantStoredOnce()
}
