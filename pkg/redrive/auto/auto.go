// Package auto retries messages without an operator: it sends the messages of the configured topics that are due, the
// oldest first. Each process has one rate limit. While a broker does not answer, messages lose no attempts.
package auto

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	refusedPause = time.Minute // how long automatic retry skips a refused message, topic or pair of topics

	// If no leader was reachable for a topic in unreachableBatches batches in a row, or its partitions are unknown,
	// automatic retry pauses the topic. Each further pause is longer, up to unreachablePauseMax.
	unreachableBatches  = 3
	unreachablePause    = time.Second
	unreachablePauseMax = 30 * time.Second
	// skippedNoKafka is the reason for skipping messages when the configuration names no Kafka. Without Kafka a retry
	// resolves a message without sending it, which only an operator may request.
	skippedNoKafka = "no_kafka"
)

// Retrier retries due messages automatically.
type Retrier struct {
	cfg     Config
	store   Store
	sends   Sends
	parts   *attempt.Parts
	log     *zap.Logger
	metrics *metrics
	tracer  trace.Tracer // nil: there are no spans
}

// New returns a Retrier whose metrics are in registry. cfg must be valid. sends is nil for a store that does not know
// which messages failed again. tracer makes the spans of batches; nil: none.
func New(
	cfg Config, store Store, sends Sends, parts *attempt.Parts, registry prometheus.Registerer, log *zap.Logger, tracer trace.Tracer,
) *Retrier {
	return &Retrier{cfg: cfg, store: store, sends: sends, parts: parts, log: log, metrics: newMetrics(registry), tracer: tracer}
}

// Run retries due messages automatically until ctx ends. It returns when no attempt is under way: results are
// stored, and unsent claims given back. Without configured topics it only waits for ctx. Any number of processes may
// run it.
func (r *Retrier) Run(ctx context.Context) {
	patterns, err := r.cfg.patterns()
	if err != nil { // cannot happen: Config.Validate checks the patterns
		r.log.Error("automatic retry is off", zap.Error(err))
	}
	if err != nil || len(r.cfg.Topics) == 0 {
		<-ctx.Done()
		return
	}
	d := newDispatcher(r, patterns)
	r.log.Info("automatic retry is on", zap.Stringer("topics", patterns))
	var workers sync.WaitGroup
	for range r.cfg.Parallelism {
		workers.Go(func() { d.work(ctx) })
	}
	workers.Wait()
}

// dispatcher runs the automatic retry of one process. Its workers share the feed, the limiter and the health.
type dispatcher struct {
	cfg     Config
	parts   *attempt.Parts
	log     *zap.Logger
	metrics *metrics
	tracer  trace.Tracer
	feed    *feed
	gate    *gate

	mu          sync.Mutex // guards the fields below
	limiter     *limiter
	health      *health
	unreachable map[string]int // per original topic: number of batches in a row in which its target was unreachable
	warned      map[warningKey]bool
	outage      outage.Log // logs once that the store does not answer, and once that it answers again
}

// warningKey identifies a warning that is logged once until it is resolved.
type warningKey struct {
	// partition -1: a whole topic; singleMessages: messages of the topic that were refused one by one
	at     attempt.TopicPartition
	reason string
}

// singleMessages is the partition number in warnings about single messages.
const singleMessages = -2

func newDispatcher(r *Retrier, patterns deadletter.Patterns) *dispatcher {
	r.metrics.rate.Set(math.Inf(1))
	return &dispatcher{
		cfg: r.cfg, parts: r.parts, log: r.log, metrics: r.metrics, tracer: r.tracer,
		feed:    newFeed(r.store, patterns, r.cfg.IdleSleep),
		gate:    newGate(r.cfg.MaxReturnShare, r.sends, r.log),
		limiter: newLimiter(r.cfg.Batch), health: newHealth(r.cfg.RetryBackoff()),
		unreachable: map[string]int{}, warned: map[warningKey]bool{},
	}
}

// work sends batches until ctx ends.
func (d *dispatcher) work(ctx context.Context) {
	for ctx.Err() == nil {
		woken := d.feed.woken.Listen()
		if pause := d.step(ctx); pause > 0 {
			wait.Until(ctx, woken, pause)
		}
	}
}

