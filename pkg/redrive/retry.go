package redrive

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// errGivenBack means that the attempt ended before its record was sent.
var errGivenBack = errors.New("the attempt was given back before it was sent")

// errTooLate means that the process was suspended, or waited for too long, before it could claim. Meanwhile another
// process may have run the same operation, with the same attempt id.
var errTooLate = errors.New("the attempt did not begin in time")

// Retry makes one attempt on one message and waits for its end. A nil error means RESOLVED: by this attempt, or,
// for an order without an edit, by an earlier one that turns out to have arrived. An edit is never taken for done
// that was not sent. Otherwise it is
//   - *entity.NotFoundError,
//   - *entity.NotRetryableError or *entity.ClaimedError: the state forbids it,
//     or another attempt has it,
//   - *entity.RefusedError: it cannot go where it came from; nothing changed,
//   - *entity.PublishError: the attempt was made and did not succeed, or
//   - of kind entity.ErrUnavailable: the store, or before anything was sent the
//     broker, could not be reached.
//
// The claim of a dead process is settled first. Once the message is claimed, the end of ctx has no effect.
func (s *Service) Retry(ctx context.Context, order entity.RetryOrder) (entity.RetryResult, error) {
	if order.Resumed {
		if result, found, err := s.resume(ctx, order); found || err != nil {
			return result, err
		}
		order.Message = nil // it may be out of date after the wait
	}
	began := s.now()
	message, err := s.messageOf(ctx, order)
	if err != nil {
		return entity.RetryResult{}, err
	}
	if message.Claimed() && !message.Unsettled {
		settled, err := s.release(ctx, message)
		if err != nil {
			return entity.RetryResult{}, err
		}
		if settled.finished.Status == entity.Resolved && answers(message.Claim, order) {
			return s.answer(ctx, settled)
		}
		message.Status = settled.finished.Status
		message.RetryCount = settled.finished.RetryCount
		message.Unsettled = settled.unsettled()
	}
	takeOver := order.AcceptDuplicate && message.Unsettled
	switch err := message.CanClaim(); {
	case takeOver:
	case message.Unsettled:
		return entity.RetryResult{}, &entity.ClaimedError{ID: order.ID, Unsettled: true}
	case err != nil:
		return entity.RetryResult{}, err
	}
	order.Message = &message
	room, err := s.roomForRetry(ctx, message)
	if err != nil {
		return entity.RetryResult{}, err
	}
	defer room.release()
	planned, err := s.planOne(ctx, order)
	if err != nil {
		return entity.RetryResult{}, err
	}
	if order.Cause.Operation != uuid.Nil && s.now().Sub(began) > s.cfg.sendWindow() {
		return entity.RetryResult{}, &unavailableError{errTooLate}
	}
	taken, err := s.claim(ctx, []entity.Outgoing{planned}, claiming{cause: order.Cause, single: true, takeOver: takeOver})
	if err != nil {
		return entity.RetryResult{}, err
	}
	if len(taken.outgoing) == 0 {
		return entity.RetryResult{}, s.lost(ctx, order.ID)
	}
	return s.carryOut(context.WithoutCancel(ctx), taken)
}

// answers reports whether the attempt of a claim fulfils an order: it is the order's own attempt, or the order has no
// edit.
func answers(claim entity.Claim, order entity.RetryOrder) bool {
	return order.Edit.Empty() || claim.ID != uuid.Nil && claim.ID == order.Cause.Operation
}

// roomForRetry waits for memory for a large message; small ones do not wait for redrives.
func (s *Service) roomForRetry(ctx context.Context, m entity.Message) (*room, error) {
	size := m.Record.Size + int64(len(m.Record.Key)) + m.Record.KeyOmitted
	if size < largeRetry {
		return &room{}, nil
	}
	r, err := s.roomFor(ctx, copies*size)
	if err != nil {
		return nil, &unavailableError{err}
	}
	return r, nil
}

// messageOf returns the message of an order; a large value is not loaded.
func (s *Service) messageOf(ctx context.Context, order entity.RetryOrder) (entity.Message, error) {
	if order.Message != nil {
		return *order.Message, nil
	}
	message, err := s.store.Get(ctx, order.ID, entity.RetryValueLimit)
	if err != nil {
		return entity.Message{}, fmt.Errorf("read message: %w", err)
	}
	return message, nil
}

