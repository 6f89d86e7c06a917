package redrive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const (
	// A batch is what is loaded, claimed, sent and stored in one go.
	batchMessages = 500
	batchBytes    = 8 << 20

	// bytesUnderWay bounds the memory of one redrive; a single message above it
	// travels alone.
	bytesUnderWay = 32 << 20

	// leaderPatience is how long a redrive waits for a partition without a
	// reachable leader before it goes on without it.
	leaderPatience = 30 * time.Second
	leaderPause    = 5 * time.Second // at most between two looks

	// hopeless is how many batches in a row may fail wholly: at one partition,
	// which is then left out, or at all, which ends the run. The broker is taken
	// to be away, rather than costing every message an attempt.
	hopeless = 2

	// strandedLimit is how many batches in a row may go nowhere, each of them
	// asked for in vain, before any other has been reached. It is not small,
	// because dead letters of one partition often come in one after another.
	strandedLimit = 20
)

// Reasons for skipped messages beside the error classes.
const (
	skippedTaken     = "taken"      // another attempt has it, or it left PENDING meanwhile
	skippedGone      = "gone"       // deleted or archived meanwhile
	skippedGivenBack = "given_back" // its turn came too late to send it safely
)

var errHopeless = errors.New("the broker does not acknowledge anything")

// RetryAll makes one attempt on every message of the topic (its original topic
// or its dead-letter topic) that could be claimed when it began, oldest first,
// and waits for the end of all. Messages of the same target partition are sent
// in that order. Two runs may overlap: each message is taken once.
//
// Messages for partitions that stay unreachable, or take nothing although they
// can be reached, are skipped with reason BROKER_UNAVAILABLE; the others are
// sent. Only when no place is left to send to the run is over.
//
// The end of ctx is a drain: nothing more is taken, what was sent is stored,
// what was claimed and not sent is given back. So ctx must not be that of a
// client who may leave. An interrupted run, also by a lost broker or store,
// answers *entity.InterruptedError with the report of what was done.
func (s *Service) RetryAll(ctx context.Context, topic, actor string) (entity.RedriveReport, error) {
	ids, err := s.store.Select(ctx, topic)
	if err != nil {
		return entity.RedriveReport{}, fmt.Errorf("select messages: %w", err)
	}
	r := newRun(s, topic, actor, len(ids))
	s.log.Info("redrive began", zap.Stringer("redrive_id", r.report.ID),
		zap.String("topic", topic), zap.String("actor", actor), zap.Int("selected", len(ids)))
	err = r.all(ctx, ids)
	s.log.Info("redrive ended", reportFields(r.report, err)...)
	return r.report, err
}

// run is one RetryAll. One goroutine loads and plans batches; several carry
// them out, so that one batch is claimed and another stored while a third is
// being sent. Sending is in turns: that keeps the order within a partition.
type run struct {
	*Service
	actor  string
	memory *semaphore.Weighted
	stop   context.CancelCauseFunc // ends taking and sending

	mu      sync.Mutex // guards what follows
	report  entity.RedriveReport
	refused map[string]entity.ErrorClass // target topics that take nothing now
	places  places
	unsaved bool  // the store never said that it has some result
	away    error // why the run went nowhere in the end
}

func newRun(s *Service, topic, actor string, selected int) *run {
	return &run{
		Service: s,
		actor:   actor,
		memory:  semaphore.NewWeighted(bytesUnderWay),
		report: entity.RedriveReport{
			ID: entity.NewID(), Topic: topic, Selected: selected, Reasons: map[string]int{},
		},
		refused: map[string]entity.ErrorClass{},
		places:  newPlaces(),
	}
}

// batch is planned messages on their way to a worker.
type batch struct {
	planned []entity.Outgoing
	bytes   int64
	turn    <-chan struct{} // closed when the batch before has been sent
	sent    chan struct{}   // closed when this one has, or will not be
}

// all carries out the whole selection and returns when nothing is under way.
func (r *run) all(ctx context.Context, ids []uuid.UUID) error {
	ctx, r.stop = context.WithCancelCause(ctx)
	defer r.stop(nil)
	batches := make(chan batch)
	var workers sync.WaitGroup
	for range r.cfg.Workers {
		workers.Go(func() {
			for b := range batches {
				r.carry(ctx, b)
			}
		})
	}
	if err := r.walk(ctx, ids, batches); err != nil {
		r.stop(err)
	}
	close(batches)
	workers.Wait()
	return r.verdict(ctx)
}