// step takes due messages and sends them as one batch. When no message is due, it returns how long to wait before the
// next call.
func (d *dispatcher) step(ctx context.Context) time.Duration {
	n, wait := d.allow()
	if n == 0 {
		return wait
	}
	ids, wait, empty, err := d.feed.take(ctx, n)
	if empty {
		d.parts.Executor.CountEmptyPoll()
	}
	if empty || err != nil {
		d.outage.Report(ctx, d.log, err, "automatic retry waits for the store", "automatic retry continues")
	}
	if len(ids) == 0 {
		d.refund(n)
		return wait
	}
	sent, err := d.retry(ctx, ids)
	d.refund(n - sent)
	d.outage.Report(ctx, d.log, err, "automatic retry waits for the store", "automatic retry continues")
	if err != nil {
		wait = d.feed.sleep()
	}
	return wait
}

func (d *dispatcher) allow() (int, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, wait := d.limiter.allow(d.cfg.Batch, time.Now())
	d.metrics.rate.Set(d.limiter.rate)
	return n, wait
}

func (d *dispatcher) refund(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limiter.refund(n)
}

// retry makes one attempt on each of the messages that can be sent now, and returns the number of attempts.
func (d *dispatcher) retry(ctx context.Context, ids []uuid.UUID) (claimed int, err error) {
	ctx, span := startSpan(ctx, d.tracer, len(ids))
	defer func() { endSpan(span, claimed, err) }()
	var unseen []uuid.UUID
	defer func() { d.feed.putBack(ids, unseen) }()
	messages, taken, memory, err := d.parts.Loader.Load(ctx, ids, attempt.Unpatched)
	if err != nil {
		return 0, err
	}
	defer memory.Release()
	unseen = ids[taken:]
	batch := attempt.OutgoingOf(messages)
	targets, err := d.parts.Planner.Plan(ctx, batch, attempt.PlanOptions{Bulk: true, Auto: true})
	if err != nil {
		return 0, err
	}
	if err := d.gate.ask(ctx, batch); err != nil {
		return 0, err
	}
	planned := d.admit(ctx, batch, targets)
	defer d.gate.end(planned)
	if len(planned) == 0 {
		return 0, nil
	}
	claimedBatch, deliveries, err := d.claimAndSend(ctx, planned)
	d.endProbes(planned)
	if err != nil || len(deliveries) == 0 {
		return 0, err
	}
	_, err = d.parts.Executor.Finish(claimedBatch, deliveries)
	return len(deliveries), err
}

// claimAndSend claims and sends the planned messages.
func (d *dispatcher) claimAndSend(ctx context.Context, planned []entity.Outgoing) (attempt.Batch, []entity.Delivery, error) {
	select {
	case <-ctx.Done():
		return attempt.Batch{}, nil, nil
	default:
	}
	b, err := d.parts.Executor.Claim(ctx, planned, attempt.ClaimOptions{Cause: entity.By(entity.ActorAuto)})
	if err != nil || len(b.Outgoing) == 0 {
		return attempt.Batch{}, nil, err
	}
	deliveries := d.send(ctx, b)
	d.learn(ctx, b.Outgoing, deliveries)
	return b, deliveries, nil
}

// send publishes the claimed messages once the broker's throttle is over. It gives them back when the throttle lasts too
// long, or when the store cannot keep what is sent.
func (d *dispatcher) send(ctx context.Context, b attempt.Batch) []entity.Delivery {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := d.gate.save(ctx, b.Outgoing); err != nil {
		d.outage.Report(ctx, d.log, err, "automatic retry waits for the store", "automatic retry continues")
		stop()
	}
	deadline := d.parts.Executor.SendDeadline(b)
	for throttle := d.throttle(); throttle > 0; throttle = d.throttle() {
		if time.Now().Add(throttle).After(deadline) || !wait.Sleep(ctx, throttle) {
			stop()
			break
		}
	}
	return d.parts.Executor.Publish(ctx, b)
}

// throttle returns how much longer the broker's throttle lasts; until then no record is sent.
func (d *dispatcher) throttle() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limiter.throttle(time.Now())
}

