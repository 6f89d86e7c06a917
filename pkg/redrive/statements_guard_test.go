package redrive

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestStatementsOfRetryAll limits the number of SQL statements that a redrive of 1,000 messages needs. Statements that
// meanwhile poll for other work count too, except the calls that polled counts.
func TestStatementsOfRetryAll(t *testing.T) {
	t.Parallel()
	const n, most = 1000, 25
	db, count := postgrestest.OpenCounted(t)
	if _, err := db.Exec(`
		INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, value, headers)
		SELECT 'orders', 'boom', now() - n * interval '1 ms', 'v', '\x00' FROM generate_series(1, $1::int) n`, n); err != nil {
		t.Fatal(err)
	}
	store := &polled{Store: postgres.New(db)}
	s := New(DefaultConfig(), stores.Fill[Stores](store), &redrivetest.Kafka{}, prometheus.NewRegistry(), zap.NewNop())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()

	got := count.Of(func() {
		running.Go(func() { s.RunRedrives(ctx) })
		r := check.Must(s.Begin(ctx, repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: orders}}, Cause: entity.By("tester"),
			Options: entity.RedriveOptions{MinSample: entity.DefaultMinSample, CanaryWait: entity.DefaultCanaryWait},
		}))(t)
		check.Equal(t, check.Must(s.Wait(ctx, r.ID))(t).Counts.Succeeded, n, "messages sent")
	})
	got -= store.polls.Load()
	t.Logf("statements: %d", got)
	check.True(t, got <= most, "statements for %d messages = %d, want at most %d", n, got, most)
}

// polled counts the calls of the method Redrive. Their number depends on how long the redrive takes, and so on the load
// of the machine, so the test does not limit them.
type polled struct {
	*postgres.Store
	polls atomic.Int64
}

func (p *polled) Redrive(ctx context.Context, id uuid.UUID) (entity.Redrive, error) {
	p.polls.Add(1)
	return p.Store.Redrive(ctx, id)
}
