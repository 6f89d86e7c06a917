package redrive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/outage"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	refusedRest = time.Minute // how long automatic retry skips a message or topic that was refused

	// A topic whose leaders are all unreachable is set aside after some batches in a row, for growing times.
	strandedBatches = 3
	strandedRest    = time.Second
	strandedRestMax = 30 * time.Second
	skippedNoKafka  = "no_kafka" // without Kafka a retry resolves messages unsent, which only an operator may request
)

// patterns compiles the topics of automatic retry.
func (a Auto) patterns() (deadletter.Patterns, error) {
	if len(a.Topics) == 0 {
		return deadletter.Patterns{}, nil
	}
	var problems []error
	for _, text := range a.Topics {
		if _, err := deadletter.ParsePatterns(text); err != nil {
			problems = append(problems, fmt.Errorf("auto.topics: %s", fieldReason(err)))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return deadletter.Patterns{}, err
	}
	return deadletter.ParsePatterns(a.Topics...)
}

// fieldReason returns the reason of a pattern's error without the name of the setting.
func fieldReason(err error) string {
	var field *entity.FieldError
	if errors.As(err, &field) {
		return field.Reason
	}
	return err.Error()
}

// RunAuto retries due messages automatically until ctx ends. It returns when no attempt is under way: results are
// stored, and unsent claims given back. Without configured topics it only waits for ctx. Any number of processes may
// run it.
func (s *Service) RunAuto(ctx context.Context) {
	patterns, err := s.cfg.Auto.patterns()
	if err != nil { // cannot happen: Config.Validate checks the patterns
		s.log.Error("automatic retry is off", zap.Error(err))
	}
	if err != nil || len(s.cfg.Auto.Topics) == 0 {
		<-ctx.Done()
		return
	}
	d := newDispatcher(s, patterns)
	s.log.Info("automatic retry is on", zap.Stringer("topics", patterns))
	var workers sync.WaitGroup
	for range s.cfg.Auto.Parallelism {
		workers.Go(func() { d.work(ctx) })
	}
	workers.Wait()
}

// dispatcher runs the automatic retry of one process. Its workers share the feed, the limiter and the health.
type dispatcher struct {
	*Service
	feed *feed

	mu       sync.Mutex // guards the fields below
	limiter  *limiter
	health   *health
	stranded map[string]int // consecutive batches whose topic was unreachable
	told     map[complaint]bool
	outage   outage.Log // of the store
}

// complaint identifies a warning that is logged once until it is resolved.
type complaint struct {
	at     place // partition -1 for the whole topic, alone for single messages of it
	reason string
}

// alone is the partition number in complaints about single messages.
const alone = -2

func newDispatcher(s *Service, patterns deadletter.Patterns) *dispatcher {
	s.metrics.rate.Set(math.Inf(1))
	return &dispatcher{
		Service: s, feed: newFeed(s, patterns),
		limiter: newLimiter(s.cfg.Auto.Batch), health: newHealth(s.backoff),
		stranded: map[string]int{}, told: map[complaint]bool{},
	}
}

// work sends batches until ctx ends.
func (d *dispatcher) work(ctx context.Context) {
	for ctx.Err() == nil {
		woken := d.feed.bell.listen()
		if wait := d.step(ctx); wait > 0 {
			until(ctx, woken, wait)
		}
	}
}

// step sends one batch, or returns how long to wait because nothing is due.
func (d *dispatcher) step(ctx context.Context) time.Duration {
	n, wait := d.allow()
	if n == 0 {
		return wait
	}
	ids, wait, empty, err := d.feed.take(ctx, n)
	if empty {
		d.metrics.dequeues.WithLabelValues("empty").Inc()
	}
	if empty || err != nil {
		d.outage.Report(ctx, d.log, err, "automatic retry waits for the store", "automatic retry continues")
	}
	if len(ids) == 0 {
		d.refund(n)
		return wait
	}
	sent, err := d.carry(ctx, ids)
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
	n, wait := d.limiter.allow(d.cfg.Auto.Batch, d.now())
	d.metrics.rate.Set(d.limiter.rate)
	return n, wait
}

func (d *dispatcher) refund(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.limiter.refund(n)
}

// carry makes one attempt on each message that can be sent now, and returns the number of attempts.
func (d *dispatcher) carry(ctx context.Context, ids []uuid.UUID) (claimed int, err error) {
	ctx, span := d.traceAuto(ctx, len(ids))
	defer func() { endAuto(span, claimed, err) }()
	var unseen []uuid.UUID
	defer func() { d.feed.putBack(ids, unseen) }()
	messages, taken, room, err := d.load(ctx, ids, plain)
	if err != nil {
		return 0, err
	}
	defer room.release()
	unseen = ids[taken:]
	batch := outgoing(messages)
	targets, err := d.target(ctx, batch, planning{bulk: true, auto: true})
	if err != nil {
		return 0, err
	}
	planned := d.admit(ctx, batch, targets)
	if len(planned) == 0 {
		return 0, nil
	}
	attempts, deliveries, err := d.try(ctx, planned)
	d.unprobe(planned)
	if err != nil || len(deliveries) == 0 {
		return 0, err
	}
	_, err = d.finish(attempts, deliveries)
	return len(deliveries), err
}

// try claims and sends the planned messages.
func (d *dispatcher) try(ctx context.Context, planned []entity.Outgoing) (attempts, []entity.Delivery, error) {
	select {
	case <-ctx.Done():
		return attempts{}, nil, nil
	default:
	}
	a, err := d.claim(ctx, planned, claiming{cause: entity.By(entity.ActorAuto)})
	if err != nil || len(a.outgoing) == 0 {
		return attempts{}, nil, err
	}
	deliveries := d.send(ctx, a)
	d.learn(ctx, a.outgoing, deliveries)
	return a, deliveries, nil
}

// send publishes the claimed messages once the broker's throttle is over, or gives them back when that takes too long.
func (d *dispatcher) send(ctx context.Context, a attempts) []entity.Delivery {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	deadline := a.claimed.Add(d.cfg.sendWindow())
	for rest := d.brokersRest(); rest > 0; rest = d.brokersRest() {
		if d.now().Add(rest).After(deadline) || !wait.Sleep(ctx, rest) {
			stop()
			break
		}
	}
	return d.publish(ctx, a)
}

func (d *dispatcher) brokersRest() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limiter.rest(d.now())
}

