package notify

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// serve sends the due notices of a sink, one after the other, until ctx ends.
func (n *Notifier) serve(ctx context.Context, s *sink) {
	for ctx.Err() == nil {
		worked, err := n.deliver(ctx, s)
		if err != nil {
			n.log.Debug("cannot read the notices of a sink", zap.String("sink", s.name), zap.Error(err))
		}
		rest := n.cfg.Interval
		if worked {
			rest = s.pace
		}
		wait.Sleep(ctx, rest)
	}
}

// deliver sends one notice, if one is due. If its result cannot be stored, it is sent again when the claim has
// expired.
func (n *Notifier) deliver(ctx context.Context, s *sink) (worked bool, err error) {
	claim := repository.NoticeClaim{Sink: s.name, ID: uuid.New(), Lease: n.cfg.Timeout + 2*callTimeout, Pace: s.pace}
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	notice, found, err := n.store.ClaimNotice(asking, claim)
	if err != nil || !found {
		return false, err
	}
	result := repository.NoticeResult{Notice: notice.ID, Claim: claim.ID}
	sending, stop := context.WithTimeout(ctx, n.cfg.Timeout)
	sent := s.sender.send(sending, notice)
	stop()
	switch {
	case sent == nil:
		result.Sent = true
		s.failures = 0
		n.metrics.tries.WithLabelValues(s.name, "sent").Inc()
	case ctx.Err() != nil: // this process ends; the receiver did not fail
		result.Error = notice.LastError
	default:
		n.fail(s, notice, sent, &result)
	}
	// The result is stored even while the process ends, so that the notice is not sent again.
	settling, done := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer done()
	return true, n.store.SettleNotice(settling, result)
}

// fail sets when a notice is tried again, and how long its sink pauses: not at all if it refused only this notice.
func (n *Notifier) fail(s *sink, notice repository.Notice, err error, result *repository.NoticeResult) {
	n.metrics.tries.WithLabelValues(s.name, "failed").Inc()
	result.Error = err.Error()
	result.RetryIn = n.backoff(notice.Attempts)
	var refused *refusedError
	if !errors.As(err, &refused) || refused.busy() {
		s.failures++
		result.Pause = n.backoff(max(s.failures, notice.Attempts))
	}
	if refused != nil && refused.retryAfter > 0 {
		wait := min(refused.retryAfter, maxRetryAfter)
		result.RetryIn, result.Pause = max(result.RetryIn, wait), max(result.Pause, wait)
	}
	n.log.Warn("a notification was not taken", zap.String("sink", s.name), zap.String("kind", string(notice.Kind)),
		zap.Stringer("id", notice.ID), zap.Int("attempt", notice.Attempts), zap.Duration("retry_in", result.RetryIn), zap.Error(err))
}

func (n *Notifier) backoff(attempt int) time.Duration {
	return wait.Backoff{Base: n.cfg.Backoff, Max: n.cfg.BackoffMax, Jitter: 0.1}.After(attempt, n.random())
}
