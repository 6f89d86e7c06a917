package attempt

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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
	// settleLimit is the number of claims that one run of Settle reads together, so that it reads each target partition
	// once for all of them.
	settleLimit    = 10_000
	settleParallel = 8 // number of partitions that are read at once

	// settleGrace is how long Run waits for a call of Settle that is under way when its context ends. It is short,
	// because a store that does not answer must not delay the shutdown. Another process then settles the claims.
	settleGrace  = 5 * time.Second
	settleJitter = 0.2 // keeps replicas that started together from settling at the same time
)

// Settler ends the attempts of processes that died, or that never learned the result of their attempt.
type Settler struct {
	store     Store
	publisher Publisher
	executor  *Executor
	log       *zap.Logger
	tracer    trace.Tracer // nil: there are no spans

	unsettled  atomic.Bool // the last settling outside of a request's trace has failed
	reportedAt time.Time   // when stuck messages were last logged
}

// Run settles abandoned claims until ctx ends. A claim that cannot be settled now is tried again after SettleInterval.
func (s *Settler) Run(ctx context.Context) {
	turns := wait.Backoff{Base: s.executor.cfg.SettleInterval, Max: s.executor.cfg.SettleInterval, Jitter: settleJitter}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait.Sleep(ctx, turns.After(1, s.executor.random())) {
			if err := s.Settle(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("cannot settle claims", zap.Error(err))
			}
			s.reportStuck(ctx)
		}
	}()
	<-ctx.Done()
	select {
	case <-done:
	case <-time.After(settleGrace):
	}
}

// Settle reads all expired claims once and ends their attempts by what the target partitions contain: the message
// becomes RESOLVED when its record is in the partition, and PENDING or DEAD when it is not. If the partition cannot
// show whether the record was written, the message stays RETRYING with class UNKNOWN and waits for an operator. Claims
// whose partition cannot be read now do not delay the others; Settle then returns the error of one of these claims.
func (s *Settler) Settle(ctx context.Context) error {
	var after repository.Cursor
	var settled []Outcome
	var cause error
	for ctx.Err() == nil {
		page, err := s.store.Expired(ctx, repository.ExpiredQuery{After: after, Limit: settleLimit})
		if err != nil {
			cause = fmt.Errorf("list expired claims: %w", err)
			break
		}
		outcomes, err := s.settle(ctx, page)
		settled = append(settled, outcomes...)
		if err != nil {
			cause = err
		}
		if len(page) < settleLimit {
			break
		}
		last := page[len(page)-1]
		after = repository.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
	}
	if len(settled) > 0 {
		s.log.Info("abandoned attempts were settled", append(summary(settled), traces.InLog(ctx))...)
	}
	return cause
}

// settle returns how attempts ended. It leaves out attempts whose target partition could not be read now, and returns
// the error of one such partition. It reads partitions in parallel: a partition that does not answer delays only its
// own claims.
func (s *Settler) settle(ctx context.Context, messages []entity.Message) ([]Outcome, error) {
	ctx, span := s.traceSettling(ctx, len(messages))
	var mu sync.Mutex
	var settled []Outcome
	var cause error
	var all sync.WaitGroup
	slots := make(chan struct{}, settleParallel)
	for _, group := range byPartition(messages) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			outcomes, err := s.settlePartition(ctx, group)
			mu.Lock()
			defer mu.Unlock()
			settled = append(settled, outcomes...)
			if err != nil {
				cause = err
			}
		})
	}
	all.Wait()
	span.end(len(settled), cause)
	return settled, cause
}

func byPartition(messages []entity.Message) map[TopicPartition][]entity.Message {
	groups := map[TopicPartition][]entity.Message{}
	for _, m := range messages {
		at := TopicPartition{m.Claim.Topic, m.Claim.Partition}
		groups[at] = append(groups[at], m)
	}
	return groups
}

func (s *Settler) settlePartition(ctx context.Context, messages []entity.Message) ([]Outcome, error) {
	claims := make([]entity.Claim, len(messages))
	for i, m := range messages {
		claims[i] = m.Claim
	}
	var cause error
	var settled Batch
	var deliveries []entity.Delivery
	for i, d := range s.publisher.FindMany(ctx, claims) {
		if d.Verdict == entity.InDoubt && d.Class != entity.UnknownClass {
			cause = d.Err
			continue
		}
		settled.Outgoing = append(settled.Outgoing, earlier(messages[i]))
		deliveries = append(deliveries, verdictOn(messages[i], d))
	}
	outcomes, err := s.conclude(ctx, settled, deliveries)
	if err == nil {
		err = cause
	}
	return outcomes, err
}

// earlier returns the message m with the target of its claim, which is the target of the attempt to settle.
func earlier(m entity.Message) entity.Outgoing {
	c := m.Claim
	return entity.Outgoing{
		Message: m,
		Target:  entity.Target{Topic: c.Topic, Partition: c.Partition, EndOffset: c.EndOffset},
	}
}

// verdictOn turns the result of reading the target's log into the verdict on an attempt. If the log does not contain
// the record, the verdict is "failed" when the attempt's process reported an error, and "rescued" when that process
// reported nothing.
func verdictOn(m entity.Message, d entity.Delivery) entity.Delivery {
	if d.Verdict != entity.GivenBack {
		return d
	}
	if m.LastPublishErrorClass == "" {
		d.Verdict = entity.Rescued
		return d
	}
	d.Verdict = entity.Failed
	d.Class = m.LastPublishErrorClass
	d.Err = fmt.Errorf("%s; settled as not published", m.LastPublishError)
	return d
}

