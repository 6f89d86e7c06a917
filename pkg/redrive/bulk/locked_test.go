package bulk

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/bulk/internal/reach"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// failElsewhere unlocks all messages and stores a failed attempt on this one, as if the session that held the lock had
// made the attempt.
func (b *bench) failElsewhere(id uuid.UUID) {
	b.Helper()
	b.Store.Locks = nil
	b.Kafka.Deliver = always(failure(entity.RateLimited), false)
	b.WantPublishError(b.retry(id), entity.Pending, entity.RateLimited)
	b.Kafka.Deliver = nil
}

// TestLockedRows: when another session locks a message but makes no attempt on it, the redrive waits for the lock and
// then sends the message. The redrive skips a message on which the other session made an attempt.
func TestLockedRows(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	alice := entity.By("alice")

	t.Run("AreAttemptedOnceTheLockEnds", scenario(func(b *bench) {
		ids := b.Add(20)
		b.Lock(ids...)
		time.AfterFunc(1500*time.Millisecond, b.Unlock)
		report := b.wantAll(counted{Selected: 20, Succeeded: 20})
		b.WantSent(orders, ids...)
		check.True(b, report.WaitingSince.IsZero(), "finished redrive waits since %s, want no wait", report.WaitingSince)
	}))

	t.Run("DoNotHoldUpOthers", scenario(func(b *bench) {
		held := b.Add(batchMessages)
		free := b.Add(2 * batchMessages)
		b.Lock(append(held[1:], free[0])...)
		defer b.carry()()
		r := b.begin()
		elapse(leaderTimeout)
		b.wantCounts(b.look(r.ID), counted{Selected: 3 * batchMessages, Succeeded: 2 * batchMessages, Waiting: batchMessages})
		check.True(b, !b.look(r.ID).WaitingSince.IsZero(), "redrive with nothing left but locked messages does not wait")
		b.Unlock()
		b.wantEnd(r.ID, counted{Selected: 3 * batchMessages, Succeeded: 3 * batchMessages})
		b.wantEachOnce(append(held, free...))
	}))

	t.Run("ManyBatchesOfThemDoNotHoldUpOthers", scenario(func(b *bench) {
		held := b.Add((reach.MaxUnreachableBatches + 5) * batchMessages)
		free := b.Add(3)
		b.Lock(held...)
		defer b.carry()()
		r := b.begin()
		elapse(leaderTimeout)
		b.WantSent(orders, free...)
		b.wantCounts(b.look(r.ID), counted{Selected: len(held) + 3, Succeeded: 3, Waiting: len(held)})
	}))

	t.Run("WaitIsUnavailableAfterItsPatienceAndTheRedriveGoesOn", scenario(func(b *bench) {
		ids := b.Add(20)
		b.Lock(ids...)
		defer b.carry()()
		r := b.begin()
		began := time.Now()
		_, err := b.Wait(ctx, r.ID)
		b.wantInterrupted(r, err)
		interrupted := check.As[*entity.InterruptedError](b, err, "Wait")
		waited := time.Since(began)
		check.True(b, waited >= waitTimeout && waited <= waitTimeout+5*time.Second, "waited %s, want a little over %s", waited, waitTimeout)
		b.wantCounts(interrupted.Redrive, counted{Selected: 20, Waiting: 20})
		b.wantRedrive(r.ID, entity.RedriveRunning, errLocked.Error())
		b.Unlock()
		b.wantEnd(r.ID, counted{Selected: 20, Succeeded: 20})
	}))

	t.Run("CanBeLeftByCancellingAndPausing", scenario(func(b *bench) {
		ids := b.Add(20)
		b.Lock(ids...)
		defer b.carry()()
		r := b.begin()
		elapse(time.Minute)
		check.Must(b.Pause(ctx, r.ID, alice))(b)
		elapse(time.Minute)
		if paused := b.wantRedrive(r.ID, entity.RedrivePaused, ""); paused.Counts.UnderWay != 0 || !paused.WaitingSince.IsZero() {
			b.Errorf("paused redrive has %d under way and waits since %s, want neither", paused.Counts.UnderWay, paused.WaitingSince)
		}
		check.Must(b.Cancel(ctx, r.ID, alice))(b)
		got, err := b.Wait(ctx, r.ID)
		check.True(b, err == nil && got.State == entity.RedriveCancelled && got.Counts.Waiting == 20,
			"redrive = %s with %d waiting, %v, want cancelled with 20", got.State, got.Counts.Waiting, err)
		b.Unlock()
		elapse(time.Minute)
		b.WantSent(orders)
	}))

	t.Run("AreHandedOverWithTheRedrive", scenario(func(b *bench) {
		ids := b.Add(20)
		b.Lock(ids...)
		r := b.begin()
		drain := b.carry()
		elapse(10 * time.Second)
		drain()
		other := b.another()
		defer other.carry()()
		elapse(10 * time.Second)
		b.Unlock()
		other.wantEnd(r.ID, counted{Selected: 20, Succeeded: 20})
		b.wantEachOnce(ids)
	}))

	t.Run("KeepTheOrderOfKeys", scenario(func(b *bench) {
		ids := b.Add(3, keyed("k"))
		others := b.Add(2)
		b.Lock(ids[0])
		defer b.carry()()
		r := b.begin(options(func(o *entity.RedriveOptions) { o.KeepKeyOrder = true }))
		elapse(10 * time.Second)
		b.WantSent(orders, others...)
		b.Unlock()
		b.wantEnd(r.ID, counted{Selected: 5, Succeeded: 5})
		b.WantSent(orders, append(others, ids...)...)
	}))

	t.Run("AreTakenWhenAnotherAttemptWasTheReason", scenario(func(b *bench) {
		ids := b.Add(2)
		b.Lock(ids...)
		defer b.carry()()
		r := b.begin()
		elapse(10 * time.Second)
		b.failElsewhere(ids[0])
		b.wantEnd(r.ID, counted{Selected: 2, Succeeded: 1, Skipped: 1, Reasons: reasons{repository.SkippedTaken: 1}})
		b.WantSent(orders, ids[1])
	}))
	t.Run("AreNotTakenByAnAttemptOfTheirRedriveThatWasGivenBack", scenario(func(b *bench) {
		ids := b.Add(2)
		b.Lock(ids...)
		drain := b.carry()
		r := b.begin()
		elapse(10 * time.Second)
		other := b.another() // a process that attempts the messages while the first process finds them locked
		b.Unlock()
		b.Kafka.Set(func() { b.Kafka.Deliver = always(entity.Delivery{Verdict: entity.GivenBack, Err: errBroken}, false) })
		drainOther := other.carry()
		elapse(time.Second)
		drainOther()
		b.Kafka.Set(func() { b.Kafka.Deliver = nil })
		b.wantEnd(r.ID, counted{Selected: 2, Succeeded: 2})
		b.wantEachOnce(ids)
		drain()
	}))

	t.Run("HoldBackTheirKeyWhenTheyAreTaken", scenario(func(b *bench) {
		ids := b.Add(2, keyed("k"))
		b.Lock(ids[0])
		defer b.carry()()
		r := b.begin(options(func(o *entity.RedriveOptions) { o.KeepKeyOrder = true }))
		elapse(10 * time.Second)
		b.failElsewhere(ids[0])
		b.wantEnd(r.ID, counted{Selected: 2, Skipped: 2, Reasons: reasons{repository.SkippedTaken: 1, SkippedKeyBlocked: 1}})
		b.WantSent(orders)
	}))
}
