package attempt

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	// claimTimeout limits the time of one call of Store.Claim. The end of the caller's context does not end this call:
	// otherwise the store might contain a claim that no process knows of.
	claimTimeout  = 10 * time.Second
	finishTimeout = 5 * time.Second // limits each call of Store.Finish by an Executor, and the read that may follow it

	finishPause    = 100 * time.Millisecond
	finishPauseMax = 2 * time.Second
)

// Executor claims messages, publishes their records, and stores how the attempts ended.
type Executor struct {
	cfg       Config
	store     Store
	publisher Publisher
	log       *zap.Logger
	metrics   *metrics
	// returns the time with a reading of the monotonic clock, which changes of the clock do not affect
	now    func() time.Time
	random func() float64
}

// Batch holds messages that were claimed together and are sent together.
type Batch struct {
	Cause     entity.AuditInfo
	ClaimedAt time.Time // time just before the call of Store.Claim, so each claim is at most this old
	Outgoing  []entity.Outgoing
	span      trace.Span // the span during which Claim was called; nil for none
}

// Part returns a batch with only some of the messages of b. It has the cause and the claim time of b.
func (b Batch) Part(some []entity.Outgoing) Batch {
	return Batch{Cause: b.Cause, ClaimedAt: b.ClaimedAt, Outgoing: some}
}

// Outcome is the result of one attempt.
type Outcome struct {
	Outgoing entity.Outgoing
	Delivery entity.Delivery
	// Finished is the answer of Store.Finish. An empty Status means that the store has not stored this result: the call
	// failed, or the claim had ended before.
	Finished repository.Finished
	auto     bool // the attempt is an automatic retry
}

// unsettled reports whether the attempt stays in doubt because the target's log cannot show whether the record was
// written.
func (o Outcome) unsettled() bool {
	return o.Finished.Status == entity.Retrying && o.Delivery.Verdict == entity.InDoubt && o.Delivery.Class == entity.UnknownClass
}

// within returns ctx with the span of the batch as the parent of new spans.
func (b Batch) within(ctx context.Context) context.Context { return traces.In(ctx, b.span) }

// ClaimOptions holds the options of a claim.
type ClaimOptions struct {
	Cause     entity.AuditInfo
	RedriveID uuid.UUID // id of the redrive that makes the claims; uuid.Nil: no redrive makes them
	// The claim is for an operator's retry of one message. The store adds an audit entry for it, and waits while
	// another database session locks the row.
	single bool
	// also claim a message whose last attempt cannot be settled: the operator accepts that the record may arrive twice
	takeOver bool
}

// Claim claims the planned messages and returns those that were claimed, in their order.
func (x *Executor) Claim(ctx context.Context, planned []entity.Outgoing, how ClaimOptions) (Batch, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	taken := Batch{Cause: how.Cause, ClaimedAt: x.now(), span: trace.SpanFromContext(ctx)}
	claims := intents(planned, how)
	states, err := x.store.Claim(ctx, claims, repository.Claiming{
		Expiry: x.cfg.ClaimExpiry, Wait: how.single, Cause: how.Cause, Audit: how.single, Brief: true,
	})
	if err != nil {
		x.releaseClaims(taken, claims)
		return Batch{}, fmt.Errorf("claim messages: %w", err)
	}
	byID := make(map[uuid.UUID]entity.Message, len(states))
	for _, m := range states {
		byID[m.ID] = m
	}
	for _, out := range planned {
		state, ok := byID[out.Message.ID]
		if !ok {
			continue
		}
		out.Message = claimed(out.Message, state)
		taken.Outgoing = append(taken.Outgoing, out)
	}
	x.metrics.inflight.Add(float64(len(taken.Outgoing)))
	x.metrics.dequeued(len(taken.Outgoing), len(planned)-len(taken.Outgoing))
	return taken, nil
}

