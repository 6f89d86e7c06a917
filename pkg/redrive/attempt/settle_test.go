package attempt

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// crash stores the claim of a process that dies before it stores the result. written says whether the process has
// written the record to the log.
func (b *bench) crash(id uuid.UUID, written bool) {
	b.Helper()
	b.crashIn(entity.RetryOrder{ID: id, Cause: entity.By("tester")}, written)
}

// crashIn stores the claim of a process that dies while it carries out the order. written says whether the attempt's
// record is in the log.
func (b *bench) crashIn(order entity.RetryOrder, written bool) {
	b.Helper()
	planned := check.Must(b.planOne(context.Background(), order))(b)
	taken, err := b.Claim(context.Background(), []entity.Outgoing{planned}, ClaimOptions{Cause: order.Cause, single: true})
	check.Require(b, err == nil && len(taken.Outgoing) == 1, "claim = %v, %v, want one", taken, err)
	if written {
		b.Publish(context.Background(), taken)
	}
}

// crashed stores a message whose claim belongs to a dead process. The parameter written says whether the process has
// written the message's record to the log.
func (b *bench) crashed(written bool) uuid.UUID {
	b.Helper()
	id := b.Add(1)[0]
	b.crash(id, written)
	return id
}

// abandoned adds a message with an expired claim of a dead process. written says whether the attempt's record is in the
// log.
func (b *bench) abandoned(written bool) uuid.UUID {
	b.Helper()
	defer elapse(b.cfg.ClaimExpiry)
	return b.crashed(written)
}

func (b *bench) giveUp(id uuid.UUID) error {
	return check.Err(b.MarkDead(context.Background(), id, entity.By("alice")))
}

func (b *bench) delete(id uuid.UUID) error {
	return b.Delete(context.Background(), id, entity.By("alice"))
}

func (b *bench) afterExpiry() {
	b.Helper()
	<-time.After(b.cfg.ClaimExpiry) // the fake clock of the synctest bubble jumps forward
	check.Equal(b, b.Settle(context.Background()), nil, "Settle")
}

// wantFound checks that the message was resolved because its record is in the log.
func (b *bench) wantFound(id uuid.UUID) {
	b.Helper()
	b.WantState(id, entity.Resolved, 1, "")
	history, err := b.Store.History(context.Background(), id)
	check.True(b, err == nil && len(history) == 1 && history[0].Class == entity.AlreadyPublished,
		"History = %+v, %v, want one attempt with ALREADY_PUBLISHED", history, err)
}

