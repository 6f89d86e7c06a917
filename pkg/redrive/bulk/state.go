package bulk

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// Store is the part of a repository that redrives need. Its methods keep the promises of repository.Core, return soon
// after their context ends, and fail without a deadline when a database does not answer: loops and drains call them
// without one.
type Store interface {
	repository.Redrives
	Get(ctx context.Context, id uuid.UUID, maxValue int64) (entity.Message, error)
	Claimable(ctx context.Context, ids []uuid.UUID) ([]uuid.UUID, error)
	AttemptsOf(ctx context.Context, redrive uuid.UUID, ids []uuid.UUID) ([]entity.Attempt, error)
}

// Selections is the part of a store for redrives with a selection or another action than retry.
type Selections interface {
	Survey(ctx context.Context, n repository.NewRedrive) ([]repository.SurveyGroup, error)
	Search(ctx context.Context, q repository.SearchQuery) (repository.SearchPage, error)
	Change(ctx context.Context, c repository.Change, cause entity.Cause) ([]uuid.UUID, error)
	PerformedOn(ctx context.Context, operation uuid.UUID, action entity.Action, ids []uuid.UUID) ([]uuid.UUID, error)
	RedriveItems(ctx context.Context, id uuid.UUID, q repository.ItemQuery) ([]entity.RedriveItem, error)
}

// Config says how redrives are carried out.
type Config struct {
	Workers     int           // how many parts of one redrive a process sends at once; 0 leaves redrives to others
	ClaimExpiry time.Duration // duration of a lease, as of a claim
}

const (
	batchMessages = 500 // number of messages that are leased, claimed, sent and stored together
	parkedLimit   = 200 // limit of parked batches; the pass ends there
)

// Reasons for skipped messages, in addition to the error classes, attempt.SkippedNotPermitted and the store's reasons.
const (
	SkippedKeyBlocked = "key_blocked" // an earlier message of the same key did not succeed

	// SkippedPatchFailed: the patch does not apply to the value, or the message does not carry its value (too large
	// to store, or a pointer), so the result cannot be shown before it is sent.
	SkippedPatchFailed = "patch_failed"
)

// dependencies are what the types of this package work with.
type dependencies struct {
	cfg      Config
	store    Store
	selected Selections // nil: the store supports only retries of topics
	parts    *attempt.Parts
	log      *zap.Logger
	tracer   trace.Tracer // nil: there are no spans
}

// run is one process's work on one active redrive.
type run struct {
	deps    *dependencies
	runner  *Runner
	id      uuid.UUID
	canary  canary
	patch   patcher   // nil: values are sent unchanged
	waiting bool      // the store has the redrive marked as waiting
	keys    *keyOrder // nil when no order is kept, or not loaded yet
	last    int       // number of the last batch that keys includes
	locked  lockedMessages
}

func newRun(r *Runner, id uuid.UUID) *run {
	return &run{deps: r.deps, runner: r, id: id, last: -1, locked: lockedMessages{lastRetry: map[uuid.UUID]time.Time{}}}
}

// pass goes through the available batches once. One goroutine leases, loads and plans; several send in parallel.
// Sending takes turns, which keeps the order within a partition, as far as one process is concerned.
type pass struct {
	deps    *dependencies
	run     *run
	redrive entity.Redrive
	ctx     context.Context         //nolint:containedctx // the scope of everything that the pass leased
	stop    context.CancelCauseFunc // stops taking and sending

	mu          sync.Mutex                   // guards the fields below
	refused     map[string]entity.ErrorClass // target topics that refuse records, with the class
	reach       reach
	parked      []*lease
	someLocked  bool  // another session locked some message
	unreachable error // why nothing was reachable
	noLeaders   bool  // the cluster answers, but leader after leader is missing
	worked      bool
}

// part is a set of planned messages of one lease, for a worker.
type part struct {
	lease   *lease
	planned []entity.Outgoing
	memory  *attempt.Reservation
	turn    <-chan struct{} // closed when the part before has been sent
	sent    chan struct{}   // closed when this part has been sent, or will not be
}

func (p *pass) refuse(topic string, class entity.ErrorClass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[topic] = class
}

// progress records that some message got a result.
func (p *pass) progress() {
	p.mu.Lock()
	p.worked = true
	p.mu.Unlock()
}

// canSend reports whether the pass can send to any partition.
func (p *pass) canSend() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.reach.reached) > 0 && p.reach.failedBatches < maxFailedBatches
}