// conclude stores the results of settled attempts. It tries only once, because after an error the next run of Settle
// finds the attempts again.
func (s *Settler) conclude(ctx context.Context, b Batch, deliveries []entity.Delivery) ([]Outcome, error) {
	if len(deliveries) == 0 {
		return nil, nil
	}
	finished, err := s.store.Finish(ctx, s.executor.results(b, deliveries), entity.By(entity.ActorSettler))
	if err != nil {
		return nil, fmt.Errorf("store settled attempts: %w", err)
	}
	var counted []Outcome
	for _, o := range join(b, deliveries, finished) {
		if o.Finished.Status == "" {
			continue // another process settled the attempt at the same time
		}
		counted = append(counted, o)
		s.recordSettled(o, traces.InLog(ctx))
	}
	return counted, nil
}

func (s *Settler) recordSettled(o Outcome, within zap.Field) {
	topic := o.Outgoing.Target.Topic
	s.executor.metrics.sends.WithLabelValues(s.executor.metrics.label(topic), "settled_"+verdictLabel(o.Delivery.Verdict)).Inc()
	switch {
	case o.Finished.Status == entity.Dead:
		s.executor.logDead(o.Finished, topic, o.Delivery.Class, within)
	case o.Delivery.Verdict == entity.InDoubt:
		s.log.Warn("attempt cannot be settled; an operator must decide",
			zap.Stringer("message_id", o.Outgoing.Message.ID),
			zap.String("topic", topic),
			zap.Int32("partition", o.Outgoing.Target.Partition),
			zap.Int64("from_offset", o.Outgoing.Target.EndOffset),
			zap.Error(o.Delivery.Err), within)
	}
}

func summary(outcomes []Outcome) []zap.Field {
	counts := map[entity.Verdict]int{}
	for _, o := range outcomes {
		counts[o.Delivery.Verdict]++
	}
	fields := make([]zap.Field, 0, len(counts))
	for verdict, n := range counts {
		fields = append(fields, zap.Int(verdictLabel(verdict), n))
	}
	return fields
}

// settleMessage settles the attempt that holds m, if its claim has expired, and returns the result. The status is still
// RETRYING when the claim has not expired, and when the attempt cannot be settled.
func (s *Settler) settleMessage(ctx context.Context, m entity.Message) (Outcome, error) {
	held := Outcome{Outgoing: earlier(m), Finished: state(m)}
	expired, err := s.expired(ctx, m.ID)
	if err != nil || expired == nil {
		return held, err
	}
	outcomes, err := s.settle(ctx, []entity.Message{*expired})
	switch {
	case err != nil:
		return Outcome{}, &unavailableError{fmt.Errorf("settle the earlier attempt: %w", err)}
	case len(outcomes) == 0: // another process settled the attempt at this moment
		return held, nil
	}
	return outcomes[0], nil
}

// expired returns the message when its claim has expired by the store's clock, else nil. The clock of this process may
// be wrong.
func (s *Settler) expired(ctx context.Context, id uuid.UUID) (*entity.Message, error) {
	messages, err := s.store.Expired(ctx, repository.ExpiredQuery{ID: id, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("read the claim: %w", err)
	}
	if len(messages) == 0 {
		return nil, nil
	}
	return &messages[0], nil
}

// reportStuck sets the metric of messages that have been RETRYING for too long, and logs their number once per
// StuckAfter: either their claims cannot be settled now, or an operator must decide.
func (s *Settler) reportStuck(ctx context.Context) {
	n, err := s.store.Stuck(ctx, s.executor.cfg.StuckAfter)
	if err != nil {
		return // settling has failed and has already logged the error
	}
	s.executor.metrics.stuck.Set(float64(n))
	if n > 0 && s.executor.now().Sub(s.reportedAt) >= s.executor.cfg.StuckAfter {
		s.reportedAt = s.executor.now()
		s.log.Error("messages have been RETRYING for too long", zap.Int64("messages", n), zap.Duration("longer_than", s.executor.cfg.StuckAfter))
	}
}

const (
	spanSettle = "settle claims" // name of the span
	// error of the span: some claim could not be settled now; the next run of Settle tries again.
	notSettled = "not_settled"
)

// settling is the span of one call of settle. Some spans are made only if they succeed; their field span is nil until a
// claim was settled.
type settling struct {
	s      *Settler
	ctx    context.Context //nolint:containedctx // context of a span that may be made later
	span   trace.Span
	alone  bool // the span has no parent
	begun  time.Time
	claims int
}

// traceSettling begins the span of settled claims, as a child of the caller's span or as a root span. As long as Settle
// fails, only its first failure, and calls that settle a claim, get a root span.
func (s *Settler) traceSettling(ctx context.Context, claims int) (context.Context, settling) {
	if s.tracer == nil || claims == 0 {
		return ctx, settling{span: traces.None()}
	}
	t := settling{s: s, ctx: ctx, alone: !trace.SpanContextFromContext(ctx).IsValid(), begun: time.Now(), claims: claims}
	if t.alone && s.unsettled.Load() {
		return ctx, t
	}
	return t.start()
}

func (t settling) start() (context.Context, settling) {
	ctx, span := traces.Start(t.ctx, t.s.tracer, spanSettle, trace.WithTimestamp(t.begun), trace.WithAttributes(traces.Messages.Int(t.claims)))
	t.span = span
	return ctx, t
}

// end ends the span with the number of settled attempts.
func (t settling) end(settled int, err error) {
	if t.alone {
		t.s.unsettled.Store(err != nil)
	}
	if t.span == nil {
		if settled == 0 {
			return
		}
		_, t = t.start()
	}
	if t.span.IsRecording() {
		t.span.SetAttributes(traces.Attempts.Int(settled))
		traces.Fail(t.span, notSettled, err)
	}
	t.span.End()
}
