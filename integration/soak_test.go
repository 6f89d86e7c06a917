package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/proxy"
	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// seedVariable sets the seed of the soak test, to repeat a run that failed. With the same seed, the faults occur in the
// same order. Which requests they interrupt still depends on timing.
const seedVariable = "DLQ_SOAK_SEED"

// TestSoak runs the whole system under load and injects one fault after the other, for about a minute, or for ten
// minutes if DLQ_TEST_LONG=1. A producer writes dead letters of several frameworks, two ingesters, two APIs and an
// archiver run, operators list, edit, retry, redrive, delete and restore messages, and a consumer fails on some
// replays. At the end, no message may be lost, duplicated, invented or left unfinished, and everything must work as
// before.
func TestSoak(t *testing.T) {
	t.Parallel()
	s := newSoak(t)
	watching := s.watch()
	s.worksBegin()
	s.warmUp()
	s.breakThings(pick(0, 10*time.Minute))
	recovered := time.Now()
	s.quiet()
	s.recovers(recovered)
	s.endPrograms()
	watching.want(pick(20, 500))
	s.wantInvariants()
	s.wantComebacks()
	s.wantEnough()
}

// soak is the system with its load and its faults.
type soak struct {
	*account
	seed      uint64
	random    *rand.Rand // used only by the goroutine that injects faults
	luck      *chance
	stack     *stack.Stack
	kafkaWay  *proxy.Proxy
	storeWay  *proxy.Proxy
	dir       string
	began     time.Time
	steps     []string // texts about the injected faults, each with its time
	token     string
	env       []string
	ingesters [2]*place
	apis      [2]*place
	before    map[*place]burden

	records    atomic.Int64 // produced dead letters
	comebacks  atomic.Int64 // number of produced dead letters that are replays which failed again
	stopWork   context.CancelFunc
	stopFeed   context.CancelFunc
	work, feed sync.WaitGroup // work waits for the operators and the archiver, feed for the producer and the consumer
}

// place is one of the programs in the soak test. It always runs at most one process of its program; a fault may replace
// this process.
type place struct {
	name    string
	process atomic.Pointer[process]
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv(seedVariable); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		check.Require(t, err == nil, "%s: %v", seedVariable, err)
		seed = n
	}
	t.Logf("seed %d; %s=%d repeats these faults", seed, seedVariable, seed)
	kafkaWay, storeWay := newProxy(t, proxy.KafkaRequests), newProxy(t, proxy.Statements(nameMoment))
	own := ownStack(t, stack.Options{Kafka: true, Postgres: true, KafkaAdvertise: kafkaWay.Addr()})
	where := makeDatabase(t, own)
	kafkaWay.To(own.KafkaBehind())
	storeWay.To(hostOf(t, where))
	system := newSystemOn(t, own.Brokers(), where)
	s := &soak{
		account: newAccount(system,
			[]string{system.topic("orders.dlq.v1"), system.topic("payments.dlq.v1")},
			[]string{system.topic("orders.events.v1"), system.topic("payments.events.v1"), system.topic("orders.v1")}),
		seed: seed, random: rand.New(rand.NewPCG(seed, 0)), stack: own, kafkaWay: kafkaWay, storeWay: storeWay,
		dir: folder(t), before: map[*place]burden{},
	}
	s.luck = &chance{random: rand.New(rand.NewPCG(seed, 1)), counts: map[string]int{}}
	for _, topic := range slices.Concat(s.sources, s.targets) {
		s.kafka.create(topic, partitions)
	}
	s.prepare()
	t.Cleanup(s.report)
	return s
}

// folder returns the folder for the logs, which remains after a failure.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dlq-manager-soak-")
	check.NoError(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
		}
	})
	return dir
}