// claimed returns the loaded message m with the fields that its claim has changed. The parameter by is the message that
// Store.Claim returned, which does not contain the record.
func claimed(m, by entity.Message) entity.Message {
	m.Status, m.RetryCount, m.MaxRetries = by.Status, by.RetryCount, by.MaxRetries
	m.UpdatedAt, m.LastRetryAt, m.Claim = by.UpdatedAt, by.LastRetryAt, by.Claim
	m.Unsettled, m.NextAttemptAt, m.LastPublishError, m.LastPublishErrorClass = false, time.Time{}, "", ""
	return m
}

// releaseClaims gives back claims after a failed call of Store.Claim, because the store may have made them although its
// answer was lost. No record is sent under these claims. It tries only once, because a claim that is not given back
// expires.
func (x *Executor) releaseClaims(b Batch, claims []repository.Claim) {
	results := make([]repository.Result, len(claims))
	for i, c := range claims {
		results[i] = repository.Result{
			MessageID: c.MessageID, ClaimID: c.ID, Verdict: entity.GivenBack, Partition: c.Partition, Offset: -1,
		}
	}
	if _, err := x.storeOnce(b.within(context.Background()), b, results); err != nil {
		x.log.Debug("cannot give back claims that the store may have made", zap.Error(err), traces.LogOf(b.span))
	}
}

func intents(planned []entity.Outgoing, how ClaimOptions) []repository.Claim {
	claims := make([]repository.Claim, len(planned))
	for i, out := range planned {
		claims[i] = repository.Claim{
			MessageID: out.Message.ID, ID: entity.NewID(), RedriveID: how.RedriveID, Topic: out.Target.Topic,
			TopicID: out.Target.TopicID, Partition: out.Target.Partition, EndOffset: out.Target.EndOffset,
			TakeOver: how.takeOver, Edit: editToStore(out.Edit), SentHash: out.Target.SentHash,
		}
		// Without a topic in the edit, the target depends on the original topic, which must not change until the claim.
		if out.Edit == nil || out.Edit.Topic == "" {
			claims[i].OriginalTopic = out.Message.OriginalTopic
		}
	}
	if how.single && how.Cause.Operation != uuid.Nil {
		claims[0].ID = how.Cause.Operation
	}
	return claims
}

// editToStore returns the part of an edit that is stored. If the edit is a patch, only the patch is stored, without
// the patched value, which can be computed again.
func editToStore(e *entity.Edit) *entity.Edit {
	if e == nil || e.Patch == nil {
		return e
	}
	return &entity.Edit{SetValue: true, Patch: e.Patch}
}

// Publish sends the claimed messages until ctx ends or half of the claim's duration has passed.
func (x *Executor) Publish(ctx context.Context, b Batch) []entity.Delivery {
	ctx, cancel := context.WithDeadline(ctx, x.SendDeadline(b))
	defer cancel()
	return x.publisher.Publish(ctx, b.Outgoing)
}

// SendDeadline returns the time after which no record of the batch is sent.
func (x *Executor) SendDeadline(b Batch) time.Time { return b.ClaimedAt.Add(x.cfg.SendWindow()) }

// Finish stores how the attempts ended. It tries again while the store is unavailable or contended, until two thirds of
// the claim's duration have passed. An error means that the store has not confirmed the results.
func (x *Executor) Finish(b Batch, deliveries []entity.Delivery) ([]Outcome, error) {
	defer x.metrics.inflight.Sub(float64(len(b.Outgoing)))
	finished, err := x.storeResults(b, x.results(b, deliveries))
	outcomes := join(b, deliveries, finished)
	for _, o := range outcomes {
		x.record(o, x.now().Sub(b.ClaimedAt), traces.LogOf(b.span))
	}
	return outcomes, err
}