// admit returns the messages that may be sent now. It holds the other messages back, or pauses their topics.
func (d *dispatcher) admit(ctx context.Context, batch []entity.Outgoing, targets []entity.Target) []entity.Outgoing {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.recordReach(batch, targets, now)
	planned := batch[:0]
	for i, t := range targets {
		m := batch[i].Message
		var refused *entity.RefusedError
		switch {
		case m.CanClaim() != nil: // another process has claimed the message
		case errors.As(t.Err, &refused):
			d.refuse(ctx, m, refused)
		case t.Err != nil:
			d.skip(ctx, attempt.PartitionOf(t), string(entity.BrokerUnavailable), t.Err)
			d.holdBack(m, attempt.PartitionOf(t), d.health.missing(attempt.PartitionOf(t), now))
		case t.Partition < 0:
			d.pauseTopic(ctx, m.OriginalTopic, skippedNoKafka, nil)
		default:
			if until, why := d.gate.closed(m.OriginalTopic); !until.IsZero() {
				d.feed.pauseTopic(m.OriginalTopic, until)
				if why != "" {
					d.metrics.skipped.WithLabelValues(why).Inc()
				}
				continue
			}
			if ok, until := d.health.admit(attempt.PartitionOf(t), m.RetryCount+1 >= m.MaxRetries, now); !ok {
				d.holdBack(m, attempt.PartitionOf(t), until)
				continue
			}
			out := batch[i]
			out.Target = t
			d.gate.admit(m.OriginalTopic)
			planned = append(planned, out)
		}
	}
	return planned
}

// holdBack holds a message back until the given time. When heldMax messages are held back already, it pauses the
// message's whole topic instead.
func (d *dispatcher) holdBack(m entity.Message, at attempt.TopicPartition, until time.Time) {
	if !d.feed.hold(m.ID, at, until) {
		d.feed.pauseTopic(m.OriginalTopic, until)
	}
}

// refuse skips refused messages for a while. If the origin is undeclared, it skips all messages with the same
// dead-letter topic and original topic. If the message itself is the reason, or its original topic comes from a name,
// it skips this message alone. Otherwise it skips all messages of the original topic.
func (d *dispatcher) refuse(ctx context.Context, m entity.Message, err *entity.RefusedError) {
	reason, until := string(err.Class), time.Now().Add(refusedPause)
	switch {
	case err.OfValue, err.Class == entity.Envelope:
		d.refuseValue(ctx, m, reason, err)
	case err.Class == entity.Undeclared && m.Origin.Confidence != entity.FromOperator &&
		d.feed.leaveOut(repository.TopicPair{Original: m.OriginalTopic, DLQ: m.Source.Topic}, until):
		d.skip(ctx, attempt.TopicPartition{Topic: m.OriginalTopic, Partition: singleMessages}, reason, err)
	case err.OfMessage(), m.Origin.Confidence == entity.FromName:
		d.skip(ctx, attempt.TopicPartition{Topic: m.OriginalTopic, Partition: singleMessages}, reason, err)
		d.holdBack(m, attempt.TopicPartition{}, until)
	default:
		d.pauseTopic(ctx, m.OriginalTopic, reason, err)
	}
}

// refuseValue skips a message whose value may not be read from its dead-letter topic, or looks like an envelope. When
// heldMax messages are held back already, it skips all messages with the same dead-letter topic and original topic, so
// that others are still sent.
func (d *dispatcher) refuseValue(ctx context.Context, m entity.Message, reason string, err error) {
	until := time.Now().Add(refusedPause)
	d.skip(ctx, attempt.TopicPartition{Topic: m.OriginalTopic, Partition: singleMessages}, reason, err)
	switch {
	case d.feed.hold(m.ID, attempt.TopicPartition{}, until):
	case m.Origin.Confidence != entity.FromOperator &&
		d.feed.leaveOut(repository.TopicPair{Original: m.OriginalTopic, DLQ: m.Source.Topic}, until):
	default:
		d.feed.pauseTopic(m.OriginalTopic, until)
	}
}

func (d *dispatcher) pauseTopic(ctx context.Context, topic, reason string, err error) {
	d.skip(ctx, attempt.TopicPartition{Topic: topic, Partition: -1}, reason, err)
	d.feed.pauseTopic(topic, time.Now().Add(refusedPause))
}