// prepare starts the programs. They require tokens, so that the test can check that no log contains a token.
func (s *soak) prepare() {
	s.t.Helper()
	who := people(map[string][]grant{"soak": {{"admin", "*"}, {"edit", "*"}}})["soak"]
	s.token = who.token
	s.secrets = append(s.secrets, who.token, secretKey, secretValue, secretHeader, secretEdit)
	s.env = append(withTokens(s.t, map[string]person{who.name: who}), impatient(
		kafkaBy(s.kafkaWay), databaseBy(s.storeWay), "DLQ_DATABASE_READ_TIMEOUT=3s", "DLQ_SERVER_REQUEST_TIMEOUT=10s",
		"DLQ_KAFKA_REPUBLISH_TIMEOUT=3s", "DLQ_REDRIVE_OUTCOME_INTERVAL=1s", "DLQ_DATABASE_MAX_OPEN_CONNS=10",
	)...)
	for i := range s.ingesters {
		s.ingesters[i], s.apis[i] = &place{name: "ingester"}, &place{name: "api"}
		s.launch(s.ingesters[i])
		s.launch(s.apis[i])
	}
}

// launch starts a new process in a place, and waits until it is ready.
func (s *soak) launch(at *place) *process {
	s.t.Helper()
	p := s.startIn(s.dir, filepath.Join(binaries, at.name), s.env...)
	p.waitReady()
	at.process.Store(p)
	return p
}

// note writes an event to the list of events, with the time since the start of the soak test.
func (s *soak) note(format string, args ...any) {
	s.steps = append(s.steps, fmt.Sprintf("%7.3f s  ", time.Since(s.began).Seconds())+fmt.Sprintf(format, args...))
}

// report writes to the test's log what helps to find the cause of a failure.
func (s *soak) report() {
	if s.stopWork != nil {
		s.stopWork()
		s.stopFeed()
		s.work.Wait()
		s.feed.Wait()
	}
	s.t.Logf("seed %d, %d records, events with their times:\n%s", s.seed, s.records.Load(), strings.Join(s.steps, "\n"))
	if s.t.Failed() {
		s.t.Logf("the logs of all programs are in %s; try again with %s=%d", s.dir, seedVariable, s.seed)
	}
}

// worksBegin starts what puts load on the system: a producer, a consumer, three operators and repeated runs of the
// archiver.
func (s *soak) worksBegin() {
	s.began = time.Now()
	working, stopWork := context.WithCancel(s.t.Context())
	feeding, stopFeed := context.WithCancel(s.t.Context())
	s.stopWork, s.stopFeed = stopWork, stopFeed
	for n := range uint64(3) {
		s.work.Go(func() { s.operate(working, rand.New(rand.NewPCG(s.seed, 10+n))) })
	}
	s.work.Go(func() { s.archive(working) })
	s.feed.Go(func() { s.produce(feeding, rand.New(rand.NewPCG(s.seed, 20))) })
	s.feed.Go(func() { s.consume(feeding, rand.New(rand.NewPCG(s.seed, 21))) })
}

// warmUp waits until some retries have succeeded, and then remembers how much memory and how many goroutines each
// program uses.
func (s *soak) warmUp() {
	s.t.Helper()
	eventually(s.t, "some records were sent back", func() bool {
		s.luck.mu.Lock()
		defer s.luck.mu.Unlock()
		return s.luck.counts["retry 200"] >= 3
	})
	lasting(pick(3*time.Second, 20*time.Second))
	for _, at := range s.places() {
		s.before[at] = at.process.Load().burden()
	}
}

func (s *soak) places() []*place {
	return []*place{s.ingesters[0], s.ingesters[1], s.apis[0], s.apis[1]}
}

// quiet stops the producer, the consumer, the operators and the archiver, and cancels redrives that are paused or have
// stopped. The programs still complete everything else that was requested.
func (s *soak) quiet() {
	s.t.Helper()
	s.stopWork()
	s.work.Wait()
	s.stopFeed()
	s.feed.Wait()
	eventually(s.t, "paused redrives are cancelled", s.cancelPaused)
}

