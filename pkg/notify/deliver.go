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

// maxRetryAfter is how long a receiver may ask for.
const maxRetryAfter = time.Hour

// serve sends what is due to a sink, one after the other, until ctx ends.
func (n *Notifier) serve(ctx context.Context, s *sink) {
	for ctx.Err() == nil {
		worked, err := n.deliver(ctx, s)
		if err != nil {
			n.log.Debug("notices of a sink cannot be read", zap.String("sink", s.name), zap.Error(err))
		}
		rest := n.cfg.Interval
		if worked {
			rest = s.pace
		}
		wait.Sleep(ctx, rest)
	}
}

// deliver sends one notice, if one is due. One whose result is not stored is sent again when the claim has expired.
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
	case ctx.Err() != nil: // this process ends; nobody else failed
		result.Error = notice.LastError
	default:
		n.fail(s, notice, sent, &result)
	}
	// A notice that was sent must not be sent again because the process ends.
	settling, done := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer done()
	return true, n.store.SettleNotice(settling, result)
}

// fail decides when a notice is tried again, and for how long its sink rests: not when it refused only this notice.
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
