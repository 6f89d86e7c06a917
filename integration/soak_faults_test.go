package integration_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dlq-manager/dlq-manager/integration/proxy"
)

// calamity is one kind of fault in the soak test. The function do injects the fault and returns when the fault is over.
// It reports whether something has shown that the fault really happened.
type calamity struct {
	name string
	do   func() (seen bool)
}

func (s *soak) calamities() []calamity {
	return []calamity{
		{"kill -9 of an ingester", func() bool { return s.killed(s.ingesters[1]) }},
		{"kill -9 of an API", func() bool { return s.killed(s.apis[1]) }},
		{"kill -9 of an archiver in the middle of its run", s.archiverKilled},
		{"fast restart of PostgreSQL", func() bool { return s.databaseRestarts(s.stack.StopPostgres) }},
		{"immediate restart of PostgreSQL", func() bool { return s.databaseRestarts(s.stack.KillPostgres) }},
		{"backends of PostgreSQL are terminated", s.backendsTerminated},
		{"connections to PostgreSQL are cut", s.databaseCut},
		{"connections to PostgreSQL are half open", s.databaseHalfOpen},
		{"Kafka is slow", s.kafkaSlow},
		{"connections to Kafka are cut", s.kafkaCut},
		{"Kafka restarts", func() bool { return s.kafkaRestarts(s.stack.StopKafka) }},
		{"Kafka is killed", func() bool { return s.kafkaRestarts(s.stack.KillKafka) }},
		{"a member joins and leaves", s.memberVisits},
		{"an ingester is suspended for longer than its session", func() bool { return s.standsStill(s.ingesters[s.random.IntN(2)], 4*time.Second) }},
		{"an API is suspended", func() bool {
			return s.standsStill(s.apis[s.random.IntN(2)], pick(3*time.Second, 15*time.Second))
		}},
	}
}

