package attempt

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// errGivenBack means that the attempt ended before its record was sent, so the attempt does not count.
var errGivenBack = errors.New("the attempt was given back before it was sent")

// errTooLate means that this process was suspended, or waited too long, before it could claim the message. Meanwhile
// another process may have made the attempt of the same request, which has the same id.
var errTooLate = errors.New("the attempt did not begin in time")

// Retrier carries out the requests of operators for single messages.
type Retrier struct {
	store    Store
	planner  *Planner
	loader   *Loader
	executor *Executor
	settler  *Settler
	turns    *wait.Gates[string] // by original topic
}

const (
	// retriesAtOnce is how many retries of single messages of a topic are planned and sent at a time. The others wait
	// before their plan, where waiting costs no attempt.
	retriesAtOnce = 32
	// turnTimeout is how long a retry waits for its turn.
	turnTimeout = time.Minute
)

var errBusy = errors.New("too many other retries of the topic are under way")

// Retry makes one attempt on one message and waits for its end. The error is nil when the message is RESOLVED by this
// attempt. For an order without an edit, it is also nil when the record of an earlier attempt is found in the target's
// log. An order with an edit succeeds only when that edit was sent. Otherwise the error is
//   - *entity.NotFoundError,
//   - *entity.NotRetryableError or *entity.ClaimedError: the message's state forbids a retry,
//     or another attempt holds the message,
//   - *entity.RefusedError: the record cannot be sent to its target; nothing changed,
//   - *entity.PublishError: the attempt was made and did not succeed, or
//   - of kind entity.ErrUnavailable: the store could not be reached, or nothing was sent, because the broker could not
//     be reached or the attempt began too late.
//
// The claim of a dead process is settled first. Once the message is claimed, the end of ctx has no effect.
func (r *Retrier) Retry(ctx context.Context, order entity.RetryOrder) (entity.RetryResult, error) {
	if order.Resumed {
		if result, found, err := r.resume(ctx, order); found || err != nil {
			return result, err
		}
		order.Message = nil // read the message again, because it may have changed during the wait
	}
	began := r.executor.now()
	message, err := r.messageOf(ctx, order)
	if err != nil {
		return entity.RetryResult{}, err
	}
	if message.Claimed() && !message.Unsettled {
		settled, err := r.settler.settleMessage(ctx, message)
		if err != nil {
			return entity.RetryResult{}, err
		}
		if settled.Finished.Status == entity.Resolved && answers(message.Claim, order) {
			return r.answer(ctx, settled)
		}
		message.Status = settled.Finished.Status
		message.RetryCount = settled.Finished.RetryCount
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
	done, err := r.awaitTurn(ctx, message.OriginalTopic)
	if err != nil {
		return entity.RetryResult{}, err
	}
	defer done()
	memory, err := r.reserve(ctx, message)
	if err != nil {
		return entity.RetryResult{}, err
	}
	defer memory.Release()
	planned, err := r.planOne(ctx, order)
	if err != nil {
		return entity.RetryResult{}, err
	}
	if order.Cause.Operation != uuid.Nil && r.executor.now().Sub(began) > r.executor.cfg.SendWindow() {
		return entity.RetryResult{}, &unavailableError{errTooLate}
	}
	taken, err := r.executor.Claim(ctx, []entity.Outgoing{planned}, ClaimOptions{Cause: order.Cause, single: true, takeOver: takeOver})
	if err != nil {
		return entity.RetryResult{}, err
	}
	if len(taken.Outgoing) == 0 {
		return entity.RetryResult{}, r.explainLostClaim(ctx, order.ID)
	}
	return r.carryOut(context.WithoutCancel(ctx), taken)
}

// awaitTurn waits until the retry of a message with the given original topic may begin.
func (r *Retrier) awaitTurn(ctx context.Context, topic string) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, turnTimeout)
	defer cancel()
	done, err = r.turns.Enter(ctx, topic)
	if err != nil {
		return nil, &unavailableError{fmt.Errorf("%w: %w", errBusy, err)}
	}
	return done, nil
}

// answers reports whether the settled attempt of a claim fulfils an order. It does if it is the order's own attempt, or
// if the order has no edit.
func answers(claim entity.Claim, order entity.RetryOrder) bool {
	return order.Edit.Empty() || claim.ID != uuid.Nil && claim.ID == order.Cause.Operation
}

// reserve waits for memory for a large message; a small message does not wait, so redrives do not delay it.
func (r *Retrier) reserve(ctx context.Context, m entity.Message) (*Reservation, error) {
	size := m.Record.Size + int64(len(m.Record.Key)) + m.Record.KeyOmitted
	if size < largeRetry {
		return &Reservation{}, nil
	}
	reserved, err := r.loader.reserve(ctx, copies*size)
	if err != nil {
		return nil, &unavailableError{err}
	}
	return reserved, nil
}

// messageOf returns the message of an order: the message that the order contains, else the stored message, without its
// value if that is large.
func (r *Retrier) messageOf(ctx context.Context, order entity.RetryOrder) (entity.Message, error) {
	if order.Message != nil {
		return *order.Message, nil
	}
	message, err := r.store.Get(ctx, order.ID, entity.RetryValueLimit)
	if err != nil {
		return entity.Message{}, fmt.Errorf("read message: %w", err)
	}
	return message, nil
}

