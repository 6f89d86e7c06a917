package stack

import "testing"

func TestFaults(t *testing.T) {
	t.Parallel()
	s := start(t, Options{Postgres: true, Kafka: true})

	t.Run("PostgresKeepsCommitsOverAKill", func(t *testing.T) {
		db, url := openDatabase(t, s.DatabaseURL()), s.DatabaseURL()
		execute(t, db, "create table kept (n int)")
		execute(t, db, "insert into kept values (42)")
		if err := s.KillPostgres(); err != nil {
			t.Fatalf("KillPostgres: %v", err)
		}
		if listens(hostOf(t, url)) {
			t.Error("PostgreSQL listens after the kill")
		}
		if err := s.StartPostgres(patient(t)); err != nil {
			t.Fatalf("StartPostgres: %v", err)
		}
		if got := scalar(t, openDatabase(t, url), "select n from kept"); got != "42" {
			t.Errorf("select n from kept = %s, want 42", got)
		}
	})
	for name, end := range map[string]func() error{"Kill": s.KillKafka, "Stop": s.StopKafka} {
		t.Run("KafkaKeepsRecordsOverA"+name, func(t *testing.T) { keepsRecords(t, s, name, end) })
	}
	t.Run("ARunningServerIsNotStartedTwice", func(t *testing.T) {
		if err := s.StartKafka(patient(t)); err == nil {
			t.Error("StartKafka of a running broker = nil, want an error")
		}
	})
}

func keepsRecords(t *testing.T, s *Stack, topic string, end func() error) {
	broker := s.Brokers()[0]
	createTopic(t, broker, topic)
	produce(t, broker, topic, []byte("kept"))
	for range 2 { // ending what has ended does nothing
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
