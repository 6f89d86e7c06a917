package redrive

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
	// claimTimeout limits the claim, which continues when its caller is gone: otherwise the claim could be left
	// without an owner.
	claimTimeout  = 10 * time.Second
	finishTimeout = 5 * time.Second // limits one try to store results

	finishPause    = 100 * time.Millisecond
	finishPauseMax = 2 * time.Second
)

// attempts are messages that were claimed together and are sent together.
type attempts struct {
	cause    entity.Cause
	claimed  time.Time // time just before the claim was requested, so no claim is older
	outgoing []entity.Outgoing
	span     trace.Span // the span that they belong to; nil for none
}

// ending is the outcome of one attempt.
type ending struct {
	outgoing entity.Outgoing
	delivery entity.Delivery
	// finished is the store's answer. An empty Status means that the claim was settled before, so the result was ignored.
	finished repository.Finished
	auto     bool // an automatic retry
}

// unsettled reports whether reading the topic cannot decide how the attempt ended.
func (e ending) unsettled() bool {
	return e.finished.Status == entity.Retrying && e.delivery.Verdict == entity.InDoubt && e.delivery.Class == entity.UnknownClass
}

// claiming holds the options of a claim.
type claiming struct {
	cause    entity.Cause
	redrive  uuid.UUID // uuid.Nil for none
	single   bool      // an operator waits for this message: audit the claim, and wait for a locked row
	takeOver bool      // claim also from an attempt that cannot be settled
}

// claim claims the planned messages and returns those that it got, in their order.
func (s *Service) claim(ctx context.Context, planned []entity.Outgoing, how claiming) (attempts, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTimeout)
	defer cancel()
	taken := attempts{cause: how.cause, claimed: s.now(), span: trace.SpanFromContext(ctx)}
	claims := intents(planned, how)
	states, err := s.store.Claim(ctx, claims, repository.Claiming{
		Expiry: s.cfg.ClaimExpiry, Wait: how.single, Cause: how.cause, Audit: how.single, Brief: true,
	})
	if err != nil {
		s.letGo(taken, claims)
		return attempts{}, fmt.Errorf("claim messages: %w", err)
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
		taken.outgoing = append(taken.outgoing, out)
	}
	s.metrics.inflight.Add(float64(len(taken.outgoing)))
	s.metrics.dequeued(len(taken.outgoing), len(planned)-len(taken.outgoing))
	return taken, nil
}

// claimed returns a loaded message with the changes of its claim; by is the store's brief copy, without the record.
func claimed(m, by entity.Message) entity.Message {
	m.Status, m.RetryCount, m.MaxRetries = by.Status, by.RetryCount, by.MaxRetries
	m.UpdatedAt, m.LastRetryAt, m.Claim = by.UpdatedAt, by.LastRetryAt, by.Claim
	m.Unsettled, m.NextAttemptAt, m.LastPublishError, m.LastPublishErrorClass = false, time.Time{}, "", ""
	return m
}

// letGo gives back claims that the store may have made although its answer was lost; nothing will be sent under them.
// It tries once; claims that it cannot give back expire.
func (s *Service) letGo(a attempts, claims []repository.Claim) {
	results := make([]repository.Result, len(claims))
	for i, c := range claims {
		results[i] = repository.Result{
			MessageID: c.MessageID, ClaimID: c.ID, Verdict: entity.GivenBack, Partition: c.Partition, Offset: -1,
		}
	}
	if _, err := s.storeOnce(a.within(context.Background()), a, results); err != nil {
		s.log.Debug("cannot give back claims that the store may have made", zap.Error(err), traces.LogOf(a.span))
	}
}

func intents(planned []entity.Outgoing, how claiming) []repository.Claim {
	claims := make([]repository.Claim, len(planned))
	for i, out := range planned {
		claims[i] = repository.Claim{
			MessageID: out.Message.ID, ID: entity.NewID(), RedriveID: how.redrive, Topic: out.Target.Topic,
			TopicID: out.Target.TopicID, Partition: out.Target.Partition, EndOffset: out.Target.EndOffset,
			TakeOver: how.takeOver, Edit: kept(out.Edit), SentHash: out.Target.SentHash,
		}
		if out.Edit == nil || out.Edit.Topic == "" { // an edit without a topic does not change the destination
			claims[i].OriginalTopic = out.Message.OriginalTopic
		}
	}
	if how.single && how.cause.Operation != uuid.Nil {
		claims[0].ID = how.cause.Operation
	}
	return claims
}

// kept returns the part of an edit that is stored: of a patch only the patch, not its result, which can be computed
// again.
func kept(e *entity.Edit) *entity.Edit {
	if e == nil || e.Patch == nil {
		return e
	}
	return &entity.Edit{SetValue: true, Patch: e.Patch}
}