// planOne returns the message with its target. If the message does not contain its value, because the value is large,
// planOne loads it.
func (r *Retrier) planOne(ctx context.Context, order entity.RetryOrder) (entity.Outgoing, error) {
	message, err := r.messageOf(ctx, order)
	if err != nil {
		return entity.Outgoing{}, err
	}
	messages := []entity.Message{message}
	if !message.Record.Loaded() {
		if messages, _, err = r.store.Load(ctx, []uuid.UUID{order.ID}, math.MaxInt64); err != nil {
			return entity.Outgoing{}, fmt.Errorf("load message: %w", err)
		}
	}
	if len(messages) == 0 {
		return entity.Outgoing{}, &entity.NotFoundError{ID: order.ID}
	}
	batch := OutgoingOf(messages)
	if !order.Edit.Empty() {
		batch[0].Edit = order.Edit
	}
	targets, err := r.planner.Plan(ctx, batch, PlanOptions{Cause: order.Cause, AcceptEnvelope: order.AcceptEnvelope})
	if err != nil {
		return entity.Outgoing{}, err
	}
	batch[0].Target = targets[0]
	return batch[0], batch[0].Target.Err
}

// OutgoingOf returns the messages without targets, to be planned.
func OutgoingOf(messages []entity.Message) []entity.Outgoing {
	batch := make([]entity.Outgoing, len(messages))
	for i := range messages {
		batch[i].Message = messages[i]
	}
	return batch
}

// explainLostClaim returns why the store did not claim a message that could be claimed when it was read.
func (r *Retrier) explainLostClaim(ctx context.Context, id uuid.UUID) error {
	message, err := r.store.Get(ctx, id, 0)
	if err != nil {
		return fmt.Errorf("read message: %w", err)
	}
	if message.Unsettled {
		return &entity.ClaimedError{ID: id, Unsettled: true}
	}
	if err := message.CanClaim(); err != nil {
		return err
	}
	// Another caller claimed the message first, and the attempt of that caller has already failed. Trying again here
	// would let concurrent callers use up all attempts of the message at once.
	return &entity.ClaimedError{ID: id}
}

func (r *Retrier) carryOut(ctx context.Context, taken Batch) (entity.RetryResult, error) {
	outcomes, err := r.executor.Finish(taken, r.executor.Publish(ctx, taken))
	if err != nil {
		return entity.RetryResult{}, err
	}
	return r.answer(ctx, outcomes[0])
}

// answer converts the outcome of a single attempt to the result of Retry.
func (r *Retrier) answer(ctx context.Context, o Outcome) (entity.RetryResult, error) {
	if o.Finished.Status == "" {
		finished, err := r.present(ctx, o.Outgoing.Message.ID)
		if err != nil {
			return entity.RetryResult{}, err
		}
		o.Finished = finished
	}
	switch {
	case o.Finished.Status == entity.Resolved:
		return entity.RetryResult{
			ID: o.Outgoing.Message.ID, Status: entity.Resolved,
			Published: o.Delivery.Verdict != entity.Skipped, Topic: o.Outgoing.Target.Topic,
			Partition: o.Delivery.Partition, Offset: o.Delivery.Offset, Attempt: o.Outgoing.Message.Claim.ID,
		}, nil
	case o.Delivery.Verdict == entity.GivenBack && o.Finished.Status != entity.Dead && o.Delivery.Class != "":
		return entity.RetryResult{}, &kafkaAwayError{unavailableError{fmt.Errorf("%w: %w", errGivenBack, o.Delivery.Err)}}
	case o.Delivery.Verdict == entity.GivenBack && o.Finished.Status != entity.Dead:
		return entity.RetryResult{}, &unavailableError{errGivenBack}
	default:
		return entity.RetryResult{}, publishError(o)
	}
}

// present reads a message's state from the store, after the store ignored the result of an attempt. The store ignores a
// result if another process settled the claim, or if an earlier call has stored the result.
func (r *Retrier) present(ctx context.Context, id uuid.UUID) (repository.Finished, error) {
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	m, err := r.store.Get(ctx, id, 0)
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

func publishError(o Outcome) error {
	failed := &entity.PublishError{
		ID: o.Outgoing.Message.ID, Class: o.Delivery.Class, Status: o.Finished.Status,
		Reason: "the broker did not acknowledge the record",
	}
	if o.Delivery.Err != nil {
		failed.Reason = o.Delivery.Err.Error()
	}
	failed.RetryAt = retryAt(o)
	return failed
}

func retryAt(o Outcome) time.Time {
	switch o.Finished.Status {
	case entity.Pending:
		return o.Finished.NextAttemptAt
	case entity.Retrying:
		return o.Outgoing.Message.Claim.ExpiresAt
	default:
		return time.Time{}
	}
}

// unavailableError gives an error the kind entity.ErrUnavailable.
type unavailableError struct{ error }

func (e *unavailableError) Unwrap() error { return e.error }

// Is reports true for entity.ErrUnavailable.
func (e *unavailableError) Is(target error) bool { return target == entity.ErrUnavailable }

// kafkaAwayError is an unavailableError whose reason is that Kafka did not answer.
type kafkaAwayError struct{ unavailableError }

// Away names what cannot be reached, for clients.
func (e *kafkaAwayError) Away() string { return "Kafka" }