// admit returns the messages that may be sent now; the others are held back or their topics set aside.
func (d *dispatcher) admit(ctx context.Context, batch []entity.Outgoing, targets []entity.Target) []entity.Outgoing {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.noteReach(targets, now)
	planned := batch[:0]
	for i, t := range targets {
		m := batch[i].Message
		var refused *entity.RefusedError
		switch {
		case m.CanClaim() != nil: // another process was faster
		case errors.As(t.Err, &refused):
			d.refuse(ctx, m, string(refused.Class), refused)
		case t.Err != nil:
			d.skip(ctx, placeOf(t), string(entity.BrokerUnavailable), t.Err)
			d.wait(m, placeOf(t), d.health.missing(placeOf(t), now))
		case t.Partition < 0:
			d.setAside(ctx, m.OriginalTopic, skippedNoKafka, nil)
		default:
			if ok, until := d.health.admit(placeOf(t), m.RetryCount+1 >= m.MaxRetries, now); !ok {
				d.wait(m, placeOf(t), until)
				continue
			}
			out := batch[i]
			out.Target = t
			planned = append(planned, out)
		}
	}
	return planned
}

// wait holds a message back, or sets its whole topic aside when too many messages are held back.
func (d *dispatcher) wait(m entity.Message, at place, until time.Time) {
	if !d.feed.hold(m.ID, at, until) {
		d.feed.setAside(m.OriginalTopic, until)
	}
}

