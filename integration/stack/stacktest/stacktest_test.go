package stacktest_test

import (
	"database/sql"
	"testing"

	_ "github.com/lib/pq"
	"github.com/segmentio/kafka-go"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

func TestPostgres(t *testing.T) {
	url := stacktest.Postgres(t)
	db, err := sql.Open("postgres", url)
	check.NoError(t, err)
	defer db.Close()
	if err := db.PingContext(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
	if again := stacktest.Postgres(t); again != url {
		t.Errorf("Postgres(t) = %q, then %q, want one server for all tests", url, again)
	}
}

func TestKafka(t *testing.T) {
	brokers := stacktest.Kafka(t)
	client := &kafka.Client{Addr: kafka.TCP(brokers...)}
	if _, err := client.Metadata(t.Context(), &kafka.MetadataRequest{}); err != nil {
		t.Errorf("Metadata: %v", err)
	}
	if again := stacktest.Kafka(t); len(again) != 1 || again[0] != brokers[0] {
		t.Errorf("Kafka(t) = %q, then %q, want one broker for all tests", brokers, again)
	}
}
