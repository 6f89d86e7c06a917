package redrive

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const (
	// settler is who ends an attempt that its own process did not end.
	settler = "settler"

	// settleLimit is how many claims are settled together: each partition is
	// then read once for all of them.
	settleLimit = 1000

	// settleGrace is how long the end of RunSettler waits for a turn under way. A
	// store that went silent must not hold up a drain; the claims stay as they
	// are, for another process.
	settleGrace = 5 * time.Second

	// settleJitter keeps replicas that started together from settling together.
	settleJitter = 0.2
)

// RunSettler settles abandoned claims until ctx ends, and returns then. What
// cannot be settled now is tried again at the next turn.
func (s *Service) RunSettler(ctx context.Context) {
	turns := Backoff{Base: s.cfg.SettleInterval, Max: s.cfg.SettleInterval, Jitter: settleJitter}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for pause(ctx, turns.After(1, s.random())) {
			if err := s.Settle(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("claims were not settled", zap.Error(err))
			}
		}
	}()
	<-ctx.Done()
	select {
	case <-done:
	case <-time.After(settleGrace):
	}
}

// Settle looks once at all claims that have expired and ends those attempts by
// what the target partitions hold: RESOLVED when the record is there, PENDING
// when it is not. Where no reading can tell, the message stays RETRYING with
// class UNKNOWN and waits for an operator. Claims that cannot be looked at now
// do not keep it from those behind them; the error is then of one of them.
func (s *Service) Settle(ctx context.Context) error {
	var after repository.Place
	var settled []ending
	var cause error
	for ctx.Err() == nil {
		page, err := s.store.Expired(ctx, repository.ExpiredQuery{After: after, Limit: settleLimit})
		if err != nil {
			cause = fmt.Errorf("list expired claims: %w", err)
			break
		}
		endings, err := s.settle(ctx, page)
		settled = append(settled, endings...)
		if err != nil {
			cause = err
		}
		if len(page) < settleLimit {
			break
		}
		last := page[len(page)-1]
		after = repository.Place{CreatedAt: last.CreatedAt, ID: last.ID}
	}
	if len(settled) > 0 {
		s.log.Info("abandoned attempts were settled", summary(settled)...)
	}
	return cause
}

// settle returns how the attempts of messages ended, without those that could
// not be looked at now; the error then says why for one of them.
func (s *Service) settle(ctx context.Context, messages []entity.Message) ([]ending, error) {
	if len(messages) == 0 {
		return nil, nil
	}
	claims := make([]entity.Claim, len(messages))
	for i, m := range messages {
		claims[i] = m.Claim
	}
	var cause error
	var settled attempts
	var deliveries []entity.Delivery
	for i, d := range s.publisher.FindMany(ctx, claims) {
		if d.Verdict == entity.InDoubt && d.Class != entity.UnknownClass {
			cause = d.Err
			continue
		}
		settled.outgoing = append(settled.outgoing, earlier(messages[i]))
		deliveries = append(deliveries, verdictOn(messages[i], d))
	}
	endings, err := s.conclude(ctx, settled, deliveries)
	if err == nil {
		err = cause
	}
	return endings, err
}

// earlier is an attempt as its claim remembers it.
func earlier(m entity.Message) entity.Outgoing {
	c := m.Claim
	return entity.Outgoing{
		Message: m,
		Target:  entity.Target{Topic: c.Topic, Partition: c.Partition, EndOffset: c.EndOffset},
	}
}

// verdictOn turns what the log holds into the end of an attempt. An attempt
// whose process gave up on the broker has failed when its record is not there;
// one whose process died was never heard of again, and is given back.
func verdictOn(m entity.Message, d entity.Delivery) entity.Delivery {
	if d.Verdict != entity.GivenBack || m.LastPublishErrorClass == "" {
		return d
	}
	d.Verdict = entity.Failed
	d.Class = m.LastPublishErrorClass
	d.Err = fmt.Errorf("%s; settled as not published", m.LastPublishError)
	return d
}

// conclude stores the end of settled attempts, once: whatever goes wrong is
// found again at the next turn.
func (s *Service) conclude(ctx context.Context, a attempts, deliveries []entity.Delivery) ([]ending, error) {
	if len(deliveries) == 0 {
		return nil, nil
	}
	finished, err := s.store.Finish(ctx, s.results(attempts{actor: settler, outgoing: a.outgoing}, deliveries))
	if err != nil {
		return nil, fmt.Errorf("store settled attempts: %w", err)
	}
	var counted []ending
	for _, e := range join(a, deliveries, finished) {
		if e.finished.Status == "" {
			continue // another process settled it at the same time
		}
		counted = append(counted, e)
		s.noteSettled(e)
	}
	return counted, nil
}

func (s *Service) noteSettled(e ending) {
	topic := e.outgoing.Target.Topic
	s.metrics.sends.WithLabelValues(topic, "settled_"+outcome(e.delivery.Verdict)).Inc()
	switch {
	case e.finished.Status == entity.Dead:
		s.buried(e.finished, topic, e.delivery.Class)
	case e.delivery.Verdict == entity.InDoubt:
		s.log.Warn("attempt cannot be settled; an operator must decide",
			zap.Stringer("message_id", e.outgoing.Message.ID),
			zap.String("topic", topic),
			zap.Int32("partition", e.outgoing.Target.Partition),
			zap.Int64("from_offset", e.outgoing.Target.EndOffset),
			zap.Error(e.delivery.Err))
	}
}

func summary(endings []ending) []zap.Field {
	counts := map[entity.Verdict]int{}
	for _, e := range endings {
		counts[e.delivery.Verdict]++
	}
	fields := make([]zap.Field, 0, len(counts))
	for verdict, n := range counts {
		fields = append(fields, zap.Int(outcome(verdict), n))
	}
	return fields
}

// release settles the attempt that holds m, if its claim is over, and returns
// where that leads. The status is still RETRYING when the claim lives, and when
// the attempt cannot be settled.
func (s *Service) release(ctx context.Context, m entity.Message) (ending, error) {
	held := ending{outgoing: earlier(m), finished: state(m)}
	expired, err := s.expired(ctx, m.ID)
	if err != nil || expired == nil {
		return held, err
	}
	endings, err := s.settle(ctx, []entity.Message{*expired})
	switch {
	case err != nil:
		return ending{}, &unavailableError{fmt.Errorf("settle the earlier attempt: %w", err)}
	case len(endings) == 0: // somebody else settled it at this moment
		return held, nil
	}
	return endings[0], nil
}

// expired returns the message when the store's clock says that its claim is
// over, else nil. Our own clock may be wrong and must not end a live claim.
func (s *Service) expired(ctx context.Context, id uuid.UUID) (*entity.Message, error) {
	messages, err := s.store.Expired(ctx, repository.ExpiredQuery{ID: id, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("look at the claim: %w", err)
	}
	if len(messages) == 0 {
		return nil, nil
	}
	return &messages[0], nil
}
