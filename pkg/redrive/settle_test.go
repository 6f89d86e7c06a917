package redrive

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// crash leaves a claim behind as a process does that dies between publish and
// result; written says whether its record is in the log.
func (b *bench) crash(id uuid.UUID, written bool) {
	b.Helper()
	b.crashIn(entity.RetryOrder{ID: id, Cause: entity.By("tester")}, written)
}

// crashIn is crash while an order is carried out.
func (b *bench) crashIn(order entity.RetryOrder, written bool) {
	b.Helper()
	planned, err := b.planOne(context.Background(), order)
	if err != nil {
		b.Fatalf("plan: %v", err)
	}
	taken, err := b.claim(context.Background(), []entity.Outgoing{planned}, claiming{cause: order.Cause, single: true})
	if err != nil || len(taken.outgoing) != 1 {
		b.Fatalf("claim = %v, %v, want one", taken, err)
	}
	if written {
		b.publish(context.Background(), taken)
	}
}

func (b *bench) afterExpiry() {
	b.Helper()
	<-time.After(b.cfg.ClaimExpiry) // the bubble's time
	if err := b.Settle(context.Background()); err != nil {
		b.Errorf("Settle = %v, want nil", err)
	}
}

// wantFound checks that the message was resolved by what the log held.
func (b *bench) wantFound(id uuid.UUID) {
	b.Helper()
	b.wantState(id, entity.Resolved, 1, "")
	history, err := b.store.History(context.Background(), id)
	if err != nil || len(history) != 1 || history[0].Class != entity.AlreadyPublished {
		b.Errorf("History = %+v, %v, want one attempt with ALREADY_PUBLISHED", history, err)
	}
}

func inDoubt(class entity.ErrorClass) entity.Delivery {
	return entity.Delivery{Verdict: entity.InDoubt, Class: class, Err: errBroken}
}