// refuse skips refused messages for a while: the message alone when the reason lies in it, else its topic.
func (d *dispatcher) refuse(ctx context.Context, m entity.Message, reason string, err error) {
	until := d.now().Add(refusedRest)
	switch {
	case reason == string(entity.Undeclared) && m.Origin.Confidence != entity.FromOperator &&
		d.feed.leaveOut(repository.TopicPair{Original: m.OriginalTopic, DLQ: m.Source.Topic}, until):
		d.skip(ctx, place{m.OriginalTopic, alone}, reason, err)
	case entity.ErrorClass(reason).OfMessage(), m.Origin.Confidence == entity.FromName:
		d.skip(ctx, place{m.OriginalTopic, alone}, reason, err)
		d.wait(m, place{}, until)
	default:
		d.setAside(ctx, m.OriginalTopic, reason, err)
	}
}

func (d *dispatcher) setAside(ctx context.Context, topic, reason string, err error) {
	d.skip(ctx, place{topic, -1}, reason, err)
	d.feed.setAside(topic, d.now().Add(refusedRest))
}

// skip counts a message that cannot be sent now, and logs each reason once.
func (d *dispatcher) skip(ctx context.Context, at place, reason string, err error) {
	d.metrics.passedOver.WithLabelValues(reason).Inc()
	c := complaint{at, reason}
	if d.told[c] {
		return
	}
	d.told[c] = true
	fields := []zap.Field{zap.String("topic", at.topic), zap.String("reason", reason), zap.Error(err), traces.InLog(ctx)}
	if at.partition >= 0 {
		fields = append(fields, zap.Int32("partition", at.partition))
	}
	d.log.Warn("automatic retry cannot send", fields...)
}

// settled ends the complaints about a partition that accepted a record.
func (d *dispatcher) settled(at place) {
	for c := range d.told {
		if c.at == at || c.at == (place{at.topic, -1}) {
			delete(d.told, c)
		}
	}
}

// noteReach records which topics are reachable, and sets aside a topic that was unreachable for several batches.
func (d *dispatcher) noteReach(targets []entity.Target, now time.Time) {
	reached, lost := map[string]bool{}, map[string]bool{}
	for _, t := range targets {
		var refused *entity.RefusedError
		switch {
		case t.Err == nil:
			reached[t.Topic] = true
			d.recovered(place{t.Topic, -1})
		case !errors.As(t.Err, &refused):
			lost[t.Topic] = lost[t.Topic] || t.Partition < 0
		}
	}
	for topic := range reached {
		delete(lost, topic)
		delete(d.stranded, topic)
	}
	for topic, wholly := range lost {
		d.stranded[topic]++
		if n := d.stranded[topic]; wholly || n >= strandedBatches {
			rest := wait.Backoff{Base: strandedRest, Max: strandedRestMax}
			d.feed.setAside(topic, now.Add(rest.After(n, 0)))
		}
	}
}

// recovered releases the messages that were held back because of a place.
func (d *dispatcher) recovered(at place) {
	if d.health.well(at) {
		d.feed.free(at)
	}
}

// unprobe ends probes without a result.
func (d *dispatcher) unprobe(planned []entity.Outgoing) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, out := range planned {
		d.health.unprobed(placeOf(out.Target), d.now())
	}
}

// learn adapts rate, health and complaints to the results of a batch.
func (d *dispatcher) learn(ctx context.Context, batch []entity.Outgoing, deliveries []entity.Delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	var n news
	taken, failed := map[place]bool{}, map[place]bool{}
	for i, delivery := range deliveries {
		at := placeOf(batch[i].Target)
		n.throttle = max(n.throttle, delivery.Throttle)
		bad := delivery.Throttle > 0
		switch delivery.Verdict {
		case entity.Failed, entity.InDoubt:
			failed[at], bad = true, true
		case entity.GivenBack:
			if delivery.Class == "" { // it was not sent, because the deadline came first
				continue
			}
			bad = true // a record before it failed
		case entity.Refused:
			taken[at] = true
			d.setAside(ctx, batch[i].Target.Topic, string(delivery.Class), delivery.Err)
		case entity.Acknowledged, entity.Skipped, entity.Rejected, entity.Rescued, entity.Abandoned:
			taken[at] = true
			d.settled(at)
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