// planOne returns where the message would be sent. It loads a value that was too large to be read before.
func (s *Service) planOne(ctx context.Context, order entity.RetryOrder) (entity.Outgoing, error) {
	message, err := s.messageOf(ctx, order)
	if err != nil {
		return entity.Outgoing{}, err
	}
	messages := []entity.Message{message}
	if !message.Record.Loaded() {
		if messages, _, err = s.store.Load(ctx, []uuid.UUID{order.ID}, math.MaxInt64); err != nil {
			return entity.Outgoing{}, fmt.Errorf("load message: %w", err)
		}
	}
	if len(messages) == 0 {
		return entity.Outgoing{}, &entity.NotFoundError{ID: order.ID}
	}
	batch := outgoing(messages)
	if !order.Edit.Empty() {
		batch[0].Edit = order.Edit
	}
	targets, err := s.target(ctx, batch, planning{cause: order.Cause})
	if err != nil {
		return entity.Outgoing{}, err
	}
	batch[0].Target = targets[0]
	return batch[0], batch[0].Target.Err
}

// outgoing wraps messages, without targets.
func outgoing(messages []entity.Message) []entity.Outgoing {
	batch := make([]entity.Outgoing, len(messages))
	for i := range messages {
		batch[i].Message = messages[i]
	}
	return batch
}

// lost returns why a claim did not take a message that was free before.
func (s *Service) lost(ctx context.Context, id uuid.UUID) error {
	message, err := s.store.Get(ctx, id, 0)
	if err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	if message.Unsettled {
		return &entity.ClaimedError{ID: id, Unsettled: true}
	}
	if err := message.CanClaim(); err != nil {
		return err
	}
	// Another caller was faster and its attempt has failed already. Trying again here would let concurrent callers
	// use up all attempts at once.
	return &entity.ClaimedError{ID: id}
}

func (s *Service) carryOut(ctx context.Context, taken attempts) (entity.RetryResult, error) {
	endings, err := s.finish(taken, s.publish(ctx, taken))
	if err != nil {
		return entity.RetryResult{}, err
	}
	return s.answer(ctx, endings[0])
}

// answer returns Retry's answer for the end of a single attempt.
func (s *Service) answer(ctx context.Context, e ending) (entity.RetryResult, error) {
	if e.finished.Status == "" {
		finished, err := s.present(ctx, e.outgoing.Message.ID)
		if err != nil {
			return entity.RetryResult{}, err
		}
		e.finished = finished
	}
	switch {
	case e.finished.Status == entity.Resolved:
		return entity.RetryResult{
			ID: e.outgoing.Message.ID, Status: entity.Resolved,
			Published: e.delivery.Verdict != entity.Skipped, Topic: e.outgoing.Target.Topic,
			Partition: e.delivery.Partition, Offset: e.delivery.Offset, Attempt: e.outgoing.Message.Claim.ID,
		}, nil
	case e.delivery.Verdict == entity.GivenBack && e.finished.Status != entity.Dead:
		return entity.RetryResult{}, &unavailableError{errGivenBack}
	default:
		return entity.RetryResult{}, publishError(e)
	}
}

// present returns a message's state when our result was ignored: the claim was settled, or an earlier try was stored.
func (s *Service) present(ctx context.Context, id uuid.UUID) (repository.Finished, error) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	m, err := s.store.Get(ctx, id, 0)
	if err != nil {
		return repository.Finished{}, fmt.Errorf("read message: %w", err)
	}
	return state(m), nil
}

func state(m entity.Message) repository.Finished {
	return repository.Finished{
		MessageID: m.ID, Status: m.Status, RetryCount: m.RetryCount,
		MaxRetries: m.MaxRetries, NextAttemptAt: m.NextAttemptAt,
	}
}

func publishError(e ending) error {
	failed := &entity.PublishError{
		ID: e.outgoing.Message.ID, Class: e.delivery.Class, Status: e.finished.Status,
		Reason: "the broker did not acknowledge the record",
	}
	if e.delivery.Err != nil {
		failed.Reason = e.delivery.Err.Error()
	}
	failed.RetryAt = retryAt(e)
	return failed
}

func retryAt(e ending) time.Time {
	switch e.finished.Status {
	case entity.Pending:
		return e.finished.NextAttemptAt
	case entity.Retrying:
		return e.outgoing.Message.Claim.ExpiresAt
	default:
		return time.Time{}
	}
}

// unavailableError gives an error the kind entity.ErrUnavailable.
type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }

// Is reports true for entity.ErrUnavailable.
func (e *unavailableError) Is(target error) bool { return target == entity.ErrUnavailable }
