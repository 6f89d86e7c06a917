package redrive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// scenario runs a test in a bubble of its own time.
func scenario(do func(b *bench)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { do(newBench(t)) })
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()

	t.Run("Resolves", scenario(func(b *bench) {
		id := b.add(1)[0]
		got, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, Cause: entity.By("alice")})
		b.wantState(id, entity.Resolved, 1, "")
		b.wantSent(orders, id)
		history, _ := b.store.History(context.Background(), id)
		if len(history) != 1 || history[0].Actor != "alice" {
			b.Fatalf("History = %+v, want one attempt by alice", history)
		}
		want := entity.RetryResult{ID: id, Status: entity.Resolved, Published: true, Topic: orders, Attempt: history[0].ID}
		if err != nil || got != want {
			b.Errorf("Retry = %+v, %v, want %+v", got, err, want)
		}
	}))

	t.Run("ReadsItsMessageOnce", scenario(func(b *bench) {
		large := func(m *entity.Message) { m.Record.Value, m.Record.Size = make([]byte, largeRetry), largeRetry }
		for name, c := range map[string]struct {
			id       uuid.UUID
			handedOn bool
			want     int32
		}{
			"by itself":                {b.add(1)[0], false, 1},
			"by its caller":            {b.add(1)[0], true, 0},
			"and a large value":        {b.add(1, large)[0], false, 2},
			"by its caller, but large": {b.add(1, large)[0], true, 1},
		} {
			order := entity.RetryOrder{ID: c.id, Cause: entity.By("alice")}
			if c.handedOn {
				m, err := b.store.Get(context.Background(), c.id, entity.RetryValueLimit)
				if err != nil {
					b.Fatal(err)
				}
				order.Message = &m
			}
			before := b.store.reads.Load()
			if _, err := b.Retry(context.Background(), order); err != nil {
				b.Errorf("Retry of a message that was read %s = %v", name, err)
			}
			if got := b.store.reads.Load() - before; got != c.want {
				b.Errorf("Retry of a message that was read %s read it %d times, want %d", name, got, c.want)
			}
			b.wantState(c.id, entity.Resolved, 1, "")
		}
	}))

	t.Run("UnknownMessageIsNotFound", scenario(func(b *bench) {
		if err := b.retry(uuid.New()); !errors.Is(err, entity.ErrNotFound) {
			b.Errorf("Retry = %v, want a not found error", err)
		}
	}))

	t.Run("SecondRetryConflicts", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.retry(id)
		b.wantNotRetryable(b.retry(id), "message is not retryable: status=RESOLVED, retry_count=1/3")
		b.wantSent(orders, id)
	}))

	t.Run("UsedUpAttemptsConflict", scenario(func(b *bench) {
		id := b.add(1, func(m *entity.Message) { m.Status, m.RetryCount = entity.Dead, 3 })[0]
		b.wantNotRetryable(b.retry(id), "message is not retryable: status=DEAD, retry_count=3/3")
	}))

	t.Run("FailuresEndInDead", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.kafka.deliver = always(entity.Delivery{Verdict: entity.Failed, Class: entity.BrokerUnavailable, Err: errBroken}, false)
		for attempt, wait := range []time.Duration{2 * time.Second, 4 * time.Second} {
			failed := b.wantPublishError(b.retry(id), entity.Pending, entity.BrokerUnavailable)
			if got := time.Until(failed.RetryAt); got != wait {
				b.Errorf("attempt %d: retry in %s, want %s", attempt+1, got, wait)
			}
		}
		b.wantPublishError(b.retry(id), entity.Dead, entity.BrokerUnavailable)
		b.wantState(id, entity.Dead, 3, entity.BrokerUnavailable)
		b.wantDeadLines(1)
	}))

	t.Run("RejectedIsDeadAtOnce", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.kafka.deliver = always(entity.Delivery{Verdict: entity.Rejected, Class: entity.BadRecord, Err: errBroken}, false)
		b.wantPublishError(b.retry(id), entity.Dead, entity.BadRecord)
		b.wantState(id, entity.Dead, 1, entity.BadRecord)
		b.wantDeadLines(1)
	}))

	t.Run("RefusedByTheBrokerCostsNoAttempt", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.kafka.deliver = always(entity.Delivery{Verdict: entity.Refused, Class: entity.Unauthorized, Err: errBroken}, false)
		b.wantPublishError(b.retry(id), entity.Pending, entity.Unauthorized)
		b.wantState(id, entity.Pending, 0, entity.Unauthorized)
	}))

	t.Run("RefusedBeforehandChangesNothing", scenario(func(b *bench) {
		id := b.add(1)[0]
		before := b.get(id)
		b.kafka.plan = func(entity.Message) error {
			return &entity.RefusedError{Class: entity.LoopRefused, Reason: "no"}
		}
		var refused *entity.RefusedError
		if err := b.retry(id); !errors.As(err, &refused) {
			b.Errorf("Retry = %v, want a RefusedError", err)
		}
		if after := b.get(id); after.UpdatedAt != before.UpdatedAt || after.RetryCount != 0 {
			b.Errorf("message changed: %+v, want %+v", after, before)
		}
	}))

	t.Run("UnreachableLeaderIsUnavailable", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.kafka.plan = func(entity.Message) error { return entity.ErrUnavailable }
		if err := b.retry(id); !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("Retry = %v, want unavailable", err)
		}
		b.wantState(id, entity.Pending, 0, "")
	}))

	t.Run("SkippedIsResolvedUnpublished", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.kafka.deliver = always(entity.Delivery{Verdict: entity.Skipped}, false)
		got, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, Cause: entity.By("tester")})
		if err != nil || got.Published || got.Status != entity.Resolved {
			b.Errorf("Retry = %+v, %v, want RESOLVED and not published", got, err)
		}
	}))

	t.Run("ClientWhoLeavesChangesNothing", scenario(func(b *bench) {
		id := b.add(1)[0]
		ctx, leave := context.WithCancel(context.Background())
		b.store.taken = leave
		if _, err := b.Retry(ctx, entity.RetryOrder{ID: id, Cause: entity.By("tester")}); err != nil {
			b.Errorf("Retry = %v, want nil", err)
		}
		b.wantState(id, entity.Resolved, 1, "")
		b.wantSent(orders, id)
	}))

	t.Run("LateSendIsGivenBack", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.Service.now = func() time.Time { return time.Now().Add(-b.cfg.sendWindow()) }
		if err := b.retry(id); !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("Retry = %v, want unavailable", err)
		}
		b.wantState(id, entity.Pending, 0, "")
		b.wantSent(orders)
	}))
}