func TestSettle(t *testing.T) {
	t.Parallel()

	t.Run("CrashAfterPublishIsResolvedOnce", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, true)
		b.afterExpiry()
		b.wantFound(id)
		b.wantNotRetryable(b.retry(id), "message is not retryable: status=RESOLVED, retry_count=1/3")
		b.wantSent(orders, id)
	}))

	t.Run("CrashBeforePublishIsGivenBack", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, false)
		b.afterExpiry()
		b.wantState(id, entity.Pending, 0, "")
		b.wantSent(orders)
	}))

	t.Run("ClaimNotesWhereItsRecordGoes", scenario(func(b *bench) {
		ids := b.add(2)
		b.retry(ids[0])
		b.crash(ids[1], false)
		got := b.get(ids[1]).Claim
		want := entity.Claim{ID: got.ID, ExpiresAt: got.ExpiresAt, Topic: orders, TopicID: "id of " + orders, EndOffset: 1}
		if got != want || got.ID == uuid.Nil {
			b.Errorf("claim = %+v, want %+v", got, want)
		}
		<-time.After(b.cfg.ClaimExpiry)
		var asked entity.Claim
		b.kafka.find = func(c entity.Claim) *entity.Delivery { asked = c; return nil }
		if err := b.Settle(context.Background()); err != nil || asked != want {
			b.Errorf("Settle asked for %+v, %v, want %+v", asked, err, want)
		}
	}))

	t.Run("LiveClaimIsLeftAlone", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, false)
		if err := b.Settle(context.Background()); err != nil {
			b.Errorf("Settle = %v, want nil", err)
		}
		b.wantState(id, entity.Retrying, 1, "")
		b.wantNotRetryable(b.retry(id), "message is not retryable: status=RETRYING, retry_count=1/3")
	}))

	t.Run("DoubtThatWasWrittenIsResolved", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.kafka.deliver = always(inDoubt(entity.NetworkTimeout), true)
		failed := b.wantPublishError(b.retry(id), entity.Retrying, entity.NetworkTimeout)
		if got := time.Until(failed.RetryAt); got != b.cfg.ClaimExpiry {
			b.Errorf("settled in %s, want %s", got, b.cfg.ClaimExpiry)
		}
		b.afterExpiry()
		b.wantFound(id)
		b.wantSent(orders, id)
	}))

	t.Run("DoubtThatWasNotWrittenHasFailed", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.kafka.deliver = always(inDoubt(entity.NetworkTimeout), false)
		b.wantPublishError(b.retry(id), entity.Retrying, entity.NetworkTimeout)
		b.afterExpiry()
		b.wantState(id, entity.Pending, 1, entity.NetworkTimeout)
	}))

	t.Run("TenRescuesInARowAreDead", scenario(func(b *bench) {
		id := b.add(1)[0]
		for range 10 {
			b.crash(id, false)
			b.afterExpiry()
		}
		if got := b.get(id).Status; got != entity.Dead {
			b.Errorf("status = %s, want DEAD", got)
		}
		b.wantDeadLines(1)
	}))

	t.Run("UnreadableNowIsTriedAgain", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, true)
		unreadable := inDoubt(entity.BrokerUnavailable)
		b.kafka.find = func(entity.Claim) *entity.Delivery { return &unreadable }
		<-time.After(b.cfg.ClaimExpiry)
		if err := b.Settle(context.Background()); !errors.Is(err, errBroken) {
			b.Errorf("Settle = %v, want %v", err, errBroken)
		}
		if err := b.retry(id); !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("Retry = %v, want unavailable", err)
		}
		b.kafka.find = nil
		b.afterExpiry()
		b.wantFound(id)
	}))

	t.Run("UnsettleableWaitsForAnOperator", scenario(func(b *bench) {
		id := b.unsettleable()
		for range 3 {
			b.afterExpiry()
		}
		b.wantState(id, entity.Retrying, 1, entity.UnknownClass)
		var claimed *entity.ClaimedError
		if err := b.retry(id); !errors.As(err, &claimed) || !claimed.Unsettled {
			b.Errorf("Retry = %v, want it to name the ways out", err)
		}
		if got := b.logs.FilterMessageSnippet("an operator must decide").Len(); got != 1 {
			b.Errorf("lines about it = %d, want 1", got)
		}
	}))

	t.Run("AcceptedDuplicateIsSentAgain", scenario(func(b *bench) {
		id := b.unsettleable()
		if _, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, AcceptDuplicate: true, Cause: entity.By("alice")}); err != nil {
			b.Errorf("Retry = %v, want nil", err)
		}
		b.wantState(id, entity.Resolved, 2, "")
		b.wantSent(orders, id, id)
	}))

	t.Run("AcceptedDuplicateSettlesWhereItCan", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, true)
		<-time.After(b.cfg.ClaimExpiry)
		if _, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, AcceptDuplicate: true, Cause: entity.By("alice")}); err != nil {
			b.Errorf("Retry = %v, want nil", err)
		}
		b.wantSent(orders, id)
	}))

	t.Run("AcceptedDuplicateNeverTakesALiveClaim", scenario(func(b *bench) {
		id := b.add(1, func(m *entity.Message) { m.LastPublishErrorClass = entity.UnknownClass })[0]
		b.crash(id, false)
		_, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, AcceptDuplicate: true, Cause: entity.By("alice")})
		b.wantNotRetryable(err, "message is not retryable: status=RETRYING, retry_count=1/3")
		b.wantSent(orders)
	}))
}

