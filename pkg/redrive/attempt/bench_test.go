package attempt

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const orders = redrivetest.Orders

var (
	acknowledged = redrivetest.Acknowledged
	always       = redrivetest.Always
	elapse       = redrivetest.Elapse
	errBroken    = redrivetest.ErrBroken
	failure      = redrivetest.Failure
	finding      = redrivetest.Finding
	inDoubt      = redrivetest.InDoubt
	rejected     = redrivetest.Rejected
	unauthorized = redrivetest.Unauthorized
)

// bench makes attempts with the memory store, and with a fake Kafka whose log is in memory.
type bench struct {
	*redrivetest.Bench
	*Retrier
	*Settler
	*Executor
}

func newBench(t *testing.T) *bench {
	b := &bench{Bench: redrivetest.NewBench(t)}
	b.build(b.Store)
	return b
}

func (b *bench) build(store Store) {
	parts := New(Config{
		ClaimExpiry: 30 * time.Second, SettleInterval: 5 * time.Second, StuckAfter: 10 * time.Minute,
		Backoff: wait.Backoff{Base: 2 * time.Second, Max: 256 * time.Second, Jitter: 0.1},
	}, store, b.Kafka, prometheus.NewRegistry(), b.Logger, Options{Judge: b.Origins, Redirects: b.Store, Random: func() float64 { return 0.5 }})
	b.Retrier, b.Settler, b.Executor = parts.Retrier, parts.Settler, parts.Executor
}

// another returns a second process that uses the same store and the same fake Kafka.
func (b *bench) another() *bench {
	other := *b
	other.build(b.Store)
	return &other
}

func (b *bench) retry(id uuid.UUID) error {
	_, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, Cause: entity.By("tester")})
	return err
}

// scenario runs a test with a new bench in a synctest bubble, whose clock is fake.
func scenario(do func(b *bench)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { do(newBench(t)) })
	}
}