// recovers checks the invariant I7: without faults, all work completes by itself. The log shows how long it took.
func (s *soak) recovers(since time.Time) {
	s.t.Helper()
	s.db.SetMaxIdleConns(0) // closes the test's own connections, which faults may have broken
	s.db.SetMaxIdleConns(2)
	for _, at := range s.places() {
		at.process.Load().waitReady()
	}
	for _, topic := range s.sources {
		ends := s.kafka.logEnds(topic)
		eventuallyAs(s.t, recovered, "there is no lag", func() bool {
			committed := s.kafka.committed(s.prefix, topic)
			for partition, end := range ends {
				if committed[partition] != end && end > 0 {
					return false
				}
			}
			return true
		})
	}
	s.t.Logf("all programs were ready and without lag %.1f s after the last fault", time.Since(since).Seconds())
	eventually(s.t, "every redrive is over, those with a rate too, and every claim settled", func() bool {
		var open int
		err := s.db.Get(&open, `SELECT (SELECT count(*) FROM dlq.redrives WHERE state IN ('canary', 'running', 'paused'))
			+ (SELECT count(*) FROM dlq.dlq_messages WHERE status = 'RETRYING' AND NOT unsettled)`)
		return err == nil && open == 0
	})
	s.t.Logf("all requested work was done %.1f s after the last fault", time.Since(since).Seconds())
	s.retryAllOfIt()
	for _, at := range s.places() {
		at.process.Load().wantNear(s.before[at])
	}
}

// retryAllOfIt retries all PENDING messages of every dead-letter topic, and checks that the API completes these
// requests.
func (s *soak) retryAllOfIt() {
	s.t.Helper()
	for _, topic := range s.sources {
		status, body := s.ask(s.apis[0], "POST", "/api/v1/dlq/"+topic+"/retry-all", "")
		if status != 200 {
			s.t.Errorf("the last retry-all of %s = %d %.300s, want 200", topic, status, body)
			continue
		}
		s.t.Logf("the last retry-all: %s", body)
		wantWhole(s.t, answer{status, body})
	}
	for _, status := range []string{"PENDING", "RETRYING", "RESOLVED", "DEAD"} {
		var n int
		check.NoError(s.t, s.db.Get(&n, `SELECT count(*) FROM dlq.dlq_messages WHERE status = $1`, status))
		s.t.Logf("%d messages are %s", n, status)
	}
}

// endPrograms stops all programs, which must exit with code 0.
func (s *soak) endPrograms() {
	s.t.Helper()
	for _, at := range s.places() {
		p := at.process.Load()
		p.wantRunning()
		p.stop()
	}
}

// wantComebacks checks that each replay that failed again is stored as a child of the message that was sent, unless the
// deletion of one of the two messages was requested.
func (s *soak) wantComebacks() {
	s.t.Helper()
	parents := map[string]string{}
	alive := map[string]bool{}
	for _, row := range s.rows() {
		alive[row.ID.String()] = true
		if row.Parent != nil {
			parents[row.position()] = row.Parent.String()
		}
	}
	var orphans []string
	known := 0
	for _, r := range s.kafka.readAll(s.sources...) {
		parent := header(r, "dlq-message-id")
		if parent == "" || !alive[parent] {
			continue
		}
		if _, deleted := s.deleted[parent]; deleted {
			continue
		}
		if known++; parents[position(r)] != parent {
			if _, deleted := s.deletedAt(position(r)); !deleted {
				orphans = append(orphans, fmt.Sprintf("%s of %s, has %q", position(r), parent, parents[position(r)]))
			}
		}
	}
	s.t.Logf("%d records returned and have their parent", known-len(orphans))
	s.complain("returned messages without their parent", orphans)
}

// deletedAt returns the id of the message whose dead letter is at a position, if the deletion of this message was
// requested.
func (s *soak) deletedAt(at string) (id string, asked bool) {
	for id, position := range s.deleted {
		if position == at {
			return id, true
		}
	}
	return "", false
}

// wantEnough checks the invariant I9: the test had enough requests, records and faults to prove something.
func (s *soak) wantEnough() {
	s.t.Helper()
	s.luck.wantCounted(s.t, map[string]int{
		"retry 200": 10, "retry-all 202": 3, "redrive 202": 3, "edit 200": 1, "dead 200": 1, "requeue 200": 1,
		"delete 200": 1, "archived": 1, "list 200": 10,
	})
	if n, least := s.records.Load(), int64(pick(500, 5000)); n < least {
		s.t.Errorf("I9: %d dead letters were produced, want at least %d", n, least)
	}
	if n := s.comebacks.Load(); n < 10 {
		s.t.Errorf("I9: %d replays failed again, want at least 10", n)
	}
}
