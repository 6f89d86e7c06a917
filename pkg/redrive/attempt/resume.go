package attempt

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// resumePause is the time between two polls of a claim that an earlier request made.
const resumePause = 200 * time.Millisecond

// resume handles a repeated request, for which an earlier process may have begun the attempt. If it finds this attempt,
// found is true, and result and err tell how the attempt ended. It waits until the attempt ends or its claim expires.
func (r *Retrier) resume(ctx context.Context, order entity.RetryOrder) (result entity.RetryResult, found bool, err error) {
	for {
		// The claim is read before the history: an attempt that ends between the two reads is then found in the
		// history.
		held, err := r.holds(ctx, order.ID, order.Cause.Operation)
		if err != nil {
			return entity.RetryResult{}, false, err
		}
		attempts, err := r.store.History(ctx, order.ID)
		if err != nil {
			return entity.RetryResult{}, false, fmt.Errorf("read history: %w", err)
		}
		for _, a := range attempts {
			if a.ID == order.Cause.Operation {
				result, err := r.answerOf(ctx, a)
				return result, true, err
			}
		}
		if !held {
			return entity.RetryResult{}, false, nil
		}
		if !wait.Sleep(ctx, resumePause) {
			return entity.RetryResult{}, false, &unavailableError{fmt.Errorf("wait for the attempt that has begun: %w", ctx.Err())}
		}
	}
}

// holds reports whether the attempt still holds the message. It settles the attempt once its claim has expired. For an
// attempt that cannot be settled it returns an error, so that the caller does not wait for it.
func (r *Retrier) holds(ctx context.Context, id, attempt uuid.UUID) (bool, error) {
	m, err := r.store.Get(ctx, id, 0)
	switch {
	// the message was archived or deleted: resume then looks for the attempt in the history
	case errors.Is(err, entity.ErrNotFound):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read message: %w", err)
	case !m.Claimed() || m.Claim.ID != attempt:
		return false, nil
	case m.Unsettled:
		return false, &entity.ClaimedError{ID: id, Unsettled: true}
	}
	if _, err := r.settler.settleMessage(ctx, m); err != nil {
		return false, err
	}
	return true, nil
}

// answerOf returns what Retry answers for an attempt that the history contains.
func (r *Retrier) answerOf(ctx context.Context, a entity.Attempt) (entity.RetryResult, error) {
	if a.To == entity.Resolved {
		return entity.RetryResult{
			ID: a.MessageID, Status: entity.Resolved, Published: a.Verdict != entity.Skipped,
			Topic: a.Topic, Partition: a.Partition, Offset: a.Offset, Attempt: a.ID,
		}, nil
	}
	if a.Verdict == entity.GivenBack || a.Verdict == entity.Rescued {
		return entity.RetryResult{}, &unavailableError{errGivenBack}
	}
	failed := &entity.PublishError{ID: a.MessageID, Class: a.Class, Status: a.To, Reason: a.Error}
	if a.To == entity.Pending {
		if m, err := r.store.Get(ctx, a.MessageID, 0); err == nil && m.Status == entity.Pending {
			failed.RetryAt = m.NextAttemptAt
		}
	}
	return entity.RetryResult{}, failed
}
