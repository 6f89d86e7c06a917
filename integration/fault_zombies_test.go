package integration_test

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/proxy"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestFaultZombieAPI: replicas of the API are suspended while they retry all messages, until their claims have expired.
// Another replica settles the claimed messages and publishes them. Then the suspended replicas resume and still have
// the same messages in memory. Every message is published only once.
func TestFaultZombieAPI(t *testing.T) {
	t.Parallel()
	own, kafka := proxiedKafka(t, nil)
	where := postgrestest.URL(t)
	database := newProxy(t, proxy.Statements(nameChange))
	database.To(hostOf(t, where))
	l := newLetters(newSystemOn(t, own.Brokers(), where))
	awake := l.startReady("api", impatient()...)
	luck := newChance(l)
	ofKafka := []string{proxy.InitProducerID, proxy.Produce, proxy.ListOffsets, proxy.Metadata}
	ofDatabase := []string{claimChange, resultChange}
	for round := range pick(1, 6) {
		l.stored(4000)
		l.slow(300 * time.Millisecond)
		// One replica is suspended at a request to Kafka, one at a statement to PostgreSQL, and the third one at a
		// random moment.
		zombies := []*process{
			l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=2", kafkaBy(kafka))...),
			l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=2", databaseBy(database))...),
			l.startReady("api", impatient("DLQ_REDRIVE_WORKERS=2")...),
		}
		moments := []string{ofKafka[round%len(ofKafka)], ofDatabase[l.random.IntN(len(ofDatabase))]}
		stopped := []<-chan struct{}{
			stopAt(kafka, zombies[0], moments[0], 1+int64(l.random.IntN(2))),
			stopAt(database, zombies[1], moments[1], 1+int64(l.random.IntN(2))),
		}
		var asked []<-chan answer
		for _, z := range zombies {
			asked = append(asked, l.retryAll(z))
		}
		l.stopAtRandom(zombies[2])
		for n, moment := range moments {
			select {
			case <-stopped[n]:
				luck.count("stopped at " + moment)
			case <-time.After(5 * time.Minute):
				t.Fatalf("the step did not occur: %s", moment)
			}
		}
		held := l.with("RETRYING")
		t.Logf("the three suspended replicas hold %d claims, %d messages are pending", held, l.with("PENDING"))
		if held > 0 {
			luck.count("claims held")
		}
		l.slow(0)
		l.retryTheRest(awake)
		for n, z := range zombies {
			z.signal(syscall.SIGCONT)
			l.awaitBroken(asked[n]) // meanwhile, another replica has settled the claims of this replica
			z.wantRunning()
			z.stop()
		}
		l.wantNoFalseSuccess()
	}
	luck.wantCounted(t, map[string]int{"claims held": 1, "stopped at " + proxy.InitProducerID: 1})
	l.wantResolvedOnce()
	awake.wantRunning()
}

// stopAt suspends a process when the proxy sees the nth occurrence of a named request or statement. The proxy still
// forwards this request or statement. The returned channel is closed when the process is suspended.
func stopAt(way *proxy.Proxy, p *process, moment string, nth int64) <-chan struct{} {
	stopped := make(chan struct{})
	var seen atomic.Int64
	way.Decide(func(what string) proxy.Action {
		if what == moment && seen.Add(1) == nth {
			p.signal(syscall.SIGSTOP)
			close(stopped)
		}
		return proxy.Pass()
	})
	return stopped
}

// stopAtRandom suspends the process p at a random moment after it has claimed its first messages.
func (l *letters) stopAtRandom(p *process) {
	l.t.Helper()
	eventually(l.t, "messages are claimed", func() bool { return l.with("RETRYING") > 0 })
	<-time.After(time.Duration(l.random.IntN(800)) * time.Millisecond) // the suspension must come at a random moment
	p.signal(syscall.SIGSTOP)
}

// TestFaultHundredClicks: ten operators (in a long run fifty) retry each of ten messages at the same moment, on two
// replicas of the API. Each message is published by one retry, and the API answers 409 to all other retries.
func TestFaultHundredClicks(t *testing.T) {
	t.Parallel()
	const messages = 10
	l := newLetters(newSystem(t))
	l.stored(messages)
	apis := []*process{l.startReady("api", impatient()...), l.startReady("api", impatient()...)}
	var ids []string
	once := l.somePending(messages)
	for range pick(10, 50) {
		ids = append(ids, once...)
	}
	l.random.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	answers := map[int]int{}
	succeeded := map[string]int{}
	for _, c := range l.clicks(ids, apis...) {
		answers[c.status]++
		if c.status == 200 {
			succeeded[c.id]++
		}
	}
	t.Logf("%d clicks were answered %v", len(ids), answers)
	if answers[200] != messages || answers[409] != len(ids)-messages || len(succeeded) != messages {
		t.Errorf("answers %v, %d messages with a success; want 200 once for each of %d and 409 for the rest", answers, len(succeeded), messages)
	}
	l.wantResolvedOnce()
}

// TestFaultThousandClicks: a thousand retries arrive at the same moment at replicas that have just started: at two, each
// message at both, and at one alone. Each message is published once, and no retry fails because its replica opens too
// many connections.
func TestFaultThousandClicks(t *testing.T) {
	t.Parallel()
	l := newLetters(newSystem(t))
	for range pick(1, 5) {
		for replicas := 1; replicas <= 2; replicas++ {
			messages := 1000 / replicas
			l.stored(messages)
			var apis []*process
			var ids []string
			for range replicas {
				apis = append(apis, l.startReady("api", impatient()...))
			}
			for _, id := range l.somePending(messages) {
				for range replicas {
					ids = append(ids, id) // clicks sends them to the replicas in turn
				}
			}
			answers, began := map[int]int{}, time.Now()
			for _, c := range l.clicks(ids, apis...) {
				if answers[c.status]++; c.status != 200 && c.status != 409 && answers[c.status] < 4 {
					t.Errorf("retry of %s = %d %.300s, want 200 or 409", c.id, c.status, c.body)
				}
			}
			t.Logf("%d clicks on %d replicas were answered %v within %s", len(ids), replicas, answers, time.Since(began))
			check.True(t, answers[200] == messages && answers[409] == len(ids)-messages,
				"answers %v, want 200 for each of %d messages and 409 for the rest", answers, messages)
			l.wantResolvedOnce()
			for _, api := range apis {
				api.wantRunning()
				api.stop()
			}
		}
	}
}
