package attempt

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

func TestRetry(t *testing.T) {
	t.Parallel()

	t.Run("Resolves", scenario(func(b *bench) {
		id := b.Add(1)[0]
		got, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, Cause: entity.By("alice")})
		b.WantState(id, entity.Resolved, 1, "")
		b.WantSent(orders, id)
		history, _ := b.Store.History(context.Background(), id)
		check.Require(b, len(history) == 1 && history[0].Actor == "alice", "History = %+v, want one attempt by alice", history)
		want := entity.RetryResult{ID: id, Status: entity.Resolved, Published: true, Topic: orders, Attempt: history[0].ID}
		check.True(b, err == nil && got == want, "Retry = %+v, %v, want %+v", got, err, want)
	}))

	t.Run("ReadsItsMessageOnce", scenario(func(b *bench) {
		large := func(m *entity.Message) { m.Record.Value, m.Record.Size = make([]byte, largeRetry), largeRetry }
		for name, c := range map[string]struct {
			id       uuid.UUID
			handedOn bool
			want     int32
		}{
			"by itself":                {b.Add(1)[0], false, 1},
			"by its caller":            {b.Add(1)[0], true, 0},
			"and a large value":        {b.Add(1, large)[0], false, 2},
			"by its caller, but large": {b.Add(1, large)[0], true, 1},
		} {
			order := entity.RetryOrder{ID: c.id, Cause: entity.By("alice")}
			if c.handedOn {
				m := check.Must(b.Store.Get(context.Background(), c.id, entity.RetryValueLimit))(b)
				order.Message = &m
			}
			before := b.Store.Reads.Load()
			check.Must(b.Retry(context.Background(), order))(b)
			check.Equal(b, b.Store.Reads.Load()-before, c.want, "reads of a message that was read %s", name)
			b.WantState(c.id, entity.Resolved, 1, "")
		}
	}))

	t.Run("UnknownMessageIsNotFound", scenario(func(b *bench) { check.Is(b, b.retry(uuid.New()), entity.ErrNotFound, "Retry") }))

	t.Run("SecondRetryConflicts", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.retry(id)
		b.wantNotRetryable(b.retry(id), "message is not retryable: status=RESOLVED, retry_count=1/3")
		b.WantSent(orders, id)
	}))

	t.Run("UsedUpAttemptsConflict", scenario(func(b *bench) {
		id := b.Add(1, func(m *entity.Message) { m.Status, m.RetryCount = entity.Dead, 3 })[0]
		b.wantNotRetryable(b.retry(id), "message is not retryable: status=DEAD, retry_count=3/3")
	}))

	t.Run("FailuresEndInDead", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Kafka.Deliver = always(failure(entity.BrokerUnavailable), false)
		for attempt, wait := range []time.Duration{2 * time.Second, 4 * time.Second} {
			failed := b.WantPublishError(b.retry(id), entity.Pending, entity.BrokerUnavailable)
			check.Equal(b, time.Until(failed.RetryAt), wait, "wait after attempt %d", attempt+1)
		}
		b.WantPublishError(b.retry(id), entity.Dead, entity.BrokerUnavailable)
		b.WantState(id, entity.Dead, 3, entity.BrokerUnavailable)
		b.WantDeadLines(1)
	}))

	t.Run("RejectedIsDeadAtOnce", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Kafka.Deliver = always(rejected, false)
		b.WantPublishError(b.retry(id), entity.Dead, entity.BadRecord)
		b.WantState(id, entity.Dead, 1, entity.BadRecord)
		b.WantDeadLines(1)
	}))

	t.Run("RefusedByTheBrokerCostsNoAttempt", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Kafka.Deliver = always(unauthorized, false)
		b.WantPublishError(b.retry(id), entity.Pending, entity.Unauthorized)
		b.WantState(id, entity.Pending, 0, entity.Unauthorized)
	}))

	t.Run("RefusedBeforehandChangesNothing", scenario(func(b *bench) {
		id := b.Add(1)[0]
		before := b.Get(id)
		b.Kafka.PlanError = func(entity.Message) error { return &entity.RefusedError{Class: entity.LoopRefused, Reason: "no"} }
		check.As[*entity.RefusedError](b, b.retry(id), "Retry")
		after := b.Get(id)
		check.True(b, after.UpdatedAt == before.UpdatedAt && after.RetryCount == 0, "message changed: %+v, want %+v", after, before)
	}))

	t.Run("UnreachableLeaderIsUnavailable", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Kafka.PlanError = func(entity.Message) error { return entity.ErrUnavailable }
		check.Is(b, b.retry(id), entity.ErrUnavailable, "Retry")
		b.WantState(id, entity.Pending, 0, "")
	}))

	t.Run("SkippedIsResolvedUnpublished", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Kafka.Deliver = always(entity.Delivery{Verdict: entity.Skipped}, false)
		got, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, Cause: entity.By("tester")})
		check.True(b, err == nil && !got.Published && got.Status == entity.Resolved,
			"Retry = %+v, %v, want RESOLVED and not published", got, err)
	}))

	t.Run("ClientWhoLeavesChangesNothing", scenario(func(b *bench) {
		id := b.Add(1)[0]
		ctx, leave := context.WithCancel(context.Background())
		b.Store.OnClaimed = leave
		check.Must(b.Retry(ctx, entity.RetryOrder{ID: id, Cause: entity.By("tester")}))(b)
		b.WantState(id, entity.Resolved, 1, "")
		b.WantSent(orders, id)
	}))

	t.Run("LateSendIsGivenBack", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Executor.now = func() time.Time { return time.Now().Add(-b.cfg.SendWindow()) }
		check.Is(b, b.retry(id), entity.ErrUnavailable, "Retry")
		b.WantState(id, entity.Pending, 0, "")
		b.WantSent(orders)
	}))
}

func (b *bench) wantNotRetryable(err error, text string) {
	b.Helper()
	check.Equal(b, check.As[*entity.NotRetryableError](b, err, "Retry").Error(), text, "error")
}

// TestStoppedRequest: a process may be suspended before it claims a message, while another process handles the same
// request. When the first process continues, it claims nothing.
func TestStoppedRequest(t *testing.T) {
	t.Parallel()
	t.Run("WakesTooLateToMakeTheSameAttempt", scenario(func(b *bench) {
		id := b.Add(1)[0]
		stopped := true
		b.Kafka.PlanError = func(entity.Message) error {
			if stopped {
				stopped = false
				b.Kafka.Mu.Unlock()
				defer b.Kafka.Mu.Lock()
				elapse(40 * time.Second)
			}
			return nil
		}
		b.Kafka.Deliver = always(inDoubt(entity.NetworkTimeout), true)
		order := entity.RetryOrder{ID: id, Cause: entity.AuditInfo{Actor: "alice", Operation: uuid.New()}}
		first := make(chan error)
		go func() { _, err := b.Retry(context.Background(), order); first <- err }()
		elapse(35 * time.Second)
		again := order
		again.Resumed = true
		_, err := b.another().Retry(context.Background(), again)
		b.WantPublishError(err, entity.Retrying, entity.NetworkTimeout)
		check.Is(b, <-first, entity.ErrUnavailable, "Retry of the stopped process")
		b.WantSent(orders, id)
	}))
}
