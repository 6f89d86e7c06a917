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

// serve sends the due notifications of a sink, one after the other, until ctx ends.
func (n *Notifier) serve(ctx context.Context, s *sink) {
	for ctx.Err() == nil {
		worked, err := n.deliver(ctx, s)
		if err != nil {
			n.log.Debug("cannot read the notifications of a sink", zap.String("sink", s.name), zap.Error(err))
		}
		rest := n.cfg.Interval
		if worked {
			rest = s.pace
		}
		wait.Sleep(ctx, rest)
	}
}

// deliver sends one notification of a sink, if one is due. If the store is unavailable afterwards, the result is not
// stored, and the notification is sent again when its claim has expired.
func (n *Notifier) deliver(ctx context.Context, s *sink) (worked bool, err error) {
	claim := repository.NotificationClaim{Sink: s.name, ID: uuid.New(), Lease: n.cfg.Timeout + 2*callTimeout, Pace: s.pace}
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	notification, found, err := n.store.ClaimNotification(asking, claim)
	if err != nil || !found {
		return false, err
	}
	result := repository.NotificationResult{Notification: notification.ID, Claim: claim.ID}
	sending, stop := context.WithTimeout(ctx, n.cfg.Timeout)
	sent := s.sender.send(sending, notification)
	stop()
	switch {
	case sent == nil:
		result.Sent = true
		s.failures = 0
		n.metrics.tries.WithLabelValues(s.name, "sent").Inc()
	case ctx.Err() != nil: // this process stops, so the failure says nothing about the receiver
		result.Error = notification.LastError
	default:
		n.fail(s, notification, sent, &result)
	}
	// The result is stored even while the process ends, so that the notification is not sent again.
	settling, done := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer done()
	return true, n.store.SettleNotification(settling, result)
}

// fail sets when a notification is tried again after a failure, and for how long its sink sends nothing. The sink goes
// on sending when the receiver has refused only this notification, without the header Retry-After.
func (n *Notifier) fail(s *sink, notification repository.Notification, err error, result *repository.NotificationResult) {
	n.metrics.tries.WithLabelValues(s.name, "failed").Inc()
	result.Error = err.Error()
	result.RetryIn = n.backoff(notification.Attempts)
	var refused *refusedError
	if !errors.As(err, &refused) || refused.busy() {
		s.failures++
		result.Pause = n.backoff(max(s.failures, notification.Attempts))
	}
	if refused != nil && refused.retryAfter > 0 {
		wait := min(refused.retryAfter, maxRetryAfter)
		result.RetryIn, result.Pause = max(result.RetryIn, wait), max(result.Pause, wait)
	}
	n.log.Warn("a notification was not taken", zap.String("sink", s.name), zap.String("kind", string(notification.Kind)),
		zap.Stringer("id", notification.ID), zap.Int("attempt", notification.Attempts), zap.Duration("retry_in", result.RetryIn), zap.Error(err))
}

func (n *Notifier) backoff(attempt int) time.Duration {
	return wait.Backoff{Base: n.cfg.Backoff, Max: n.cfg.BackoffMax, Jitter: 0.1}.After(attempt, n.random())
}