// TestOperatorsSettleFirst: nobody may end an attempt by hand before the target
// log was asked whether its record is there.
func TestOperatorsSettleFirst(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("DeadOfAPublishedRecordIsRefused", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, true)
		<-time.After(b.cfg.ClaimExpiry)
		var refused *entity.TransitionError
		if _, err := b.GiveUp(ctx, id, entity.By("alice")); !errors.As(err, &refused) {
			b.Errorf("GiveUp = %v, want the record to be found and the message RESOLVED", err)
		}
		b.wantFound(id)
	}))

	t.Run("DeadOfWhatWasNeverSent", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, false)
		<-time.After(b.cfg.ClaimExpiry)
		if m, err := b.GiveUp(ctx, id, entity.By("alice")); err != nil || m.Status != entity.Dead {
			b.Errorf("GiveUp = %s, %v, want DEAD", m.Status, err)
		}
	}))

	t.Run("DeadWhileTheLogCannotBeRead", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, true)
		unreadable := inDoubt(entity.BrokerUnavailable)
		b.kafka.find = func(entity.Claim) *entity.Delivery { return &unreadable }
		<-time.After(b.cfg.ClaimExpiry)
		if _, err := b.GiveUp(ctx, id, entity.By("alice")); !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("GiveUp = %v, want unavailable", err)
		}
		if err := b.Delete(ctx, id, entity.By("alice")); !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("Delete = %v, want unavailable", err)
		}
	}))

	t.Run("ALiveClaimIsLeftAlone", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, true)
		var claimed *entity.ClaimedError
		if _, err := b.GiveUp(ctx, id, entity.By("alice")); !errors.As(err, &claimed) || claimed.Unsettled {
			b.Errorf("GiveUp = %v, want the claim named", err)
		}
		if err := b.Delete(ctx, id, entity.By("alice")); !errors.As(err, &claimed) || claimed.Unsettled {
			b.Errorf("Delete = %v, want the claim named", err)
		}
	}))

	t.Run("DeleteOfWhatWasPublished", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, true)
		<-time.After(b.cfg.ClaimExpiry)
		if err := b.Delete(ctx, id, entity.By("alice")); err != nil {
			b.Errorf("Delete = %v, want it settled and gone", err)
		}
	}))

	t.Run("UnsettledIsDeadOnRequestAndNotDeleted", scenario(func(b *bench) {
		id := b.unsettleable()
		var claimed *entity.ClaimedError
		if err := b.Delete(ctx, id, entity.By("alice")); !errors.As(err, &claimed) || !claimed.Unsettled {
			b.Errorf("Delete = %v, want it to name the ways out", err)
		}
		if m, err := b.GiveUp(ctx, id, entity.By("alice")); err != nil || m.Status != entity.Dead {
			b.Errorf("GiveUp = %s, %v, want DEAD", m.Status, err)
		}
	}))

	t.Run("AcceptedDuplicateAtTheLimit", scenario(func(b *bench) {
		id := b.unsettleable(func(m *entity.Message) { m.MaxRetries = 1 })
		if _, err := b.Retry(ctx, entity.RetryOrder{ID: id, AcceptDuplicate: true, Cause: entity.By("alice")}); err != nil {
			b.Errorf("Retry = %v, want nil", err)
		}
		b.wantSent(orders, id, id)
	}))
}

// TestSettleGetsPastWhatItCannotRead: claims whose log cannot be read now do not
// starve those behind them.
func TestSettleGetsPastWhatItCannotRead(t *testing.T) {
	t.Parallel()
	t.Run("", scenario(func(b *bench) {
		ids := b.add(settleLimit + 3)
		for _, id := range ids {
			b.crash(id, false)
		}
		stuck := map[string]bool{}
		for _, id := range ids[:settleLimit] {
			stuck[b.get(id).Claim.ID.String()] = true
		}
		unreadable := inDoubt(entity.BrokerUnavailable)
		b.kafka.find = func(c entity.Claim) *entity.Delivery {
			if stuck[c.ID.String()] {
				return &unreadable
			}
			return nil
		}
		<-time.After(b.cfg.ClaimExpiry)
		if err := b.Settle(context.Background()); !errors.Is(err, errBroken) {
			b.Errorf("Settle = %v, want %v", err, errBroken)
		}
		for _, id := range ids[settleLimit:] {
			b.wantState(id, entity.Pending, 0, "")
		}
		if err := b.retry(ids[settleLimit-1]); !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("Retry = %v, want unavailable", err)
		}
	}))
}

// unsettleable is a message whose record was written by a process that died,
// and whose target log no longer tells.
func (b *bench) unsettleable(changes ...func(*entity.Message)) uuid.UUID {
	b.Helper()
	id := b.add(1, changes...)[0]
	b.crash(id, true)
	lost := inDoubt(entity.UnknownClass)
	b.kafka.find = func(entity.Claim) *entity.Delivery { return &lost }
	b.afterExpiry()
	return id
}