func TestSettle(t *testing.T) {
	t.Parallel()

	t.Run("CrashAfterPublishIsResolvedOnce", scenario(func(b *bench) {
		id := b.crashed(true)
		b.afterExpiry()
		b.wantFound(id)
		b.wantNotRetryable(b.retry(id), "message is not retryable: status=RESOLVED, retry_count=1/3")
		b.WantSent(orders, id)
	}))

	t.Run("CrashBeforePublishIsGivenBack", scenario(func(b *bench) {
		id := b.crashed(false)
		b.afterExpiry()
		b.WantState(id, entity.Pending, 0, "")
		b.WantSent(orders)
	}))

	t.Run("ClaimNotesWhereItsRecordGoes", scenario(func(b *bench) {
		ids := b.Add(2)
		b.retry(ids[0])
		b.crash(ids[1], false)
		got := b.Get(ids[1]).Claim
		want := entity.Claim{ID: got.ID, ExpiresAt: got.ExpiresAt, Topic: orders, TopicID: "id of " + orders, EndOffset: 1}
		check.True(b, got == want && got.ID != uuid.Nil, "claim = %+v, want %+v", got, want)
		elapse(b.cfg.ClaimExpiry)
		var asked entity.Claim
		b.Kafka.Find = func(c entity.Claim) *entity.Delivery { asked = c; return nil }
		err := b.Settle(context.Background())
		check.True(b, err == nil && asked == want, "Settle asked for %+v, %v, want %+v", asked, err, want)
	}))

	t.Run("LiveClaimIsLeftAlone", scenario(func(b *bench) {
		id := b.crashed(false)
		check.Equal(b, b.Settle(context.Background()), nil, "Settle")
		b.WantState(id, entity.Retrying, 1, "")
		b.wantNotRetryable(b.retry(id), "message is not retryable: status=RETRYING, retry_count=1/3")
	}))

	t.Run("DoubtThatWasWrittenIsResolved", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Kafka.Deliver = always(inDoubt(entity.NetworkTimeout), true)
		failed := b.WantPublishError(b.retry(id), entity.Retrying, entity.NetworkTimeout)
		check.Equal(b, time.Until(failed.RetryAt), b.cfg.ClaimExpiry, "time to the settling")
		b.afterExpiry()
		b.wantFound(id)
		b.WantSent(orders, id)
	}))

	t.Run("DoubtThatWasNotWrittenHasFailed", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Kafka.Deliver = always(inDoubt(entity.NetworkTimeout), false)
		b.WantPublishError(b.retry(id), entity.Retrying, entity.NetworkTimeout)
		b.afterExpiry()
		b.WantState(id, entity.Pending, 1, entity.NetworkTimeout)
	}))

	t.Run("TenRescuesInARowAreDead", scenario(func(b *bench) {
		id := b.Add(1)[0]
		for range 10 {
			b.crash(id, false)
			b.afterExpiry()
		}
		check.Equal(b, b.Get(id).Status, entity.Dead, "status")
		b.WantDeadLines(1)
	}))

	t.Run("UnreadableNowIsTriedAgain", scenario(func(b *bench) {
		id := b.crashed(true)
		b.Kafka.Find = finding(inDoubt(entity.BrokerUnavailable))
		elapse(b.cfg.ClaimExpiry)
		check.Is(b, b.Settle(context.Background()), errBroken, "Settle")
		check.Is(b, b.retry(id), entity.ErrUnavailable, "Retry")
		b.Kafka.Find = nil
		b.afterExpiry()
		b.wantFound(id)
	}))

	t.Run("UnsettleableWaitsForAnOperator", scenario(func(b *bench) {
		id := b.unsettleable()
		for range 3 {
			b.afterExpiry()
		}
		b.WantState(id, entity.Retrying, 1, entity.UnknownClass)
		check.Equal(b, check.As[*entity.ClaimedError](b, b.retry(id), "Retry").Unsettled, true, "the ways out are named")
		check.Equal(b, b.Logs.FilterMessageSnippet("an operator must decide").Len(), 1, "lines about it")
	}))

	t.Run("AcceptedDuplicateIsSentAgain", scenario(func(b *bench) {
		id := b.unsettleable()
		check.Must(b.Retry(context.Background(), entity.RetryOrder{ID: id, AcceptDuplicate: true, Cause: entity.By("alice")}))(b)
		b.WantState(id, entity.Resolved, 2, "")
		b.WantSent(orders, id, id)
	}))

	t.Run("AcceptedDuplicateSettlesWhereItCan", scenario(func(b *bench) {
		id := b.abandoned(true)
		check.Must(b.Retry(context.Background(), entity.RetryOrder{ID: id, AcceptDuplicate: true, Cause: entity.By("alice")}))(b)
		b.WantSent(orders, id)
	}))

	t.Run("AcceptedDuplicateNeverTakesALiveClaim", scenario(func(b *bench) {
		id := b.Add(1, func(m *entity.Message) { m.LastPublishErrorClass = entity.UnknownClass })[0]
		b.crash(id, false)
		_, err := b.Retry(context.Background(), entity.RetryOrder{ID: id, AcceptDuplicate: true, Cause: entity.By("alice")})
		b.wantNotRetryable(err, "message is not retryable: status=RETRYING, retry_count=1/3")
		b.WantSent(orders)
	}))
}

// TestOperatorsSettleFirst: an operator's request does not end an attempt before the settler has searched the target's
// log for its record.
func TestOperatorsSettleFirst(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("DeadOfAPublishedRecordIsRefused", scenario(func(b *bench) {
		id := b.abandoned(true)
		check.As[*entity.TransitionError](b, b.giveUp(id), "GiveUp")
		b.wantFound(id)
	}))

	t.Run("DeadOfWhatWasNeverSent", scenario(func(b *bench) {
		id := b.abandoned(false)
		m, err := b.MarkDead(ctx, id, entity.By("alice"))
		check.True(b, err == nil && m.Status == entity.Dead, "GiveUp = %s, %v, want DEAD", m.Status, err)
	}))

	t.Run("DeadWhileTheLogCannotBeRead", scenario(func(b *bench) {
		id := b.crashed(true)
		b.Kafka.Find = finding(inDoubt(entity.BrokerUnavailable))
		elapse(b.cfg.ClaimExpiry)
		check.Is(b, b.giveUp(id), entity.ErrUnavailable, "GiveUp")
		check.Is(b, b.delete(id), entity.ErrUnavailable, "Delete")
	}))

	t.Run("ALiveClaimIsLeftAlone", scenario(func(b *bench) {
		id := b.crashed(true)
		check.Equal(b, check.As[*entity.ClaimedError](b, b.giveUp(id), "GiveUp").Unsettled, false, "unsettled")
		check.Equal(b, check.As[*entity.ClaimedError](b, b.delete(id), "Delete").Unsettled, false, "unsettled")
	}))

	t.Run("DeleteOfWhatWasPublished", scenario(func(b *bench) {
		id := b.abandoned(true)
		check.Equal(b, b.delete(id), nil, "Delete")
	}))

	t.Run("UnsettledIsDeadOnRequestAndNotDeleted", scenario(func(b *bench) {
		id := b.unsettleable()
		check.Equal(b, check.As[*entity.ClaimedError](b, b.delete(id), "Delete").Unsettled, true, "the ways out are named")
		m, err := b.MarkDead(ctx, id, entity.By("alice"))
		check.True(b, err == nil && m.Status == entity.Dead, "GiveUp = %s, %v, want DEAD", m.Status, err)
	}))

	t.Run("AcceptedDuplicateAtTheLimit", scenario(func(b *bench) {
		id := b.unsettleable(func(m *entity.Message) { m.MaxRetries = 1 })
		check.Must(b.Retry(ctx, entity.RetryOrder{ID: id, AcceptDuplicate: true, Cause: entity.By("alice")}))(b)
		b.WantSent(orders, id, id)
	}))
}

