package stack

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestFaults(t *testing.T) {
	t.Parallel()
	proxy := check.Must(net.Listen("tcp", loopback+":0"))(t) // only its address is needed: nothing is forwarded
	t.Cleanup(func() { proxy.Close() })
	s := start(t, Options{Postgres: true, Kafka: true, KafkaAdvertise: proxy.Addr().String()})

	t.Run("KafkaTellsTheClientsOfEachListenerItsAddress", func(t *testing.T) { advertises(t, s, proxy.Addr().String()) })
	for name, end := range map[string]func() error{"Kill": s.KillPostgres, "Stop": s.StopPostgres} {
		t.Run("PostgresKeepsCommitsOverA"+name, func(t *testing.T) { keepsCommits(t, s, name, end) })
	}
	t.Run("APausedKafkaIsSilentAndGoesOn", func(t *testing.T) { pauses(t, s) })
	for name, end := range map[string]func() error{"Kill": s.KillKafka, "Stop": s.StopKafka} {
		t.Run("KafkaKeepsRecordsOverA"+name, func(t *testing.T) { keepsRecords(t, s, name, end) })
	}
	t.Run("ARunningServerIsNotStartedTwice", func(t *testing.T) {
		if err := s.StartKafka(patient(t)); err == nil {
			t.Error("StartKafka of a running broker = nil, want an error")
		}
	})
	check.Is(t, s.Broker(4).Kill(), ErrNotOurs, "kill of a broker that does not exist")
}

func keepsCommits(t *testing.T, s *Stack, table string, end func() error) {
	db, url := openDatabase(t, s.DatabaseURL()), s.DatabaseURL()
	execute(t, db, "create table "+table+" (n int)")
	execute(t, db, "insert into "+table+" values (42)")
	if err := end(); err != nil {
		t.Fatalf("end: %v", err)
	}
	if listens(hostOf(t, url)) {
		t.Error("PostgreSQL listens after its end")
	}
	if err := s.StartPostgres(patient(t)); err != nil {
		t.Fatalf("StartPostgres: %v", err)
	}
	if got := scalar(t, openDatabase(t, url), "select n from "+table); got != "42" {
		t.Errorf("select n from %s = %s, want 42", table, got)
	}
}

func pauses(t *testing.T, s *Stack) {
	broker := s.Brokers()[0]
	if err := s.PauseKafka(); err != nil {
		t.Fatalf("PauseKafka: %v", err)
	}
	if !listens(broker) {
		t.Error("a paused Kafka does not listen, want it only to be silent")
	}
	impatient, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := pingKafka(impatient, broker); err == nil {
		t.Error("a paused Kafka answers")
	}
	if err := s.ResumeKafka(); err != nil {
		t.Fatalf("ResumeKafka: %v", err)
	}
	await(t, "answer of the resumed Kafka", func() bool { return pingKafka(patient(t), broker) == nil })
}

// advertises checks that the broker tells the clients of its second listener the address of the proxy, and the clients
// of its first listener its own address.
func advertises(t *testing.T, s *Stack, proxy string) {
	port := func(a string) int {
		at, err := net.ResolveTCPAddr("tcp", a)
		check.NoError(t, err)
		return at.Port
	}
	for _, c := range []struct{ ask, want string }{
		{s.Brokers()[0], s.Brokers()[0]},
		{s.KafkaBehind(), proxy},
	} {
		conn, err := kafka.DialContext(patient(t), "tcp", c.ask)
		check.Require(t, err == nil, "connect to %s: %v", c.ask, err)
		brokers, err := conn.Brokers()
		conn.Close()
		if err != nil || len(brokers) != 1 || brokers[0].Port != port(c.want) {
			t.Errorf("brokers according to %s: %v, %v, want the one at %s", c.ask, brokers, err, c.want)
		}
	}
}

func keepsRecords(t *testing.T, s *Stack, topic string, end func() error) {
	broker := s.Brokers()[0]
	createTopic(t, broker, topic)
	produce(t, broker, topic, []byte("kept"))
	for range 2 { // the second time checks that ending an ended server is no error
		if err := end(); err != nil {
			t.Fatalf("end: %v", err)
		}
	}
	if listens(broker) {
		t.Error("Kafka listens after its end")
	}
	if err := s.StartKafka(patient(t)); err != nil {
		t.Fatalf("StartKafka: %v", err)
	}
	if got := string(consume(t, broker, topic)); got != "kept" {
		t.Errorf("consumed %q, want %q", got, "kept")
	}
}

// TestStandby: the standby shows what the primary has committed, even if the standby was down at that time. The standby
// refuses writes.
func TestStandby(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Postgres: true, Standby: true})
	primary, standby := openDatabase(t, s.DatabaseURL()), openDatabase(t, s.StandbyURL())
	execute(t, primary, "create table n (n int)")
	shows := func(want string) {
		await(t, "the standby shows "+want, func() bool {
			var got string
			err := standby.QueryRowContext(t.Context(), "select sum(n) from n").Scan(&got)
			return err == nil && got == want
		})
	}
	execute(t, primary, "insert into n values (1)")
	shows("1")
	check.NoError(t, s.KillStandby())
	execute(t, primary, "insert into n values (2)")
	check.NoError(t, s.StartStandby(patient(t)))
	shows("3")
	if _, err := standby.ExecContext(t.Context(), "insert into n values (3)"); err == nil {
		t.Error("the standby can be written")
	}
}