// publish sends the claimed messages. Those that cannot be sent before half of the claim's expiry has passed are not
// sent.
func (s *Service) publish(ctx context.Context, a attempts) []entity.Delivery {
	ctx, cancel := context.WithDeadline(ctx, a.claimed.Add(s.cfg.sendWindow()))
	defer cancel()
	return s.publisher.Publish(ctx, a.outgoing)
}

// finish stores how the attempts ended. It continues when its caller is gone, and tries again while the store is
// unavailable, until others may settle the claims. An error means that the store has not confirmed the results.
func (s *Service) finish(a attempts, deliveries []entity.Delivery) ([]ending, error) {
	defer s.metrics.inflight.Sub(float64(len(a.outgoing)))
	finished, err := s.storeResults(a, s.results(a, deliveries))
	endings := join(a, deliveries, finished)
	for _, e := range endings {
		s.record(e, s.now().Sub(a.claimed), traces.LogOf(a.span))
	}
	return endings, err
}

func (s *Service) storeResults(a attempts, results []repository.Result) ([]repository.Finished, error) {
	deadline := a.claimed.Add(s.cfg.finishWindow())
	ctx, try := a.within(context.Background()), 0
	defer func() { traces.Told(ctx, try) }()
	for delay := finishPause; ; delay = min(2*delay, finishPauseMax) {
		finished, err := s.storeOnce(traces.Try(ctx, try), a, results)
		try++
		if err == nil {
			return finished, nil
		}
		later := errors.Is(err, entity.ErrUnavailable) || errors.Is(err, entity.ErrContended)
		if !later || s.now().Add(delay).After(deadline) {
			return nil, fmt.Errorf("store results: %w", err)
		}
		wait.Sleep(context.Background(), delay)
	}
}

func (s *Service) storeOnce(ctx context.Context, a attempts, results []repository.Result) ([]repository.Finished, error) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	return s.store.Finish(ctx, results, a.cause)
}

func (s *Service) results(a attempts, deliveries []entity.Delivery) []repository.Result {
	results := make([]repository.Result, len(deliveries))
	for i, d := range deliveries {
		results[i] = s.result(a.outgoing[i].Message, d)
	}
	return results
}

// result converts a delivery to a result for the store.
func (s *Service) result(m entity.Message, d entity.Delivery) repository.Result {
	r := repository.Result{
		MessageID: m.ID, ClaimID: m.Claim.ID, Verdict: d.Verdict, Class: d.Class, Partition: d.Partition,
		Offset: d.Offset,
	}
	if d.Err != nil {
		r.Error = storable(d.Err.Error())
	}
	switch d.Verdict {
	case entity.Failed:
		r.RetryIn = s.backoff.After(m.RetryCount, s.random())
	case entity.Refused: // give an operator time to repair the topic
		r.RetryIn = s.backoff.Max
	case entity.Acknowledged, entity.Skipped, entity.Rejected, entity.GivenBack, entity.InDoubt,
		entity.Rescued, entity.Abandoned:
	}
	return r
}

// maxErrorText is how much of an error's text is stored, in bytes.
const maxErrorText = 1000

// storable makes an error's text valid in every store: a rejected text would lose a whole batch of results.
func storable(text string) string {
	text = strings.ReplaceAll(text[:min(len(text), maxErrorText)], "\x00", "")
	return strings.ToValidUTF8(text, "\uFFFD")
}

func join(a attempts, deliveries []entity.Delivery, finished []repository.Finished) []ending {
	byID := make(map[uuid.UUID]repository.Finished, len(finished))
	for _, f := range finished {
		byID[f.MessageID] = f
	}
	endings := make([]ending, len(deliveries))
	for i, d := range deliveries {
		out := a.outgoing[i]
		endings[i] = ending{
			outgoing: out, delivery: d, finished: byID[out.Message.ID], auto: a.cause.Actor == entity.ActorAuto,
		}
	}
	return endings
}

// record updates the metrics for an ending, and logs a message that it made DEAD.
func (s *Service) record(e ending, took time.Duration, within zap.Field) {
	topic := e.outgoing.Target.Topic
	s.metrics.sends.WithLabelValues(s.metrics.label(topic), outcome(e.delivery.Verdict)).Inc()
	s.metrics.duration.Observe(took.Seconds())
	s.metrics.ended(e, s.now())
	if e.finished.Status == entity.Dead {
		s.buried(e.finished, topic, e.delivery.Class, within)
	}
}

// buried logs a message that became DEAD, so that no automatic retry follows, with the span in which that happened.
func (s *Service) buried(f repository.Finished, topic string, class entity.ErrorClass, within zap.Field) {
	s.metrics.dead.Inc()
	s.log.Warn("message is dead",
		zap.Stringer("message_id", f.MessageID),
		zap.String("topic", topic),
		zap.Int("retry_count", f.RetryCount),
		zap.String("class", string(class)), within)
}