func (x *Executor) storeResults(b Batch, results []repository.Result) ([]repository.Finished, error) {
	deadline := b.ClaimedAt.Add(x.cfg.finishWindow())
	ctx, try := b.within(context.Background()), 0
	defer func() { traces.RecordTries(ctx, try) }()
	for delay := finishPause; ; delay = min(2*delay, finishPauseMax) {
		finished, err := x.storeOnce(traces.Try(ctx, try), b, results)
		try++
		if err == nil {
			return finished, nil
		}
		later := errors.Is(err, entity.ErrUnavailable) || errors.Is(err, entity.ErrContended)
		if !later || x.now().Add(delay).After(deadline) {
			return nil, fmt.Errorf("store results: %w", err)
		}
		wait.Sleep(context.Background(), delay)
	}
}

func (x *Executor) storeOnce(ctx context.Context, b Batch, results []repository.Result) ([]repository.Finished, error) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	return x.store.Finish(ctx, results, b.Cause)
}

func (x *Executor) results(b Batch, deliveries []entity.Delivery) []repository.Result {
	results := make([]repository.Result, len(deliveries))
	for i, d := range deliveries {
		results[i] = x.result(b.Outgoing[i].Message, d)
	}
	return results
}

// result returns what the store keeps of an attempt, given how the send of its message ended.
func (x *Executor) result(m entity.Message, d entity.Delivery) repository.Result {
	r := repository.Result{
		MessageID: m.ID, ClaimID: m.Claim.ID, Verdict: d.Verdict, Class: d.Class, Partition: d.Partition,
		Offset: d.Offset,
	}
	if d.Err != nil {
		r.Error = StorableText(d.Err.Error())
	}
	switch d.Verdict {
	case entity.Failed:
		r.RetryIn = x.cfg.Backoff.After(m.RetryCount, x.random())
	case entity.Refused: // the topic refuses records: wait for the longest backoff, so that an operator can repair it
		r.RetryIn = x.cfg.Backoff.Max
	case entity.Acknowledged, entity.Skipped, entity.Rejected, entity.GivenBack, entity.InDoubt,
		entity.Rescued, entity.Abandoned:
	}
	return r
}

// maxErrorText is the number of bytes to which an error's text is cut before it is stored.
const maxErrorText = 1000

// StorableText cuts and corrects an error's text so that every store accepts it, because a store that rejects one text
// rejects the results of the whole batch.
func StorableText(text string) string {
	text = strings.ReplaceAll(text[:min(len(text), maxErrorText)], "\x00", "")
	return strings.ToValidUTF8(text, "\uFFFD")
}

func join(b Batch, deliveries []entity.Delivery, finished []repository.Finished) []Outcome {
	byID := make(map[uuid.UUID]repository.Finished, len(finished))
	for _, f := range finished {
		byID[f.MessageID] = f
	}
	outcomes := make([]Outcome, len(deliveries))
	for i, d := range deliveries {
		out := b.Outgoing[i]
		outcomes[i] = Outcome{
			Outgoing: out, Delivery: d, Finished: byID[out.Message.ID], auto: b.Cause.Actor == entity.ActorAuto,
		}
	}
	return outcomes
}

// record updates the metrics with an outcome, and logs the message if it became DEAD.
func (x *Executor) record(o Outcome, took time.Duration, within zap.Field) {
	topic := o.Outgoing.Target.Topic
	x.metrics.sends.WithLabelValues(x.metrics.label(topic), verdictLabel(o.Delivery.Verdict)).Inc()
	x.metrics.duration.Observe(took.Seconds())
	x.metrics.ended(o, x.now())
	if o.Finished.Status == entity.Dead {
		x.logDead(o.Finished, topic, o.Delivery.Class, within)
	}
}

// logDead logs a message that became DEAD, because it gets no further automatic retry. The field within names the span
// in which the message became DEAD.
func (x *Executor) logDead(f repository.Finished, topic string, class entity.ErrorClass, within zap.Field) {
	x.metrics.dead.Inc()
	x.log.Warn("message is dead",
		zap.Stringer("message_id", f.MessageID),
		zap.String("topic", topic),
		zap.Int("retry_count", f.RetryCount),
		zap.String("class", string(class)), within)
}
