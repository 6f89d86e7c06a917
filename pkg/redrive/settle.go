package redrive

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

const (
	// settleLimit is how many claims are settled together: each partition is then read once for all of them.
	settleLimit    = 10_000
	settleParallel = 8 // how many partitions are looked into at once

	// settleGrace is how long the end of RunSettler waits for a turn under way. A
	// store that went silent must not hold up a drain; the claims stay as they
	// are, for another process.
	settleGrace  = 5 * time.Second
	settleJitter = 0.2 // keeps replicas that started together from settling together
)

// RunSettler settles abandoned claims until ctx ends. A claim that cannot be settled is tried again next turn.
func (s *Service) RunSettler(ctx context.Context) {
	turns := wait.Backoff{Base: s.cfg.SettleInterval, Max: s.cfg.SettleInterval, Jitter: settleJitter}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for wait.Sleep(ctx, turns.After(1, s.random())) {
			if err := s.Settle(ctx); err != nil && ctx.Err() == nil {
				s.log.Warn("claims were not settled", zap.Error(err))
			}
			s.alarm(ctx)
		}
	}()
	<-ctx.Done()
	select {
	case <-done:
	case <-time.After(settleGrace):
	}
}

// Settle reads all expired claims once and ends their attempts by the target partitions: RESOLVED when the record
// is there, PENDING when it is not. Where no reading can decide, the message stays RETRYING with class UNKNOWN and
// waits for an operator. Claims that cannot be read now do not hold up the others; the error is of one of them.
func (s *Service) Settle(ctx context.Context) error {
	var after repository.Cursor
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
		after = repository.Cursor{CreatedAt: last.CreatedAt, ID: last.ID}
	}
	if len(settled) > 0 {
		s.log.Info("abandoned attempts were settled", append(summary(settled), traces.InLog(ctx))...)
	}
	return cause
}

// settle returns how attempts ended, without those that could not be read now; the error is of one of them.
// Partitions are read in parallel: one that does not answer holds up its own claims only.
func (s *Service) settle(ctx context.Context, messages []entity.Message) ([]ending, error) {
	ctx, span := s.traceSettling(ctx, len(messages))
	var mu sync.Mutex
	var settled []ending
	var cause error
	var all sync.WaitGroup
	slots := make(chan struct{}, settleParallel)
	for _, group := range byPartition(messages) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			endings, err := s.settlePartition(ctx, group)
			mu.Lock()
			defer mu.Unlock()
			settled = append(settled, endings...)
			if err != nil {
				cause = err
			}
		})
	}
	all.Wait()
	span.end(len(settled), cause)
	return settled, cause
}

func byPartition(messages []entity.Message) map[place][]entity.Message {
	groups := map[place][]entity.Message{}
	for _, m := range messages {
		at := place{m.Claim.Topic, m.Claim.Partition}
		groups[at] = append(groups[at], m)
	}
	return groups
}

func (s *Service) settlePartition(ctx context.Context, messages []entity.Message) ([]ending, error) {
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

// verdictOn turns what the log holds into the end of an attempt. An attempt whose process gave up on the broker
// has failed when its record is not there; one whose process was never heard of again is rescued.
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

// conclude stores the end of settled attempts, once: whatever goes wrong is found again at the next turn.
func (s *Service) conclude(ctx context.Context, a attempts, deliveries []entity.Delivery) ([]ending, error) {
	if len(deliveries) == 0 {
		return nil, nil
	}
	finished, err := s.store.Finish(ctx, s.results(a, deliveries), entity.By(entity.ActorSettler))
	if err != nil {
		return nil, fmt.Errorf("store settled attempts: %w", err)
	}
	var counted []ending
	for _, e := range join(a, deliveries, finished) {
		if e.finished.Status == "" {
			continue // another process settled it at the same time
		}
		counted = append(counted, e)
		s.noteSettled(e, traces.InLog(ctx))
	}
	return counted, nil
}

func (s *Service) noteSettled(e ending, within zap.Field) {
	topic := e.outgoing.Target.Topic
	s.metrics.sends.WithLabelValues(s.metrics.label(topic), "settled_"+outcome(e.delivery.Verdict)).Inc()
	switch {
	case e.finished.Status == entity.Dead:
		s.buried(e.finished, topic, e.delivery.Class, within)
	case e.delivery.Verdict == entity.InDoubt:
		s.log.Warn("attempt cannot be settled; an operator must decide",
			zap.Stringer("message_id", e.outgoing.Message.ID),
			zap.String("topic", topic),
			zap.Int32("partition", e.outgoing.Target.Partition),
			zap.Int64("from_offset", e.outgoing.Target.EndOffset),
			zap.Error(e.delivery.Err), within)
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

// release settles the attempt that holds m, if its claim is over, and returns where that leads. The status is
// still RETRYING when the claim lives, and when the attempt cannot be settled.
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

// expired returns the message when its claim is over by the store's clock, else nil; ours may be wrong.
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

// alarm logs messages that have been RETRYING for too long: they cannot be settled, or an operator must decide.
func (s *Service) alarm(ctx context.Context) {
	n, err := s.store.Stuck(ctx, s.cfg.StuckAfter)
	if err != nil {
		return // the settling itself has said that the store is away
	}
	s.metrics.stuck.Set(float64(n))
	if n > 0 && s.now().Sub(s.alarmed) >= s.cfg.StuckAfter {
		s.alarmed = s.now()
		s.log.Error("messages are held by attempts for too long", zap.Int64("messages", n), zap.Duration("longer_than", s.cfg.StuckAfter))
	}
}
