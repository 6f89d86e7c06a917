package auto

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
)

const orders = redrivetest.Orders

var (
	acknowledged = redrivetest.Acknowledged
	always       = redrivetest.Always
	elapse       = redrivetest.Elapse
	errBroken    = redrivetest.ErrBroken
	except       = redrivetest.Except
	failure      = redrivetest.Failure
	inDoubt      = redrivetest.InDoubt
	rejected     = redrivetest.Rejected
	to           = redrivetest.To
	unauthorized = redrivetest.Unauthorized
)

// bench runs automatic retry with the memory store, and with a fake Kafka whose log is in memory.
type bench struct {
	*redrivetest.Bench
	*Retrier
	parts    *attempt.Parts
	registry *prometheus.Registry
	random   func() float64
}

func newBench(t *testing.T) *bench {
	b := &bench{Bench: redrivetest.NewBench(t), random: func() float64 { return 0.5 }}
	b.build(DefaultConfig(), b.Store, b.Kafka)
	return b
}

// store has all parts of a store that automatic retry uses.
type store interface {
	attempt.Store
	Store
	Sends
}

func (b *bench) build(cfg Config, store store, publisher attempt.Publisher) {
	b.registry = prometheus.NewRegistry()
	b.parts = attempt.New(attempt.Config{
		ClaimExpiry: 30 * time.Second, SettleInterval: 5 * time.Second, StuckAfter: 10 * time.Minute, Backoff: cfg.RetryBackoff(),
	}, store, publisher, b.registry, b.Logger, attempt.Options{
		Judge: b.Origins, Redirects: b.Store, Random: func() float64 { return b.random() },
	})
	b.Retrier = New(cfg, store, store, b.parts, b.registry, b.Logger, nil)
}

// another returns a second process that uses the same store and the same fake Kafka.
func (b *bench) another() *bench {
	other := *b
	other.build(b.cfg, b.Store, b.Kafka)
	return &other
}

func (b *bench) retry(id uuid.UUID) error {
	_, err := b.parts.Retrier.Retry(context.Background(), entity.RetryOrder{ID: id, Cause: entity.By("tester")})
	return err
}

// scenario runs a test with a new bench in a synctest bubble, whose clock is fake.
func scenario(do func(b *bench)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { do(newBench(t)) })
	}
}