// TestSettleGetsPastWhatItCannotRead: claims whose target partition cannot be read now do not keep the settler from
// settling the claims after them.
func TestSettleGetsPastWhatItCannotRead(t *testing.T) {
	t.Parallel()
	t.Run("", scenario(func(b *bench) {
		ids := b.Add(settleLimit + 3)
		for _, id := range ids {
			b.crash(id, false)
		}
		stuck := map[string]bool{}
		for _, id := range ids[:settleLimit] {
			stuck[b.Get(id).Claim.ID.String()] = true
		}
		unreadable := inDoubt(entity.BrokerUnavailable)
		b.Kafka.Find = func(c entity.Claim) *entity.Delivery {
			if stuck[c.ID.String()] {
				return &unreadable
			}
			return nil
		}
		elapse(b.cfg.ClaimExpiry)
		check.Is(b, b.Settle(context.Background()), errBroken, "Settle")
		for _, id := range ids[settleLimit:] {
			b.WantState(id, entity.Pending, 0, "")
		}
		check.Is(b, b.retry(ids[settleLimit-1]), entity.ErrUnavailable, "Retry")
	}))
}

// unsettleable adds a message whose process died after it wrote the record, and whose target log, says the fake Kafka,
// no longer has the record.
func (b *bench) unsettleable(changes ...func(*entity.Message)) uuid.UUID {
	b.Helper()
	id := b.Add(1, changes...)[0]
	b.crash(id, true)
	b.Kafka.Find = finding(inDoubt(entity.UnknownClass))
	b.afterExpiry()
	return id
}

func TestRetryOfAnAbandonedAttempt(t *testing.T) {
	t.Parallel()

	t.Run("PublishedIsAnsweredWithoutSending", scenario(func(b *bench) {
		id := b.abandoned(true)
		check.Equal(b, b.retry(id), nil, "Retry")
		b.wantFound(id)
		b.WantSent(orders, id)
	}))

	t.Run("UnpublishedIsSent", scenario(func(b *bench) {
		id := b.abandoned(false)
		check.Equal(b, b.retry(id), nil, "Retry")
		b.WantState(id, entity.Resolved, 1, "")
		b.WantSent(orders, id)
	}))
}

func TestFinishSurvivesTheStore(t *testing.T) {
	t.Parallel()

	t.Run("ShortOutageIsWaitedFor", scenario(func(b *bench) {
		id := b.Add(1)[0]
		back := time.Now().Add(10 * time.Second)
		b.Store.OnFinish = func() error {
			if time.Now().Before(back) {
				return entity.ErrUnavailable
			}
			return nil
		}
		check.Equal(b, b.retry(id), nil, "Retry")
		b.WantState(id, entity.Resolved, 1, "")
	}))

	t.Run("LongOutageIsUnavailableAndSettledLater", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Store.OnFinish = func() error { return entity.ErrUnavailable }
		began := time.Now()
		check.Is(b, b.retry(id), entity.ErrUnavailable, "Retry")
		took := time.Since(began)
		check.True(b, took <= b.cfg.finishWindow(), "gave up after %s, want at most %s", took, b.cfg.finishWindow())
		b.Store.OnFinish = nil
		b.afterExpiry()
		b.wantFound(id)
		b.WantSent(orders, id)
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
			id := b.Add(1, func(m *entity.Message) { // a message that is read without its value, because the value is large
				m.Record.Value, m.Record.Size = make([]byte, largeRetry), largeRetry
			})[0]
			b.Store.Hang = method
			check.Is(b, call(b, id), entity.ErrUnavailable, "error")
			b.Store.Hang = ""
			b.WantState(id, entity.Pending, 0, "")
		}))
	}
}

// settler runs the settler until stop is called; stop returns how long the settler needed to end.
func (b *bench) settler() (stop func() time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	return func() time.Duration {
		stopped := time.Now()
		cancel()
		<-done
		return time.Since(stopped)
	}
}

func TestRunSettler(t *testing.T) {
	t.Parallel()
	t.Run("SettlesUntilItIsStopped", scenario(func(b *bench) {
		id := b.crashed(true)
		stop := b.settler()
		<-time.After(b.cfg.ClaimExpiry + 2*b.cfg.SettleInterval)
		b.wantFound(id)
		stop()
	}))

	t.Run("IsNotHeldUpByADeafStore", scenario(func(b *bench) {
		b.Store.Deaf = make(chan struct{})
		// the settler's goroutine waits for this channel, and synctest.Test waits for that goroutine
		defer close(b.Store.Deaf)
		stop := b.settler()
		<-time.After(2 * b.cfg.SettleInterval)
		check.Equal(b, stop(), settleGrace, "time until RunSettler returned")
	}))

	t.Run("ReturnsAtOnceWhenIdle", scenario(func(b *bench) {
		stop := b.settler()
		<-time.After(time.Second)
		check.Equal(b, stop(), 0, "time until RunSettler returned")
	}))
}
