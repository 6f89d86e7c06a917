package attempt

import (
	"context"
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const fixed = "orders.fixed"

// fix returns an edit that sets the value and the key, and sends the record to another topic.
func fix() *entity.Edit {
	return &entity.Edit{Topic: fixed, SetValue: true, Value: []byte("fixed"), SetKey: true, Key: []byte("k")}
}

func ordered(id uuid.UUID, e *entity.Edit) entity.RetryOrder {
	return entity.RetryOrder{ID: id, Edit: e, Cause: entity.By("alice")}
}

func TestEditedRetry(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("SendsTheEditAndLeavesTheMessageAsItIs", scenario(func(b *bench) {
		id := b.Add(1)[0]
		before, _ := b.Store.Get(ctx, id, -1)
		got, err := b.Retry(ctx, ordered(id, fix()))
		history, _ := b.Store.History(ctx, id)
		check.Require(b, len(history) == 1, "History = %+v, want one attempt", history)
		want := entity.RetryResult{ID: id, Status: entity.Resolved, Published: true, Topic: fixed, Attempt: history[0].ID}
		check.True(b, err == nil && got == want, "Retry = %+v, %v, want %+v", got, err, want)
		b.WantRecords(fixed, "k=fixed")
		b.WantRecords(orders)
		b.WantEdits(id, fix())
		b.WantRecordUnchanged(id, before)
	}))

	t.Run("AnEmptyEditIsNone", scenario(func(b *bench) {
		id := b.Add(1)[0]
		check.Must(b.Retry(ctx, ordered(id, &entity.Edit{})))(b)
		b.WantRecords(orders, "=value")
		b.WantEdits(id, nil)
	}))

	t.Run("RefusedSpendsNoAttempt", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Kafka.PlanError = func(entity.Message) error { return &entity.RefusedError{Class: entity.Unauthorized, Reason: "no"} }
		refused := check.As[*entity.RefusedError](b, check.Err(b.Retry(ctx, ordered(id, fix()))), "Retry")
		check.Equal(b, refused.Class, entity.Unauthorized, "class")
		b.WantState(id, entity.Pending, 0, "")
		b.WantEdits(id)
	}))

	t.Run("FailedAttemptDoesNotEditTheNextOne", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Kafka.Deliver = always(failure(entity.RateLimited), false)
		check.Is(b, check.Err(b.Retry(ctx, ordered(id, fix()))), entity.ErrPublish, "Retry")
		b.Kafka.Deliver = nil
		check.NoError(b, b.retry(id))
		b.WantRecords(fixed)
		b.WantRecords(orders, "=value")
		b.WantEdits(id, fix(), nil)
	}))

	t.Run("ConflictsWithALivingAttemptAndWithSuccess", scenario(func(b *bench) {
		ids := b.Add(2)
		b.crash(ids[0], true)
		b.retry(ids[1])
		for _, id := range ids {
			check.Is(b, check.Err(b.Retry(ctx, ordered(id, fix()))), entity.ErrConflict, "Retry of a message that is %s", b.Get(id).Status)
		}
		b.WantRecords(fixed)
	}))

	t.Run("IsNotTakenForDoneWhenAnEarlierAttemptArrived", scenario(func(b *bench) {
		ids := b.Add(2)
		b.crash(ids[0], true)
		b.crashIn(ordered(ids[1], fix()), true)
		elapse(b.cfg.ClaimExpiry)
		second := fix()
		second.Value = []byte("another")
		for _, id := range ids {
			check.Is(b, check.Err(b.Retry(ctx, ordered(id, second))), entity.ErrConflict, "Retry")
			b.wantFound(id)
		}
		b.WantRecords(orders, "=value")
		b.WantRecords(fixed, "k=fixed")
	}))

	t.Run("GoesOutWhenTheEarlierAttemptDidNotArrive", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.crash(id, false)
		elapse(b.cfg.ClaimExpiry)
		check.Must(b.Retry(ctx, ordered(id, fix())))(b)
		b.WantRecords(fixed, "k=fixed")
		b.WantEdits(id, nil, fix())
	}))

	t.Run("OfADeadProcessIsFoundInItsOwnTopic", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.crashIn(ordered(id, fix()), true)
		b.afterExpiry()
		b.wantFound(id)
		b.WantEdits(id, fix())
		history, _ := b.Store.History(ctx, id)
		check.True(b, history[0].Topic == fixed, "the attempt went to %s, want %s", history[0].Topic, fixed)
	}))

	t.Run("SentAgainIsAnsweredByItsOwnAttempt", scenario(func(b *bench) {
		id := b.Add(1)[0]
		order := ordered(id, fix())
		order.Cause.Operation = uuid.New()
		b.crashIn(order, true)
		elapse(b.cfg.ClaimExpiry)
		for _, resumed := range []bool{false, true, true} {
			order.Resumed = resumed
			got, err := b.Retry(ctx, order)
			check.True(b, err == nil && got.Topic == fixed && got.Status == entity.Resolved,
				"Retry = %+v, %v, want RESOLVED in %s", got, err, fixed)
		}
		b.WantRecords(fixed, "k=fixed")
	}))

	t.Run("TellsTheStoreWhatIsSent", scenario(func(b *bench) {
		id := b.Add(1)[0]
		planned := check.Must(b.planOne(ctx, ordered(id, fix())))(b)
		claim := intents([]entity.Outgoing{planned}, ClaimOptions{})[0]
		if want := entity.RecordHash([]byte("k"), []byte("fixed")); claim.SentHash != want || !reflect.DeepEqual(claim.Edit, fix()) || claim.Topic != fixed {
			b.Errorf("claim = %+v, want the edit, its topic and hash %d", claim, want)
		}
	}))
}
