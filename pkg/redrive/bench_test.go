package redrive

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
)

const (
	orders     = redrivetest.Orders
	deadLetter = redrivetest.DeadLetter
)

var elapse = redrivetest.Elapse

// bench is a Service that uses the memory store, and a fake Kafka whose log is in memory.
type bench struct {
	*redrivetest.Bench
	*Service
}

// scenario runs a test in a synctest bubble. The bench is configured to retry all topics automatically; the test starts
// automatic retry.
func scenario(do func(b *bench), more ...Option) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := &bench{Bench: redrivetest.NewBench(t)}
			cfg := DefaultConfig()
			cfg.Auto.Topics = []string{"*"}
			b.Service = New(cfg, stores.Fill[Stores](b.Store), b.Kafka, prometheus.NewRegistry(), b.Logger, append(more, WithOrigins(b.Origins))...)
			do(b)
		})
	}
}

// start runs loops until the returned function is called.
func start(loops ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	for _, loop := range loops {
		all.Go(func() { loop(ctx) })
	}
	return func() { cancel(); all.Wait() }
}

// carry runs the loops that work on redrives and settle claims, until the returned function is called.
func (b *bench) carry() (stop func()) { return start(b.RunRedrives, b.RunSettler) }

// autoFor runs automatic retry for some time.
func (b *bench) autoFor(d time.Duration) {
	stop := start(b.RunAuto, b.RunSettler)
	elapse(d)
	stop()
}

func (b *bench) retry(id uuid.UUID) error {
	_, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, Cause: entity.By("tester")})
	return err
}
