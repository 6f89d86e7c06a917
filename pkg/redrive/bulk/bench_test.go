package bulk

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/payload"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	orders     = redrivetest.Orders
	deadLetter = redrivetest.DeadLetter
	silence    = redrivetest.Silence
)

var (
	acknowledged = redrivetest.Acknowledged
	always       = redrivetest.Always
	elapse       = redrivetest.Elapse
	errBroken    = redrivetest.ErrBroken
	except       = redrivetest.Except
	failure      = redrivetest.Failure
	finding      = redrivetest.Finding
	inDoubt      = redrivetest.InDoubt
	keyed        = redrivetest.Keyed
	notTo        = redrivetest.NotTo
	rejected     = redrivetest.Rejected
	to           = redrivetest.To
	unauthorized = redrivetest.Unauthorized
	value        = redrivetest.Value
)

// bench contains Redrives, a Runner and the parts of attempts, which use the memory store, and a fake Kafka whose log
// is in memory.
type bench struct {
	*redrivetest.Bench
	*Redrives
	*attempt.Retrier
	parts    *attempt.Parts
	runner   *Runner
	registry *prometheus.Registry
	archive  Archive // nil: there is no archive
	groups   Groups  // nil: Kafka is not asked about consumer groups
}

func newBench(t *testing.T) *bench {
	b := &bench{Bench: redrivetest.NewBench(t)}
	b.build(b.Store, nil)
	return b
}

// build makes new Redrives, a new Runner and new parts of attempts for the bench. They use the given store: the bench's
// store, or a wrapper that changes some of its methods.
func (b *bench) build(store any, tracer trace.Tracer) {
	const claimExpiry = 30 * time.Second
	s := stores.Fill[struct {
		Attempts   attempt.Store
		Redrives   Store
		Selections Selections
	}](store)
	b.registry = prometheus.NewRegistry()
	b.parts = attempt.New(attempt.Config{
		ClaimExpiry: claimExpiry, SettleInterval: 5 * time.Second, StuckAfter: 10 * time.Minute,
		Backoff: wait.Backoff{Base: 2 * time.Second, Max: 256 * time.Second, Jitter: 0.1},
	}, s.Attempts, b.Kafka, b.registry, b.Logger, attempt.Options{
		Judge: b.Origins, Redirects: b.Store, Random: func() float64 { return 0.5 }, Tracer: tracer,
	})
	b.Retrier = b.parts.Retrier
	b.Redrives, b.runner = New(Config{
		Workers: 4, ClaimExpiry: claimExpiry, Archive: b.archive, Masks: benchMasks, Groups: b.groups, Progress: b.Store, MetadataGrace: time.Minute,
	}, s.Redrives, s.Selections, b.parts, b.registry, b.Logger,
		tracer)
}

// benchMasks are what redrives with RedriveOptions.KeepsMasked keep.
var benchMasks, _ = payload.NewMasks(payload.MaskConfig{Payload: []string{"$.state.pin"}})

// another returns a second process that uses the same store and the same fake Kafka.
func (b *bench) another() *bench {
	other := *b
	other.build(b.Store, nil)
	return &other
}

// traced makes the bench create spans from now on, and returns a recorder of the spans in which the store is called.
func (b *bench) traced(provider trace.TracerProvider) *redrivetest.Asked {
	b.build(b.Store, traces.Tracer(provider, "test"))
	return b.Watch()
}

func (b *bench) retry(id uuid.UUID) error {
	_, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, Cause: entity.By("tester")})
	return err
}

// claim makes the claims that a process leaves when it dies before it sends. The claims belong to a redrive, or to none
// with uuid.Nil.
func (b *bench) claim(redrive uuid.UUID, ids ...uuid.UUID) attempt.Batch {
	b.Helper()
	messages, taken, err := b.Store.Load(context.Background(), ids, 1<<20)
	check.Require(b, err == nil && taken == len(ids), "Load = %d, %v, want %d", taken, err, len(ids))
	return b.claimBatch(redrive, attempt.OutgoingOf(messages))
}

func (b *bench) claimBatch(redrive uuid.UUID, batch []entity.Outgoing) attempt.Batch {
	b.Helper()
	for i, target := range b.Kafka.Plan(context.Background(), batch, true) {
		batch[i].Target = target
	}
	how := attempt.ClaimOptions{Cause: entity.By("tester"), RedriveID: redrive}
	return check.Must(b.parts.Executor.Claim(context.Background(), batch, how))(b)
}

// scenario runs a test with a new bench in a synctest bubble, whose clock is fake.
func scenario(do func(b *bench)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { do(newBench(t)) })
	}
}
