package program

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// The public readiness text about the schema contains versions and no hosts.
func TestSchemaCheck_Public(t *testing.T) {
	t.Parallel()
	public := SchemaCheck(nil).Public
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&migrate.VersionError{Have: 1, Want: 2}, true},
		{&migrate.DirtyError{Version: 2}, true},
		{&migrate.NumberingError{Have: 33}, true},
		{errors.New("connect to database db.internal:5432/dlq: refused"), false},
		{fmt.Errorf("db.internal: %w", &migrate.VersionError{}), false},
		{context.DeadlineExceeded, false},
	} {
		if got := public(c.err); got != c.want {
			t.Errorf("%v: public = %t, want %t", c.err, got, c.want)
		}
	}
}

// WaitFor tries the database and Kafka at the same time. In this test, the database accepts connections but never
// answers. Kafka must still be tried within the start-up timeout.
func TestWaitFor_TriesBothAtOnce(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and stays silent
	check.NoError(t, err)
	defer silent.Close()
	cfg := DefaultConfig()
	cfg.Server.StartupTimeout = 2 * time.Second
	cfg.Database.Host, cfg.Database.Name, cfg.Database.User = "127.0.0.1", "n", "u"
	cfg.Database.Port = silent.Addr().(*net.TCPAddr).Port
	cfg.Database.ConnectTimeout = 50 * time.Millisecond
	cfg.Kafka.Broker.Brokers = []string{"127.0.0.1:1"}
	db, err := postgres.Open(*cfg.Database)
	check.NoError(t, err)
	defer db.Close()
	cluster, err := broker.Open(cfg.Kafka.Broker)
	check.NoError(t, err)
	defer cluster.Close()
	base := Base{Config: cfg}

	if err := base.WaitFor(t.Context(), db, nil); err == nil || !strings.Contains(err.Error(), "database is not ready") {
		t.Errorf("the database alone: got %v, want its error", err)
	}
	if err := base.WaitFor(t.Context(), nil, cluster); err == nil || !strings.Contains(err.Error(), "kafka at 127.0.0.1:1") {
		t.Errorf("kafka alone: got %v, want its error", err)
	}
	if err := base.WaitFor(t.Context(), nil, nil); err != nil {
		t.Errorf("nothing to wait for: got %v, want nil", err)
	}
	kafkaTried := make(chan struct{})
	counting, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	defer counting.Close()
	go func() {
		if conn, err := counting.Accept(); err == nil {
			_ = conn.Close()
			close(kafkaTried)
		}
	}()
	cfg.Kafka.Broker.Brokers = []string{counting.Addr().String()}
	second, err := broker.Open(cfg.Kafka.Broker)
	check.NoError(t, err)
	defer second.Close()
	if err := base.WaitFor(t.Context(), db, second); err == nil {
		t.Error("both: got no error, want one")
	}
	select {
	case <-kafkaTried:
	default:
		t.Error("kafka was not tried while the database did not answer")
	}
}
