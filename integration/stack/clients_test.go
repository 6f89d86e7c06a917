package stack

import (
	"context"
	"database/sql"
	"net"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func openDatabase(t *testing.T, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open("postgres", url)
	check.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func scalar(t *testing.T, db *sql.DB, query string) string {
	t.Helper()
	var value string
	if err := db.QueryRowContext(patient(t), query).Scan(&value); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return value
}

func execute(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(patient(t), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// newClient returns a client that has not contacted the broker yet.
func newClient(t *testing.T, broker string) *kafka.Client {
	t.Helper()
	transport := &kafka.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &kafka.Client{Addr: kafka.TCP(broker), Transport: transport}
}

func createTopic(t *testing.T, broker, topic string) {
	t.Helper()
	answer, err := newClient(t, broker).CreateTopics(patient(t), &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 1, ReplicationFactor: -1}},
	})
	if err == nil {
		err = answer.Errors[topic]
	}
	check.Require(t, err == nil, "CreateTopics(%s): %v", topic, err)
}

func produce(t *testing.T, broker, topic string, value []byte) {
	t.Helper()
	w := &kafka.Writer{
		Addr: kafka.TCP(broker), Topic: topic, RequiredAcks: kafka.RequireAll,
		BatchSize: 1, BatchBytes: largestBatch, Transport: newClient(t, broker).Transport,
	}
	defer w.Close()
	if err := w.WriteMessages(patient(t), kafka.Message{Value: value}); err != nil {
		t.Fatalf("WriteMessages(%d bytes): %v", len(value), err)
	}
}

// consume reads the first record of a topic as a member of a consumer group.
func consume(t *testing.T, broker, topic string) []byte {
	t.Helper()
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{broker}, GroupID: "readers-of-" + topic, Topic: topic,
		StartOffset: kafka.FirstOffset, MaxBytes: largestBatch, MaxWait: 250 * time.Millisecond,
	})
	defer r.Close()
	message, err := r.FetchMessage(patient(t))
	check.Require(t, err == nil, "FetchMessage(%s): %v", topic, err)
	return message.Value
}

// listens reports whether the address accepts connections.
func listens(address string) bool {
	conn, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
