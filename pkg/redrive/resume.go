package redrive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// resumePause is how often a claim is looked at that an earlier request left.
const resumePause = 200 * time.Millisecond

// resume answers an order whose operation an earlier process may have begun: found says that it had, and then the
// result, or the error, is that attempt's. While the attempt's claim lives it is waited for.
func (s *Service) resume(ctx context.Context, order entity.RetryOrder) (result entity.RetryResult, found bool, err error) {
	for {
		// In this order: what ends between the two looks is in the history.
		held, err := s.holds(ctx, order.ID, order.Cause.Operation)
		if err != nil {
			return entity.RetryResult{}, false, err
		}
		attempts, err := s.store.History(ctx, order.ID)
		if err != nil {
			return entity.RetryResult{}, false, fmt.Errorf("read history: %w", err)
		}
		for _, a := range attempts {
			if a.ID == order.Cause.Operation {
				result, err := s.answerOf(ctx, a)
				return result, true, err
			}
		}
		if !held {
			return entity.RetryResult{}, false, nil
		}
		if !wait.Sleep(ctx, resumePause) {
			return entity.RetryResult{}, false, &unavailableError{fmt.Errorf("wait for the attempt that was begun: %w", ctx.Err())}
		}
	}
}

// holds reports whether the message is still held by the attempt, and settles it once its claim is over. An
// attempt that cannot be settled holds nothing that a further look would change.
func (s *Service) holds(ctx context.Context, id, attempt uuid.UUID) (bool, error) {
	m, err := s.store.Get(ctx, id, 0)
	switch {
	case errors.Is(err, entity.ErrNotFound): // archived, or deleted: the history alone speaks
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read message: %w", err)
	case !m.Claimed() || m.Claim.ID != attempt:
		return false, nil
	case m.Unsettled:
		return false, &entity.ClaimedError{ID: id, Unsettled: true}
	}
	if _, err := s.release(ctx, m); err != nil {
		return false, err
	}
	return true, nil
}

// answerOf is the answer of Retry for an attempt in the history.
func (s *Service) answerOf(ctx context.Context, a entity.Attempt) (entity.RetryResult, error) {
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
		if m, err := s.store.Get(ctx, a.MessageID, 0); err == nil && m.Status == entity.Pending {
			failed.RetryAt = m.NextAttemptAt
		}
	}
	return entity.RetryResult{}, failed
}
