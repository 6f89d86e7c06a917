package redrive

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// rowLocks are rows that another database session locks: claims that do not wait leave them out.
type rowLocks struct {
	mu  sync.Mutex
	ids map[uuid.UUID]bool
}

// lock makes a session lock these rows, and no others.
func (l *rowLocks) lock(ids ...uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		l.ids[id] = true
	}
}

func (l *rowLocks) unlocked(claims []repository.Claim) []repository.Claim {
	if l == nil {
		return claims
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(claims), func(c repository.Claim) bool { return l.ids[c.MessageID] })
}

// lock makes another session lock the rows of messages.
func (b *bench) lock(ids ...uuid.UUID) {
	if b.store.locks == nil {
		b.store.locks = &rowLocks{}
	}
	b.store.locks.lock(ids...)
}

func (b *bench) unlock() { b.lock() }

// failElsewhere makes the session that locks a message make a failing attempt and unlock.
func (b *bench) failElsewhere(id uuid.UUID) {
	b.Helper()
	b.store.locks = nil
	b.kafka.deliver = always(failure(entity.RateLimited), false)
	b.wantPublishError(b.retry(id), entity.Pending, entity.RateLimited)
	b.kafka.deliver = nil
}

// TestLockedRows: a message that another session only locks is attempted before its redrive ends.
func TestLockedRows(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	alice := entity.By("alice")

	t.Run("AreAttemptedOnceTheLockEnds", scenario(func(b *bench) {
		ids := b.add(20)
		b.lock(ids...)
		time.AfterFunc(1500*time.Millisecond, b.unlock)
		report := b.wantAll(counted{Selected: 20, Succeeded: 20})
		b.wantSent(orders, ids...)
		check.True(b, report.WaitingSince.IsZero(), "finished redrive waits since %s, want no wait", report.WaitingSince)
	}))

	t.Run("DoNotHoldUpOthers", scenario(func(b *bench) {
		held := b.add(batchMessages)
		free := b.add(2 * batchMessages)
		b.lock(append(held[1:], free[0])...)
		defer b.carry()()
		r := b.begin()
		elapse(leaderPatience)
		b.wantCounts(b.look(r.ID), counted{Selected: 3 * batchMessages, Succeeded: 2 * batchMessages, Waiting: batchMessages})
		check.True(b, !b.look(r.ID).WaitingSince.IsZero(), "redrive with nothing left but locked messages does not wait")
		b.unlock()
		b.wantEnd(r.ID, counted{Selected: 3 * batchMessages, Succeeded: 3 * batchMessages})
		b.wantEachOnce(append(held, free...))
	}))

	t.Run("ManyBatchesOfThemDoNotHoldUpOthers", scenario(func(b *bench) {
		held := b.add((strandedLimit + 5) * batchMessages)
		free := b.add(3)
		b.lock(held...)
		defer b.carry()()
		r := b.begin()
		elapse(leaderPatience)
		b.wantSent(orders, free...)
		b.wantCounts(b.look(r.ID), counted{Selected: len(held) + 3, Succeeded: 3, Waiting: len(held)})
	}))

	t.Run("WaitIsUnavailableAfterItsPatienceAndTheRedriveGoesOn", scenario(func(b *bench) {
		ids := b.add(20)
		b.lock(ids...)
		defer b.carry()()
		r := b.begin()
		began := time.Now()
		_, err := b.Wait(ctx, r.ID)
		b.wantInterrupted(r, err)
		interrupted := check.As[*entity.InterruptedError](b, err, "Wait")
		waited := time.Since(began)
		check.True(b, waited >= waitPatience && waited <= waitPatience+5*time.Second, "waited %s, want a little over %s", waited, waitPatience)
		b.wantCounts(interrupted.Redrive, counted{Selected: 20, Waiting: 20})
		b.wantRedrive(r.ID, entity.RedriveRunning, errLocked.Error())
		b.unlock()
		b.wantEnd(r.ID, counted{Selected: 20, Succeeded: 20})
	}))

	t.Run("CanBeLeftByCancellingAndPausing", scenario(func(b *bench) {
		ids := b.add(20)
		b.lock(ids...)
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
		b.unlock()
		elapse(time.Minute)
		b.wantSent(orders)
	}))

	t.Run("AreHandedOverWithTheRedrive", scenario(func(b *bench) {
		ids := b.add(20)
		b.lock(ids...)
		r := b.begin()
		drain := b.carry()
		elapse(10 * time.Second)
		drain()
		other := b.another()
		defer other.carry()()
		elapse(10 * time.Second)
		b.unlock()
		other.wantEnd(r.ID, counted{Selected: 20, Succeeded: 20})
		b.wantEachOnce(ids)
	}))

	t.Run("KeepTheOrderOfKeys", scenario(func(b *bench) {
		ids := b.add(3, keyed("k"))
		others := b.add(2)
		b.lock(ids[0])
		defer b.carry()()
		r := b.begin(options(func(o *entity.RedriveOptions) { o.KeepKeyOrder = true }))
		elapse(10 * time.Second)
		b.wantSent(orders, others...)
		b.unlock()
		b.wantEnd(r.ID, counted{Selected: 5, Succeeded: 5})
		b.wantSent(orders, append(others, ids...)...)
	}))

	t.Run("AreTakenWhenAnotherAttemptWasTheReason", scenario(func(b *bench) {
		ids := b.add(2)
		b.lock(ids...)
		defer b.carry()()
		r := b.begin()
		elapse(10 * time.Second)
		b.failElsewhere(ids[0])
		b.wantEnd(r.ID, counted{Selected: 2, Succeeded: 1, Skipped: 1, Reasons: reasons{repository.SkippedTaken: 1}})
		b.wantSent(orders, ids[1])
	}))
	t.Run("AreNotTakenByAnAttemptOfTheirRedriveThatWasGivenBack", scenario(func(b *bench) {
		ids := b.add(2)
		b.lock(ids...)
		drain := b.carry()
		r := b.begin()
		elapse(10 * time.Second)
		other := b.another() // it attempts them while the first process takes them for locked
		b.unlock()
		b.kafka.deliver = always(entity.Delivery{Verdict: entity.GivenBack, Err: errBroken}, false)
		drainOther := other.carry()
		elapse(time.Second)
		drainOther()
		b.kafka.deliver = nil
		b.wantEnd(r.ID, counted{Selected: 2, Succeeded: 2})
		b.wantEachOnce(ids)
		drain()
	}))

	t.Run("HoldBackTheirKeyWhenTheyAreTaken", scenario(func(b *bench) {
		ids := b.add(2, keyed("k"))
		b.lock(ids[0])
		defer b.carry()()
		r := b.begin(options(func(o *entity.RedriveOptions) { o.KeepKeyOrder = true }))
		elapse(10 * time.Second)
		b.failElsewhere(ids[0])
		b.wantEnd(r.ID, counted{Selected: 2, Skipped: 2, Reasons: reasons{repository.SkippedTaken: 1, skippedKeyBlocked: 1}})
		b.wantSent(orders)
	}))
}
