package bulk

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/bulk/internal/reach"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/internal/harm"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// pollInterval is the time between two polls of the store, for active redrives and for available batches. A
// notification within this process makes it poll earlier.
const pollInterval = time.Second

// errUnreachable means that a redrive waits for Kafka or for the store.
var errUnreachable = errors.New("a server cannot be reached; the redrive continues when it can")

// run is one process's work on one active redrive.
type run struct {
	deps     *dependencies
	redrives *Redrives
	leases   *heldLeases
	passes   chan struct{} // has one element for each pass that runs in the process
	id       uuid.UUID
	canary   harm.Canary
	patch    *patcher // nil: values are sent unchanged
	waiting  bool     // the store has a mark that the redrive waits
	note     string   // why the redrive waits
	progress progress
	sources  map[string]bool      // dead-letter topics of the redrive's messages, as far as this process knows
	sourced  bool                 // sources has those that the store knows
	ingested time.Time            // the dead letters that were written before were read; zero: not known
	mark     mark                 // what the ingester must have read, so that ingested is the time of the mark
	targets  map[string]string    // by original topic that was left out because of its target's bound: the target
	gone     map[string]time.Time // by original topic whose target does not exist: since when
	keys     *keyOrder            // nil: messages need no order, or the blocked keys were not read yet
	after    batchOf              // keys contains the results up to this batch of its topic
	locked   lockedMessages
}

// batchOf names a batch of a redrive by its topic and number. Earlier batches of other topics may be unfinished.
type batchOf struct {
	topic  string
	number int
}

const none = -2 // no batch has this number, nor follows it

// progress is what this process knows of the consumer groups that read the target topics of a redrive.
type progress struct {
	commits map[repository.TopicGroup]commitment
	failing bool // the last request failed
}

// commitment says whether a consumer group has committed an offset in a topic, so that its progress shows outcomes.
type commitment int

const (
	committed commitment = iota + 1 // the consumer group is waited for; so is one about which Kafka has not been asked
	nothing                         // the consumer group's outcomes cannot be known
)

// mark holds the ends of dead-letter topics at one time.
type mark struct {
	at   time.Time
	ends []repository.IngestPosition
}

// topicSet is a set of topics. It is safe for concurrent use.
type topicSet struct {
	mu     sync.Mutex
	topics map[string]bool
}

func (s *topicSet) add(topic string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topics == nil {
		s.topics = map[string]bool{}
	}
	s.topics[topic] = true
}

func (s *topicSet) has(topic string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.topics[topic]
}

func (s *topicSet) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.topics))
}

// setWaiting saves whether the redrive waits, and why. It saves nothing when the store already has these values.
func (r *run) setWaiting(ctx context.Context, waiting bool, note string) {
	if waiting == r.waiting && note == r.note {
		return
	}
	if err := r.deps.store.SaveWaiting(ctx, r.id, waiting, attempt.StorableText(note)); err != nil {
		r.warn(ctx, "cannot save that the redrive waits", err)
		return
	}
	r.waiting, r.note = waiting, note
}

func (r *run) warn(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		r.deps.log.Warn(what, zap.Stringer("redrive_id", r.id), zap.Error(err), traces.InLog(ctx))
	}
}

// pass goes through the available batches of a redrive once. One goroutine leases batches, loads their messages and
// plans them. Several workers claim parts of batches and store results in parallel, but send the parts one after the
// other. So this process keeps the order of the records in each partition.
type pass struct {
	deps    *dependencies
	run     *run
	redrive entity.Redrive
	ctx     context.Context         //nolint:containedctx // context of all leases of the pass
	stop    context.CancelCauseFunc // stops leasing batches and sending messages

	without topicSet // topics whose batches are leased no more, as repository.RedriveBatch.Topic; "": of several topics

	mu sync.Mutex // guards the fields below
	// original topics whose target refused a record in this pass, with the error class
	refused     map[string]entity.ErrorClass
	reach       reach.Reach
	parked      []*lease
	held        map[string]bool // original topics whose messages wait, until outcomes are known or the target exists again
	someLocked  bool            // another database session locked the row of some message
	unreachable error           // error of a partition that was not reachable; nil: all were reachable
	noLeaders   bool            // the cluster answers, but the leaders of many batches in a row are missing
	worked      bool
}

// part holds planned messages of one leased batch, which a worker claims and sends together.
type part struct {
	lease   *lease
	planned []entity.Outgoing
	memory  *attempt.Reservation
	turn    <-chan struct{} // closed when the part before this one was sent
	sent    chan struct{}   // closed when this part was sent, or when it is certain that it will not be sent
}

func (p *pass) refuse(topic string, class entity.ErrorClass) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[topic] = class
}

// progress records that the pass has given a result to some message.
func (p *pass) progress() {
	p.mu.Lock()
	p.worked = true
	p.mu.Unlock()
}

// canSend reports whether a partition was reachable, and sends have not failed in too many batches in a row.
func (p *pass) canSend() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reach.Open()
}

// cause returns the audit information of the changes that the redrive makes, which names its creator.
func (p *pass) cause() entity.AuditInfo {
	c := p.redrive.Cause
	c.Operation = uuid.Nil
	return c
}

// heldLeases holds the leases of this process. For each lease, which its owner id names, it holds the time until which
// no other process can take over the batch. A process that was suspended for longer than its lease must not continue,
// because another process may have become the owner and made the attempts.
type heldLeases struct {
	mu    sync.Mutex
	until map[uuid.UUID]time.Time
}

func (s *heldLeases) add(owner uuid.UUID, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until[owner] = until
}

func (s *heldLeases) remove(owner uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.until, owner)
}

func (s *heldLeases) owners() []uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.until))
}

// renewed extends a lease, unless the lease had already ended when the store was asked to renew it.
func (s *heldLeases) renewed(owner uuid.UUID, asked, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if over, there := s.until[owner]; there && asked.Before(over) {
		s.until[owner] = until
	}
}

// holds reports whether a lease lasts at least until the given time.
func (s *heldLeases) holds(owner uuid.UUID, then time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return then.Before(s.until[owner])
}

// stopMove returns the change of a redrive to the state stopped, because it exceeds a limit or its canary has failed.
func stopMove(redrive entity.Redrive, why string) repository.RedriveMove {
	return repository.RedriveMove{
		To: entity.RedriveStopped, Action: entity.ActionStop, Note: why, Cause: entity.By(redrive.Cause.Actor),
		From: []entity.RedriveState{entity.RedriveCanary, entity.RedriveRunning},
	}
}