// skip counts a message that cannot be sent now in the metrics, and logs each reason once per partition.
func (d *dispatcher) skip(ctx context.Context, at attempt.TopicPartition, reason string, err error) {
	d.metrics.skipped.WithLabelValues(reason).Inc()
	key := warningKey{at, reason}
	if d.warned[key] {
		return
	}
	d.warned[key] = true
	fields := []zap.Field{zap.String("topic", at.Topic), zap.String("reason", reason), zap.Error(err), traces.InLog(ctx)}
	if at.Partition >= 0 {
		fields = append(fields, zap.Int32("partition", at.Partition))
	}
	d.log.Warn("automatic retry cannot send", fields...)
}

// clearWarnings forgets the warnings about a partition that accepted a record, and about its topic as a whole.
func (d *dispatcher) clearWarnings(at attempt.TopicPartition) {
	for key := range d.warned {
		if key.at == at || key.at == (attempt.TopicPartition{Topic: at.Topic, Partition: -1}) {
			delete(d.warned, key)
		}
	}
}

// recordReach records for which original topics the target was reachable in a batch. It pauses a topic whose target was
// unreachable in several batches in a row, or whose target's partitions are unknown.
func (d *dispatcher) recordReach(batch []entity.Outgoing, targets []entity.Target, now time.Time) {
	reached, lost := map[string]bool{}, map[string]bool{}
	for i, t := range targets {
		original := batch[i].Message.OriginalTopic
		var refused *entity.RefusedError
		switch {
		case t.Err == nil:
			reached[original] = true
			d.recovered(attempt.TopicPartition{Topic: t.Topic, Partition: -1})
		case !errors.As(t.Err, &refused):
			lost[original] = lost[original] || t.Partition < 0
		}
	}
	for topic := range reached {
		delete(lost, topic)
		delete(d.unreachable, topic)
	}
	for topic, wholly := range lost {
		d.unreachable[topic]++
		if n := d.unreachable[topic]; wholly || n >= unreachableBatches {
			pause := wait.Backoff{Base: unreachablePause, Max: unreachablePauseMax}
			d.feed.pauseTopic(topic, now.Add(pause.After(n, 0)))
		}
	}
}

// recovered releases the messages that were held back because of a partition that now accepts records.
func (d *dispatcher) recovered(at attempt.TopicPartition) {
	if d.health.accepted(at) {
		d.feed.free(at)
	}
}

// endProbes ends the probes whose message was planned but not sent, so that another message can be the probe.
func (d *dispatcher) endProbes(planned []entity.Outgoing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, out := range planned {
		d.health.endProbe(attempt.PartitionOf(out.Target), time.Now())
	}
}

// learn adjusts the rate, the state of partitions and the warnings to the results of a batch.
func (d *dispatcher) learn(ctx context.Context, batch []entity.Outgoing, deliveries []entity.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	var n batchStats
	taken, failed := map[attempt.TopicPartition]bool{}, map[attempt.TopicPartition]bool{}
	for i, delivery := range deliveries {
		at := attempt.PartitionOf(batch[i].Target)
		n.throttle = max(n.throttle, delivery.Throttle)
		bad := delivery.Throttle > 0
		switch delivery.Verdict {
		case entity.Failed, entity.InDoubt:
			failed[at], bad = true, true
		case entity.GivenBack:
			if delivery.Class == "" { // the record was not sent, because the deadline came first
				continue
			}
			bad = true // an earlier record of the partition failed, so this record was not sent
		case entity.Refused:
			if delivery.OfValue {
				d.refuseValue(ctx, batch[i].Message, string(delivery.Class), delivery.Err)
				continue // the target was not asked
			}
			taken[at] = true
			d.pauseTopic(ctx, batch[i].Message.OriginalTopic, string(delivery.Class), delivery.Err)
		case entity.Acknowledged, entity.Skipped, entity.Rejected, entity.Rescued, entity.Abandoned:
			taken[at] = true
			d.clearWarnings(at)
			d.clearWarnings(attempt.TopicPartition{Topic: batch[i].Message.OriginalTopic, Partition: -1})
		}
		n.sent++
		if bad {
			n.bad++
		}
	}
	for at := range taken {
		delete(failed, at)
		d.recovered(at)
	}
	for at := range failed {
		d.health.failed(at, now)
	}
	d.limiter.learn(n, now)
	d.metrics.rate.Set(d.limiter.rate)
}
