package integration_test

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestRollingRestartLosesNothing: the processes of a program are replaced one after the other, repeatedly, while
// clients send requests. The API refuses no request, and every process exits in time with code 0. No message is lost,
// published twice or left unfinished.
func TestRollingRestartLosesNothing(t *testing.T) {
	t.Parallel()
	t.Run("API", rollAPI)
	t.Run("Ingester", rollIngester)
	t.Run("Archiver", rollArchiver)
}

// rolled is a system under test whose API always gets requests from several clients.
type rolled struct {
	*letters
	balancer *balancer
	todo     chan string // messages to retry
	stop     chan struct{}
	clients  sync.WaitGroup

	read, retried, refused atomic.Int64
}

func rollAPI(t *testing.T) {
	t.Parallel()
	rounds := pick(3, 10)
	l := newLetters(newSystem(t))
	l.stored(400 * rounds)
	replicas := []*process{l.startReady("api", impatient()...), l.startReady("api", impatient()...)}
	r := &rolled{letters: l, balancer: newBalancer(t, replicas...), todo: make(chan string, len(l.sent)), stop: make(chan struct{})}
	for _, id := range l.somePending(len(l.sent)) {
		r.todo <- id
	}
	r.clientsBegin()
	for n := range rounds {
		at := n % len(replicas)
		before := r.retried.Load() + r.read.Load()
		eventually(t, "clients are answered", func() bool { return r.retried.Load()+r.read.Load() >= before+20 })
		next := l.startReady("api", impatient()...)
		r.balancer.add(next)
		eventually(t, "the new one gets connections", func() bool { return r.balancer.has(next) })
		// Kubernetes deletes a pod in the same way: it sends no new connections to the pod, and a while later it sends
		// SIGTERM.
		r.balancer.withdraw(replicas[at])
		lasting(300 * time.Millisecond)
		replicas[at].stop() // fails the test unless the process exits with code 0 within 25 seconds
		replicas[at] = next
	}
	close(r.stop)
	r.clients.Wait()
	programs, fewest := r.balancer.connections()
	t.Logf("%d rolling restarts: %d reads and %d retries were answered by %d programs, %d were refused",
		rounds, r.read.Load(), r.retried.Load(), programs, r.refused.Load())
	if r.retried.Load() < int64(10*rounds) || r.read.Load() < int64(10*rounds) || programs < rounds || fewest == 0 {
		t.Errorf("%d retries, %d reads and %d programs that got connections, want a load on all", r.retried.Load(), r.read.Load(), programs)
	}
	if got := l.with("RESOLVED"); got != int(r.retried.Load()) {
		t.Errorf("%d messages are RESOLVED, want the %d whose clients got a success", got, r.retried.Load())
	}
	l.retryTheRest(replicas[0])
	l.wantStoredOnce()
	l.wantResolvedOnce()
}

// clientsBegin starts some clients, which read and retry messages until the channel stop is closed.
func (r *rolled) clientsBegin() {
	paths := []string{
		"/api/v1/dlq/" + r.source, "/api/v1/messages?status=PENDING&count=exact",
		"/api/v1/topics", "/api/v1/dlq/messages/" + r.some("true"), "/api/v1/redrives",
	}
	for n := range 4 {
		client := newPatron(r.balancer)
		r.clients.Go(func() {
			for step := n; ; step++ {
				select {
				case <-r.stop:
					return
				case <-time.After(15 * time.Millisecond):
				}
				if step%2 == 0 {
					r.want(&r.read, client, http.MethodGet, paths[step/2%len(paths)], "")
					continue
				}
				select {
				case id := <-r.todo:
					r.want(&r.retried, client, http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", "rolling-"+id)
				default:
				}
			}
		})
	}
}

func (r *rolled) want(count *atomic.Int64, client *patron, method, path, key string) {
	if wrong := client.ask(r.t.Context(), method, path, key); wrong != "" {
		r.refused.Add(1)
		r.t.Errorf("%s %s: %s, want 200 throughout", method, path, wrong)
		return
	}
	count.Add(1)
}

func rollIngester(t *testing.T) {
	t.Parallel()
	rounds := pick(3, 10)
	l := newLetters(newSystem(t))
	watching := l.account().watch()
	members := []*process{l.startReady("ingester"), l.startReady("ingester")}
	for n := range rounds {
		at := n % len(members)
		point := l.random.IntN(40)
		l.produce(1000, func(chunk int) {
			if chunk == point {
				members[at].stop()
				members[at] = l.start("ingester")
			}
		})
		members[at].waitReady()
	}
	l.waitStored()
	l.kafka.waitNoLag(l.prefix, l.source)
	l.wantStoredOnce()
	l.account().wantInvariants()
	for _, p := range members {
		p.wantRunning()
		p.stop()
	}
	watching.want(5)
}

func rollArchiver(t *testing.T) {
	t.Parallel()
	rounds := pick(3, 10)
	l := newLetters(newSystem(t))
	l.stored(600)
	if _, err := l.db.Exec(`UPDATE dlq.dlq_messages SET status = 'DEAD'`); err != nil {
		t.Fatal(err)
	}
	l.old()
	interrupted := 0
	for n := range rounds {
		before := l.archived()
		p := l.start("archiver", "DLQ_ARCHIVE_BATCH_SIZE=1")
		least := before + 1 + l.random.IntN(len(l.sent)/(2*rounds))
		eventually(t, fmt.Sprintf("%d messages are archived", least), func() bool { return l.archived() >= least })
		p.stop() // fails the test unless the process exits with code 0 within 25 seconds
		after := l.archived()
		if after < len(l.sent) {
			interrupted++
		}
		if after+l.count("true") != len(l.sent) {
			t.Errorf("after stop %d %d messages are archived and %d live, want %d in all", n, after, l.count("true"), len(l.sent))
		}
	}
	t.Logf("%d of %d runs were interrupted in the middle", interrupted, rounds)
	if interrupted == 0 {
		t.Error("no run was interrupted")
	}
	l.idleSchedule()
	l.must("archiver")
	if got := l.archived(); got != len(l.sent) {
		t.Errorf("%d messages are archived in the end, want all %d", got, len(l.sent))
	}
	l.account().wantStoredOnly()
}

// idleSchedule checks that SIGTERM also stops an archiver that only waits for its scheduled time.
func (l *letters) idleSchedule() {
	l.t.Helper()
	p := l.start("archiver", "DLQ_ARCHIVE_SCHEDULE=0 3 1 1 *")
	eventually(l.t, "the archiver waits for its scheduled time", func() bool { return len(readFile(l.t, p.log)) > 0 })
	p.signal(syscall.SIGTERM)
	p.stop()
}

// old makes every RESOLVED or DEAD message look as if it was last changed 40 days ago, so that the archiver archives
// it.
func (l *letters) old() {
	l.t.Helper()
	if _, err := l.db.Exec(`UPDATE dlq.dlq_messages SET updated_at = now() - interval '40 days' WHERE status IN ('RESOLVED', 'DEAD')`); err != nil {
		l.t.Fatal(err)
	}
}

// archived returns the number of messages in the archive.
func (l *letters) archived() (n int) {
	l.t.Helper()
	check.NoError(l.t, l.db.Get(&n, `SELECT count(*) FROM dlq.dlq_messages_archive`))
	return n
}

// wantStoredOnly checks only those invariants that are still true after the test itself has changed statuses by SQL.
func (a *account) wantStoredOnly() {
	a.t.Helper()
	rows := a.rows()
	a.wantKept(rows)
	a.wantInOnePlace(rows)
	a.wantDiscretion()
}