func TestRetryOfAnAbandonedAttempt(t *testing.T) {
	t.Parallel()

	t.Run("PublishedIsAnsweredWithoutSending", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, true)
		<-time.After(b.cfg.ClaimExpiry)
		if err := b.retry(id); err != nil {
			b.Errorf("Retry = %v, want nil", err)
		}
		b.wantFound(id)
		b.wantSent(orders, id)
	}))

	t.Run("UnpublishedIsSent", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, false)
		<-time.After(b.cfg.ClaimExpiry)
		if err := b.retry(id); err != nil {
			b.Errorf("Retry = %v, want nil", err)
		}
		b.wantState(id, entity.Resolved, 1, "")
		b.wantSent(orders, id)
	}))
}

func TestFinishSurvivesTheStore(t *testing.T) {
	t.Parallel()

	t.Run("ShortOutageIsWaitedFor", scenario(func(b *bench) {
		id := b.add(1)[0]
		back := time.Now().Add(10 * time.Second)
		b.store.finish = func() error {
			if time.Now().Before(back) {
				return entity.ErrUnavailable
			}
			return nil
		}
		if err := b.retry(id); err != nil {
			b.Errorf("Retry = %v, want nil", err)
		}
		b.wantState(id, entity.Resolved, 1, "")
	}))

	t.Run("LongOutageIsUnavailableAndSettledLater", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.store.finish = func() error { return entity.ErrUnavailable }
		began := time.Now()
		if err := b.retry(id); !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("Retry = %v, want unavailable", err)
		}
		if took := time.Since(began); took > b.cfg.finishWindow() {
			b.Errorf("gave up after %s, want at most %s", took, b.cfg.finishWindow())
		}
		b.store.finish = nil
		b.afterExpiry()
		b.wantFound(id)
		b.wantSent(orders, id)
	}))
}

func TestSilentStore(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	cases := map[string]func(b *bench, id uuid.UUID) error{
		"Get":     func(b *bench, id uuid.UUID) error { return b.retry(id) },
		"Load":    func(b *bench, id uuid.UUID) error { return b.retry(id) },
		"Expired": func(b *bench, _ uuid.UUID) error { return b.Settle(ctx) },
	}
	for method, call := range cases {
		t.Run(method, scenario(func(b *bench) {
			id := b.add(1, func(m *entity.Message) { // too large to be read with its state
				m.Record.Value, m.Record.Size = make([]byte, largeRetry), largeRetry
			})[0]
			b.store.hang = method
			if err := call(b, id); !errors.Is(err, entity.ErrUnavailable) {
				b.Errorf("error = %v, want unavailable", err)
			}
			b.store.hang = ""
			b.wantState(id, entity.Pending, 0, "")
		}))
	}
}

func TestRunSettler(t *testing.T) {
	t.Parallel()
	t.Run("SettlesUntilItIsStopped", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, true)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); b.RunSettler(ctx) }()
		<-time.After(b.cfg.ClaimExpiry + 2*b.cfg.SettleInterval)
		b.wantFound(id)
		stop()
		<-done
	}))

	t.Run("IsNotHeldUpByADeafStore", scenario(func(b *bench) {
		b.store.deaf = make(chan struct{})
		defer close(b.store.deaf) // the bubble ends when nobody waits
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); b.RunSettler(ctx) }()
		<-time.After(2 * b.cfg.SettleInterval)
		stop()
		stopped := time.Now()
		<-done
		if took := time.Since(stopped); took != settleGrace {
			b.Errorf("RunSettler returned after %s, want %s", took, settleGrace)
		}
	}))

	t.Run("ReturnsAtOnceWhenIdle", scenario(func(b *bench) {
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() { defer close(done); b.RunSettler(ctx) }()
		<-time.After(time.Second)
		stop()
		stopped := time.Now()
		<-done
		if took := time.Since(stopped); took != 0 {
			b.Errorf("RunSettler returned after %s, want at once", took)
		}
	}))
}