// walk hands the selection to the workers, batch by batch.
func (r *run) walk(ctx context.Context, ids []uuid.UUID, batches chan<- batch) error {
	first := make(chan struct{})
	close(first)
	for turn := (<-chan struct{})(first); len(ids) > 0; {
		messages, taken, err := r.store.Load(ctx, ids[:min(batchMessages, len(ids))], batchBytes)
		if err != nil {
			return fmt.Errorf("load messages: %w", err)
		}
		ids = ids[taken:]
		r.skip(skippedGone, taken-len(messages))
		planned, err := r.plan(ctx, messages)
		if err != nil {
			return err
		}
		b := batch{planned: planned, bytes: weight(messages), turn: turn, sent: make(chan struct{})}
		if err := r.memory.Acquire(ctx, b.bytes); err != nil {
			return err
		}
		select {
		case batches <- b:
			turn = b.sent
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// weight is the memory that messages take, at most all there is.
func weight(messages []entity.Message) int64 {
	var n int64
	for _, m := range messages {
		n += int64(len(m.Record.Value) + len(m.Record.Key))
		for _, h := range m.Record.Headers {
			n += int64(len(h.Key) + len(h.Value))
		}
	}
	return min(n, bytesUnderWay)
}

// plan returns the messages that may be sent, and counts the others. While a
// leader cannot be reached it waits, for no attempt may start then. When it has
// waited long enough, what can be reached is sent and the rest left out; the
// same place is not waited for again. An error means that the run is over.
func (r *run) plan(ctx context.Context, messages []entity.Message) ([]entity.Outgoing, error) {
	messages = r.withoutRefused(messages)
	deadline := r.now().Add(leaderPatience)
	for wait := time.Second; ; wait = min(2*wait, leaderPause) {
		targets := r.publisher.Plan(ctx, messages, true)
		left := deadline.Sub(r.now())
		settled, err := r.survey(targets, left > 0)
		if err != nil {
			return nil, fmt.Errorf("plan: %w", err)
		}
		if settled {
			return r.admit(messages, targets), nil
		}
		if !pause(ctx, min(wait, left)) {
			return nil, context.Cause(ctx)
		}
	}
}

// survey reports whether the batch can go as it is planned now, without what
// cannot be reached; patient says that there is time to look again. An error
// means that the run is over.
func (r *run) survey(targets []entity.Target, patient bool) (settled bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	away, some, err := r.places.look(targets)
	switch {
	case err == nil:
		r.places.stranded = 0
		return true, nil
	case len(away) > 0 && patient:
		return false, nil
	}
	r.leaveOut(away)
	r.away = err
	if some {
		r.places.stranded = 0
	} else if r.places.strand(targets, len(away) > 0) {
		return false, err
	}
	return true, nil
}

// withoutRefused leaves out what would go to a topic that refused before.
func (r *run) withoutRefused(messages []entity.Message) []entity.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.refused) == 0 {
		return messages
	}
	var left []entity.Message
	for _, m := range messages {
		if class, ok := r.refused[m.OriginalTopic]; ok {
			r.skipLocked(string(class), 1)
			continue
		}
		left = append(left, m)
	}
	return left
}

func (r *run) admit(messages []entity.Message, targets []entity.Target) []entity.Outgoing {
	r.mu.Lock()
	defer r.mu.Unlock()
	planned := make([]entity.Outgoing, 0, len(messages))
	for i, t := range targets {
		var refused *entity.RefusedError
		switch {
		case errors.As(t.Err, &refused):
			r.skipLocked(string(refused.Class), 1)
		case t.Err != nil || r.places.shut(placeOf(t)):
			r.skipLocked(string(entity.BrokerUnavailable), 1)
		default:
			planned = append(planned, entity.Outgoing{Message: messages[i], Target: t})
		}
	}
	return planned
}

// carry claims a batch, sends it when its turn has come, and stores the result.
func (r *run) carry(ctx context.Context, b batch) {
	defer r.memory.Release(b.bytes)
	taken := r.take(ctx, b.planned)
	<-b.turn
	var deliveries []entity.Delivery
	if len(taken.outgoing) > 0 {
		deliveries = r.send(ctx, taken)
	}
	close(b.sent)
	if len(deliveries) == 0 {
		return
	}
	endings, err := r.finish(taken, deliveries)
	if err != nil {
		r.stop(err)
	}
	r.count(endings, err != nil, ctx.Err() != nil)
}

// send publishes a batch but for what would go to a place that has been shut
// since it was planned, and stops the run when sending has become pointless. It
// does so between turns: what waits for its turn is given back instead of
// failing as well.
func (r *run) send(ctx context.Context, taken attempts) []entity.Delivery {
	deliveries := make([]entity.Delivery, len(taken.outgoing))
	open := attempts{actor: taken.actor, claimed: taken.claimed}
	var at []int
	r.mu.Lock()
	for i, out := range taken.outgoing {
		if r.places.shut(placeOf(out.Target)) {
			deliveries[i] = shutOut(out.Target)
			continue
		}
		open.outgoing = append(open.outgoing, out)
		at = append(at, i)
	}
	r.mu.Unlock()
	if len(at) == 0 {
		return deliveries
	}
	sent := r.publish(ctx, open)
	for n, i := range at {
		deliveries[i] = sent[n]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.places.judge(open.outgoing, sent) {
		r.stop(errHopeless)
	}
	return deliveries
}

func shutOut(t entity.Target) entity.Delivery {
	return entity.Delivery{
		Verdict: entity.GivenBack, Class: entity.BrokerUnavailable, Err: errHopeless, Partition: t.Partition, Offset: -1,
	}
}

func (r *run) take(ctx context.Context, planned []entity.Outgoing) attempts {
	if len(planned) == 0 || ctx.Err() != nil {
		return attempts{}
	}
	taken, err := r.claim(ctx, r.actor, planned, claiming{})
	if err != nil {
		r.stop(err)
		return attempts{}
	}
	r.skip(skippedTaken, len(planned)-len(taken.outgoing))
	return taken
}

// verdict is nil when the whole selection is accounted for, in the store too,
// and something was left to send it to.
func (r *run) verdict(ctx context.Context) error {
	cause := context.Cause(ctx)
	counted := r.report.Resolved + r.report.Failed + r.report.InDoubt + r.report.Skipped
	switch {
	case cause == nil && r.places.nowhere():
		cause = r.away
	case counted == r.report.Selected && !r.unsaved && !errors.Is(cause, errHopeless):
		return nil
	}
	return &entity.InterruptedError{Report: r.report, Err: cause}
}