func TestRetryTogether(t *testing.T) {
	t.Parallel()

	t.Run("OneOfFiftyPublishes", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.kafka.deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			<-time.After(time.Second) // the bubble's time: all others ask meanwhile
			return true, entity.Delivery{Verdict: entity.Acknowledged}
		}
		outcomes := b.together(50, id)
		if outcomes["<nil>"] != 1 || outcomes["message is not retryable: status=RETRYING, retry_count=1/3"] != 49 {
			b.Errorf("outcomes = %v, want 1 success and 49 conflicts", outcomes)
		}
		b.wantSent(orders, id)
	}))
}

// together retries one message n times at once and counts the answers.
func (b *bench) together(n int, id uuid.UUID) map[string]int {
	var mu sync.Mutex
	var all sync.WaitGroup
	outcomes := map[string]int{}
	for range n {
		all.Go(func() {
			err := b.retry(id)
			mu.Lock()
			defer mu.Unlock()
			outcomes[fmt.Sprint(err)]++
		})
	}
	all.Wait()
	return outcomes
}

func (b *bench) wantNotRetryable(err error, text string) {
	b.Helper()
	var conflict *entity.NotRetryableError
	if !errors.As(err, &conflict) || conflict.Error() != text {
		b.Errorf("error = %v, want %s", err, text)
	}
}

func (b *bench) wantPublishError(err error, status entity.Status, class entity.ErrorClass) *entity.PublishError {
	b.Helper()
	var failed *entity.PublishError
	if !errors.As(err, &failed) {
		b.Fatalf("error = %v, want a PublishError", err)
	}
	if failed.Status != status || failed.Class != class {
		b.Errorf("PublishError is %s %s, want %s %s", failed.Status, failed.Class, status, class)
	}
	return failed
}

func (b *bench) wantDeadLines(n int) {
	b.Helper()
	if got := b.logs.FilterMessage("message is dead").Len(); got != n {
		b.Errorf("lines about death = %d, want %d", got, n)
	}
}

// TestStoppedRequest: a process that is stopped before its claim and wakes when
// another one has the same operation claims nothing.
func TestStoppedRequest(t *testing.T) {
	t.Parallel()
	t.Run("WakesTooLateToMakeTheSameAttempt", scenario(func(b *bench) {
		id := b.add(1)[0]
		stopped := true
		b.kafka.plan = func(entity.Message) error {
			if stopped {
				stopped = false
				b.kafka.mu.Unlock()
				defer b.kafka.mu.Lock()
				elapse(40 * time.Second)
			}
			return nil
		}
		b.kafka.deliver = always(inDoubt(entity.NetworkTimeout), true)
		order := entity.RetryOrder{ID: id, Cause: entity.Cause{Actor: "alice", Operation: uuid.New()}}
		first := make(chan error)
		go func() { _, err := b.Retry(context.Background(), order); first <- err }()
		elapse(35 * time.Second)
		order.Resumed = true
		_, err := b.another().Retry(context.Background(), order)
		b.wantPublishError(err, entity.Retrying, entity.NetworkTimeout)
		if err := <-first; !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("Retry of the stopped process = %v, want unavailable", err)
		}
		b.wantSent(orders, id)
	}))
}
