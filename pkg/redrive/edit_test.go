package redrive

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const fixed = "orders.fixed"

// fix is an edit that sends another value to another topic.
func fix() *entity.Edit {
	return &entity.Edit{Topic: fixed, SetValue: true, Value: []byte("fixed"), SetKey: true, Key: []byte("k")}
}

func ordered(id uuid.UUID, e *entity.Edit) entity.RetryOrder {
	return entity.RetryOrder{ID: id, Edit: e, Cause: entity.By("alice")}
}

// records returns what a topic's log holds.
func (k *kafka) records(topic string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []string
	for _, e := range k.logs[topic] {
		all = append(all, string(e.record.Key)+"="+string(e.record.Value))
	}
	return all
}

func (b *bench) wantRecords(topic string, want ...string) {
	b.Helper()
	if got := b.kafka.records(topic); !reflect.DeepEqual(got, want) {
		b.Errorf("log of %s = %q, want %q", topic, got, want)
	}
}

// wantEdits checks which attempts of a message had which edits.
func (b *bench) wantEdits(id uuid.UUID, want ...*entity.Edit) {
	b.Helper()
	history, err := b.store.History(context.Background(), id)
	if err != nil {
		b.Fatalf("History: %v", err)
	}
	var got []*entity.Edit
	for _, a := range history {
		got = append(got, a.Edit)
	}
	if !reflect.DeepEqual(got, want) {
		b.Errorf("edits = %+v, want %+v", got, want)
	}
}

func (b *bench) wantRecordUnchanged(id uuid.UUID, want entity.Message) {
	b.Helper()
	got, err := b.store.Get(context.Background(), id, -1)
	if err != nil || !reflect.DeepEqual(got.Record, want.Record) || got.OriginalTopic != want.OriginalTopic {
		b.Errorf("message = %+v of %s, %v, want %+v of %s", got.Record, got.OriginalTopic, err, want.Record, want.OriginalTopic)
	}
}

func TestEditedRetry(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("SendsTheEditAndLeavesTheMessageAsItIs", scenario(func(b *bench) {
		id := b.add(1)[0]
		before, _ := b.store.Get(ctx, id, -1)
		got, err := b.Retry(ctx, ordered(id, fix()))
		history, _ := b.store.History(ctx, id)
		if len(history) != 1 {
			b.Fatalf("History = %+v, want one attempt", history)
		}
		want := entity.RetryResult{ID: id, Status: entity.Resolved, Published: true, Topic: fixed, Attempt: history[0].ID}
		if err != nil || got != want {
			b.Errorf("Retry = %+v, %v, want %+v", got, err, want)
		}
		b.wantRecords(fixed, "k=fixed")
		b.wantRecords(orders)
		b.wantEdits(id, fix())
		b.wantRecordUnchanged(id, before)
	}))

	t.Run("AnEmptyEditIsNone", scenario(func(b *bench) {
		id := b.add(1)[0]
		if _, err := b.Retry(ctx, ordered(id, &entity.Edit{})); err != nil {
			b.Fatal(err)
		}
		b.wantRecords(orders, "=value")
		b.wantEdits(id, nil)
	}))

	t.Run("RefusedSpendsNoAttempt", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.kafka.plan = func(entity.Message) error {
			return &entity.RefusedError{Class: entity.Unauthorized, Reason: "no"}
		}
		_, err := b.Retry(ctx, ordered(id, fix()))
		var refused *entity.RefusedError
		if !errors.As(err, &refused) || refused.Class != entity.Unauthorized {
			b.Errorf("Retry = %v, want refused as UNAUTHORIZED", err)
		}
		b.wantState(id, entity.Pending, 0, "")
		b.wantEdits(id)
	}))

	t.Run("FailedAttemptDoesNotEditTheNextOne", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.kafka.deliver = always(entity.Delivery{Verdict: entity.Failed, Class: entity.RateLimited, Err: errBroken}, false)
		if _, err := b.Retry(ctx, ordered(id, fix())); !errors.Is(err, entity.ErrPublish) {
			b.Errorf("Retry = %v, want a failed publish", err)
		}
		b.kafka.deliver = nil
		if err := b.retry(id); err != nil {
			b.Fatal(err)
		}
		b.wantRecords(fixed)
		b.wantRecords(orders, "=value")
		b.wantEdits(id, fix(), nil)
	}))

	t.Run("ConflictsWithALivingAttemptAndWithSuccess", scenario(func(b *bench) {
		ids := b.add(2)
		b.crash(ids[0], true)
		b.retry(ids[1])
		for _, id := range ids {
			if _, err := b.Retry(ctx, ordered(id, fix())); !errors.Is(err, entity.ErrConflict) {
				b.Errorf("Retry of a message that is %s = %v, want a conflict", b.get(id).Status, err)
			}
		}
		b.wantRecords(fixed)
	}))

	t.Run("IsNotTakenForDoneWhenAnEarlierAttemptArrived", scenario(func(b *bench) {
		ids := b.add(2)
		b.crash(ids[0], true)
		b.crashIn(ordered(ids[1], fix()), true)
		elapse(b.cfg.ClaimExpiry)
		second := fix()
		second.Value = []byte("another")
		for _, id := range ids {
			if _, err := b.Retry(ctx, ordered(id, second)); !errors.Is(err, entity.ErrConflict) {
				b.Errorf("Retry = %v, want a conflict: the earlier attempt was something else", err)
			}
			b.wantFound(id)
		}
		b.wantRecords(orders, "=value")
		b.wantRecords(fixed, "k=fixed")
	}))

	t.Run("GoesOutWhenTheEarlierAttemptDidNotArrive", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, false)
		elapse(b.cfg.ClaimExpiry)
		if _, err := b.Retry(ctx, ordered(id, fix())); err != nil {
			b.Fatal(err)
		}
		b.wantRecords(fixed, "k=fixed")
		b.wantEdits(id, nil, fix())
	}))

	t.Run("OfADeadProcessIsFoundInItsOwnTopic", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crashIn(ordered(id, fix()), true)
		b.afterExpiry()
		b.wantFound(id)
		b.wantEdits(id, fix())
		history, _ := b.store.History(ctx, id)
		if history[0].Topic != fixed {
			b.Errorf("the attempt went to %s, want %s", history[0].Topic, fixed)
		}
	}))

	t.Run("SentAgainIsAnsweredByItsOwnAttempt", scenario(func(b *bench) {
		id := b.add(1)[0]
		order := ordered(id, fix())
		order.Cause.Operation = uuid.New()
		b.crashIn(order, true)
		elapse(b.cfg.ClaimExpiry)
		for _, resumed := range []bool{false, true, true} {
			order.Resumed = resumed
			got, err := b.Retry(ctx, order)
			if err != nil || got.Topic != fixed || got.Status != entity.Resolved {
				b.Errorf("Retry = %+v, %v, want RESOLVED in %s", got, err, fixed)
			}
		}
		b.wantRecords(fixed, "k=fixed")
	}))

	t.Run("TellsTheStoreWhatIsSent", scenario(func(b *bench) {
		id := b.add(1)[0]
		planned, err := b.planOne(ctx, ordered(id, fix()))
		if err != nil {
			b.Fatal(err)
		}
		claim := intents([]entity.Outgoing{planned}, claiming{})[0]
		if want := entity.RecordHash([]byte("k"), []byte("fixed")); claim.SentHash != want || !reflect.DeepEqual(claim.Edit, fix()) || claim.Topic != fixed {
			b.Errorf("claim = %+v, want the edit, its topic and hash %d", claim, want)
		}
	}))
}