// breakThings injects faults in random order. It repeats a fault only after all other faults. It injects every fault at
// least once, even if the test is short, and fails the test if nothing has shown that a fault happened.
func (s *soak) breakThings(atLeast time.Duration) {
	s.t.Helper()
	end := time.Now().Add(atLeast)
	var deck []calamity
	seen := map[string]int{}
	happened := 0
	for dealt := false; !dealt || time.Now().Before(end); dealt = dealt || len(deck) == 0 {
		if len(deck) == 0 {
			deck = s.calamities()
			s.random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		c := deck[0]
		deck = deck[1:]
		s.note("%s", c.name)
		happened++
		if c.do() {
			seen[c.name]++
		} else {
			s.note("%s: no evidence that it happened", c.name)
		}
		lasting(time.Duration(300+s.random.IntN(pick(500, 2500))) * time.Millisecond)
	}
	s.note("no more faults")
	s.t.Logf("%d faults, with evidence for: %v", happened, seen)
	for _, c := range s.calamities() {
		if seen[c.name] == 0 {
			s.t.Errorf("I9: %s: no evidence that it happened, want it at least once", c.name)
		}
	}
}

// between returns a random duration from least to most.
func (s *soak) between(least, most time.Duration) time.Duration {
	return least + time.Duration(s.random.Int64N(int64(most-least)))
}

// killed kills the process of a place, waits for a random time, and starts a new process there. It reports whether the
// killed process had stopped answering.
func (s *soak) killed(at *place) bool {
	old := at.process.Load()
	old.kill()
	gone := old.status("/healthz") == 0
	lasting(s.between(0, 2*time.Second))
	s.launch(at)
	return gone
}

// perhapsKilled kills a program in about one of three calls, while another fault is in progress. It returns a function
// that starts a killed program again; the caller calls this function when the program can start.
func (s *soak) perhapsKilled() (revive func()) {
	victims := []*place{s.ingesters[1], s.apis[1]}
	at := victims[s.random.IntN(2)]
	if s.random.IntN(3) > 0 {
		return func() {}
	}
	s.note("  and kill -9 of the %s meanwhile", at.name)
	at.process.Load().kill()
	return func() { s.launch(at) }
}

// archiverKilled makes messages old enough for the archive, and kills the archiver when it has moved some of them or
// has ended. It reports whether the archive has grown.
func (s *soak) archiverKilled() bool {
	// An earlier fault may have broken the test's connection to PostgreSQL, and on a busy machine no message may be
	// finished yet. So the test repeats the statement until it changes a message.
	eventually(s.t, "messages are due", func() bool {
		res, err := s.db.Exec(`UPDATE dlq.dlq_messages SET updated_at = now() - interval '40 days' WHERE id IN (
			SELECT id FROM dlq.dlq_messages WHERE status IN ('RESOLVED', 'DEAD') LIMIT 150)`)
		if err != nil {
			return false
		}
		n, err := res.RowsAffected()
		return err == nil && n > 0
	})
	before := s.archived()
	p := s.startIn(s.dir, filepath.Join(binaries, "archiver"), "DLQ_ARCHIVE_BATCH_SIZE=1")
	eventually(s.t, "the archiver has moved something or ended", func() bool {
		select {
		case <-p.done:
			return true
		default:
			return s.archived() > before
		}
	})
	p.kill()
	return s.archived() > before
}

func (s *soak) archived() (n int) {
	if err := s.db.Get(&n, `SELECT count(*) FROM dlq.dlq_messages_archive`); err != nil {
		return -1
	}
	return n
}

func (s *soak) databaseRestarts(end func() error) bool {
	var before, after time.Time
	const started = `SELECT pg_postmaster_start_time()`
	eventually(s.t, "PostgreSQL reports its start time", func() bool { return s.db.Get(&before, started) == nil })
	if err := end(); err != nil {
		s.t.Fatalf("end PostgreSQL: %v", err)
	}
	revive := s.perhapsKilled()
	lasting(s.between(0, 2*time.Second))
	if err := s.stack.StartPostgres(s.t.Context()); err != nil {
		s.t.Fatalf("start PostgreSQL: %v", err)
	}
	revive()
	eventually(s.t, "PostgreSQL answers", func() bool { return s.db.Get(&after, started) == nil })
	return after.After(before)
}

func (s *soak) backendsTerminated() bool {
	ended := 0
	for range 3 {
		var n int
		if err := s.db.Get(&n, `SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`); err == nil {
			ended += n
		}
		lasting(s.between(100*time.Millisecond, 700*time.Millisecond))
	}
	return ended > 0
}

func (s *soak) databaseCut() bool {
	s.storeWay.Decide(func(what string) proxy.Action {
		if s.luck.of(6) {
			return s.luck.loseCommit("of the soak: " + what)
		}
		return proxy.Pass()
	})
	defer s.storeWay.Decide(nil)
	cut := 0
	revive := s.perhapsKilled()
	for range 3 {
		lasting(s.between(200*time.Millisecond, time.Second))
		cut += s.storeWay.CutAll()
	}
	s.storeWay.Decide(nil)
	revive()
	return cut > 0
}

// databaseHalfOpen makes some connections to PostgreSQL stay open while no bytes return on them. It reports whether
// there was such a connection.
func (s *soak) databaseHalfOpen() bool {
	before := s.counted("half open")
	s.storeWay.Decide(func(string) proxy.Action {
		if s.luck.of(4) {
			s.luck.count("half open")
			return proxy.BlackHole()
		}
		return proxy.Pass()
	})
	lasting(s.between(2*time.Second, 4*time.Second))
	s.storeWay.Decide(nil)
	return s.counted("half open") > before
}

func (s *soak) counted(what string) int {
	s.luck.mu.Lock()
	defer s.luck.mu.Unlock()
	return s.luck.counts[what]
}

func (s *soak) kafkaSlow() bool {
	before := s.counted("slow")
	s.kafkaWay.Decide(func(string) proxy.Action {
		if s.luck.of(2) {
			s.luck.count("slow")
			return proxy.Delay(time.Duration(50+s.luck.intN(1000)) * time.Millisecond)
		}
		return proxy.Pass()
	})
	lasting(s.between(3*time.Second, 5*time.Second))
	s.kafkaWay.Decide(nil)
	return s.counted("slow") > before
}

func (s *soak) kafkaCut() bool {
	s.kafkaWay.Decide(s.luck.losing(3))
	revive := s.perhapsKilled()
	cut := 0
	for range 3 {
		lasting(s.between(300*time.Millisecond, time.Second))
		cut += s.kafkaWay.CutAll()
	}
	s.kafkaWay.Decide(nil)
	revive()
	return cut > 0
}

func (s *soak) kafkaRestarts(end func() error) bool {
	if err := end(); err != nil {
		s.t.Fatalf("end Kafka: %v", err)
	}
	silent := len(s.kafka.committed(s.prefix, s.sources[0])) == 0
	revive := s.perhapsKilled()
	lasting(s.between(0, 2*time.Second))
	if err := s.stack.StartKafka(s.t.Context()); err != nil {
		s.t.Fatalf("start Kafka: %v", err)
	}
	for _, topic := range slices.Concat(s.sources, s.targets) {
		s.kafka.waitLeaders(topic)
	}
	revive()
	return silent
}

// memberVisits starts a third ingester and ends it again. Both the join and the leave of this member cause a rebalance
// of the consumer group.
func (s *soak) memberVisits() bool {
	p := s.startIn(s.dir, filepath.Join(binaries, "ingester"), s.env...)
	p.waitReady()
	seen := s.soon(30*time.Second, func() bool { return len(s.kafka.shares(s.prefix)) == 3 })
	if s.random.IntN(2) == 0 {
		p.stop()
	} else {
		p.kill()
	}
	return seen
}

func (s *soak) standsStill(at *place, d time.Duration) bool {
	p := at.process.Load()
	p.signal(syscall.SIGSTOP)
	seen := s.soon(5*time.Second, func() bool {
		stat, err := stateOf(p.program.Pid())
		return err == nil && stat == "T"
	})
	lasting(d)
	p.signal(syscall.SIGCONT)
	eventuallyAs(s.t, readinessFollows, "the resumed program is ready", func() bool { return p.status("/readyz") == 200 })
	return seen
}

// soon calls ok until it returns true, for at most the time limit. It returns the last result of ok.
func (s *soak) soon(limit time.Duration, ok func() bool) bool {
	for end := time.Now().Add(limit); time.Now().Before(end); lasting(50 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return ok()
}

// stateOf returns the state of a process as ps shows it: T means stopped.
func stateOf(pid int) (string, error) {
	out, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	state := strings.TrimSpace(string(out))
	return state[:min(1, len(state))], err
}
