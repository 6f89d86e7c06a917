package bulk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// shelf is the archive of a bench's store. Its functions, when they are set, are called before each restoration, with the
// number of restorations that have begun, and before each selection. If before returns an error, the restoration fails.
type shelf struct {
	*redrivetest.Store
	before    func(n int, id uuid.UUID) error
	selecting func()
	backwards bool // restores the messages in the opposite order

	mu sync.Mutex
	n  int
}

func (s *shelf) Select(ctx context.Context, sel entity.Selection, _ int) (entries []repository.ArchivedEntry, err error) {
	if s.selecting != nil {
		s.selecting()
	}
	err = s.Export(ctx, repository.ExportQuery{Filter: sel.Filter, Archived: true, Limit: 1_000_000}, func(m *entity.Message) error {
		entries = append(entries, repository.ArchivedEntry{ID: m.ID, CreatedAt: repository.MicrosOf(m.CreatedAt), OriginalTopic: m.OriginalTopic})
		return nil
	})
	slices.SortFunc(entries, func(a, b repository.ArchivedEntry) int { return int(a.CreatedAt - b.CreatedAt) })
	return entries, err
}

func (s *shelf) RestoreEach(ctx context.Context, w repository.ArchivedWork) error {
	ids := slices.Clone(w.IDs)
	if s.backwards {
		slices.Reverse(ids)
	}
	for _, id := range ids {
		s.mu.Lock()
		s.n++
		n := s.n
		s.mu.Unlock()
		if s.before != nil {
			if err := s.before(n, id); err != nil {
				if errors.Is(err, entity.ErrUnavailable) {
					return err
				}
				w.Done(id, err)
				continue
			}
		}
		if err := w.Before(); err != nil {
			return err
		}
		if _, err := s.RestoreHeld(ctx, id, w.Hold, w.Cause); err != nil {
			return err
		}
		w.Done(id, nil)
	}
	return nil
}

func (s *shelf) EraseEach(context.Context, repository.ArchivedWork) error { return nil }

// shelve archives the messages, and makes new Redrives with the archive.
func (b *bench) shelve(ids []uuid.UUID) *shelf {
	s := &shelf{Store: b.Store}
	for _, id := range ids {
		b.Store.Archive(id)
	}
	b.archive = s
	b.build(b.Store, nil)
	return s
}

// archived selects archived messages.
func archived(n *repository.NewRedrive) { n.Selection.Archived = true }

// restored returns the number of those messages that are live.
func (b *bench) restored(ids []uuid.UUID) (n int) {
	b.Helper()
	for _, id := range ids {
		if _, err := b.Store.Get(context.Background(), id, 0); err == nil {
			n++
		}
	}
	return n
}

// due returns the messages that automatic retry would send now.
func (b *bench) due() []uuid.UUID {
	b.Helper()
	ids, _, err := b.Store.Due(context.Background(), repository.DueQuery{Topics: []string{orders}, Limit: 1000})
	check.NoError(b, err)
	return ids
}

func TestRestoredMessagesAreNotDue(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("WhileTheRedriveWaitsForKafka", scenario(func(b *bench) {
		ids := b.Add(3)
		b.shelve(ids)
		b.Kafka.PlanError = notTo(orders, entity.ErrUnavailable)
		defer b.carry()()
		r := b.begin(archived)
		for range 100 {
			elapse(10 * time.Second)
			check.Len(b, b.due(), 0, "due messages")
		}
		check.Same(b, b.restored(ids), 3, "restored messages")
		b.Kafka.Set(func() { b.Kafka.PlanError = nil })
		b.wantEnd(r.ID, counted{Selected: 3, Succeeded: 3})
		b.WantSent(orders, ids...)
	}))

	t.Run("BeforeTheActionDead", scenario(func(b *bench) {
		ids := b.Add(3)
		b.shelve(ids).before = func(int, uuid.UUID) error {
			elapse(time.Second)
			check.Len(b, b.due(), 0, "due messages")
			return nil
		}
		b.wantAll(counted{Selected: 3, Succeeded: 3}, archived, action(entity.RedriveDead))
		b.WantStates(ids, map[entity.Status]int{entity.Dead: 3})
	}))

	t.Run("WhileOthersAreRestoredForLong", scenario(func(b *bench) {
		ids := b.Add(20)
		b.shelve(ids).before = func(int, uuid.UUID) error {
			elapse(10 * time.Second)
			check.Len(b, b.due(), 0, "due messages")
			return nil
		}
		b.wantAll(counted{Selected: 20, Succeeded: 20}, archived)
		b.WantSent(orders, ids...)
	}))

	t.Run("WhenTheirAttemptIsGivenBackAtAShutdown", scenario(func(b *bench) {
		ids := b.Add(10)
		b.shelve(ids)
		var once sync.Once
		sending := make(chan struct{})
		b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			once.Do(func() {
				close(sending)
				elapse(time.Second)
			})
			return true, acknowledged
		}
		stop := b.carry()
		r := b.begin(archived)
		<-sending
		stop()
		b.WantSent(orders, ids[0])
		check.Same(b, b.restored(ids), 10, "restored messages")
		check.Len(b, b.due(), 0, "due messages")
		elapse(time.Minute)
		check.Len(b, b.due(), 0, "due messages after a minute")
		defer b.carry()()
		b.wantEnd(r.ID, counted{Selected: 10, Succeeded: 10})
		b.wantEachOnce(ids)
	}))

	t.Run("UntilTheHoldIsOverWhenTheRedriveIsCancelled", scenario(func(b *bench) {
		ids := b.Add(3)
		b.shelve(ids)
		b.Kafka.PlanError = notTo(orders, entity.ErrUnavailable)
		defer b.carry()()
		r := b.begin(archived)
		elapse(time.Minute)
		check.Must(b.Cancel(ctx, r.ID, entity.By("alice")))(b)
		elapse(time.Second)
		check.Len(b, b.due(), 0, "due messages")
		elapse(restoredHold + leaderTimeout)
		check.Equal(b, b.due(), ids, "due messages after the hold")
	}))

	t.Run("ButTheActionRestoreMakesThemDueAtOnce", scenario(func(b *bench) {
		ids := b.Add(3)
		b.shelve(ids)
		b.wantAll(counted{Selected: 3, Succeeded: 3}, archived, action(entity.RedriveRestore))
		check.Equal(b, b.due(), ids, "due messages")
	}))
}

// failingRenewal is a store that cannot renew leases.
type failingRenewal struct{ *redrivetest.Store }

func (failingRenewal) RenewLeases(context.Context, uuid.UUID, time.Duration) error {
	return entity.ErrUnavailable
}

// slowClaims is a store whose claims take a second.
type slowClaims struct{ *redrivetest.Store }

func (s slowClaims) Claim(ctx context.Context, claims []repository.Claim, how repository.Claiming) ([]entity.Message, error) {
	elapse(time.Second)
	return s.Store.Claim(ctx, claims, how)
}

func TestRestoringEnds(t *testing.T) {
	t.Parallel()
	ordered := options(func(o *entity.RedriveOptions) { o.KeepKeyOrder = true })

	t.Run("WithTheLease", scenario(func(b *bench) {
		ids := b.Add(6)
		s := b.shelve(ids)
		b.build(failingRenewal{b.Store}, nil)
		s.before = func(int, uuid.UUID) error {
			elapse(20 * time.Second)
			return nil
		}
		r := b.begin(archived)
		stop := b.carry()
		elapse(41 * time.Second)
		check.Same(b, b.restored(ids), 1, "messages that were restored in a lease of 30 s that is not renewed")
		stop()
		check.True(b, !b.look(r.ID).State.Over(), "the redrive is over")
	}))

	t.Run("WhenTheStoreGoesAwayAndTheRestoredAreSentFirst", scenario(func(b *bench) {
		ids := b.Add(10)
		away := true
		b.shelve(ids).before = func(n int, _ uuid.UUID) error {
			if away && n > 3 {
				return entity.ErrUnavailable
			}
			return nil
		}
		b.build(slowClaims{b.Store}, nil)
		defer b.carry()()
		r := b.begin(archived)
		elapse(time.Minute)
		b.WantSent(orders, ids[:3]...)
		check.Same(b, b.restored(ids), 3, "restored messages")
		check.True(b, !b.look(r.ID).WaitingSince.IsZero(), "the redrive does not wait")
		away = false
		b.wantEnd(r.ID, counted{Selected: 10, Succeeded: 10})
		b.WantSent(orders, ids...)
	}))

	t.Run("AndThoseBehindAMessageThatIsNotRestoredKeepTheirOrder", scenario(func(b *bench) {
		ids := b.Add(10, keyed("a"))
		s, away := b.shelve(ids), true
		s.backwards = true
		s.before = func(n int, _ uuid.UUID) error {
			if away && n > 3 {
				return entity.ErrUnavailable
			}
			return nil
		}
		defer b.carry()()
		r := b.begin(archived, ordered)
		for range 30 {
			elapse(10 * time.Second)
			check.Len(b, b.due(), 0, "due messages")
		}
		check.Same(b, b.restored(ids), 3, "restored messages")
		b.WantSent(orders)
		away = false
		b.wantEnd(r.ID, counted{Selected: 10, Succeeded: 10})
		b.WantSent(orders, ids...)
	}))

	t.Run("OnlyForTheMessageThatIsRefusedOrUnreadable", scenario(func(b *bench) {
		ids := b.Add(5)
		b.shelve(ids).before = func(_ int, id uuid.UUID) error {
			return map[uuid.UUID]error{
				ids[1]: entity.ErrRefused, ids[2]: entity.ErrConflict, ids[3]: &repository.ObjectError{Key: "k", Reason: "is damaged"},
			}[id]
		}
		r := b.wantAll(counted{Selected: 5, Succeeded: 2, Skipped: 3, Reasons: reasons{SkippedRefused: 1, repository.SkippedTaken: 1, SkippedUnreadable: 1}}, archived)
		b.wantItems(r.ID, "succeeded", "skipped refused", "skipped taken", "skipped unreadable", "succeeded")
		check.Same(b, b.Logs.FilterMessage("the database refuses an archived message").Len(), 1, "warnings")
	}))
}

func TestStatesOfARedriveOfArchivedMessages(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("PausedRestoresNothingUntilResumed", scenario(func(b *bench) {
		ids := b.Add(10 * batchMessages)
		b.shelve(ids)
		b.slow(time.Second)
		defer b.carry()()
		r := b.begin(archived)
		elapse(3 * time.Second)
		check.Must(b.Pause(ctx, r.ID, entity.By("alice")))(b)
		elapse(10 * time.Second)
		sent := b.wantRedrive(r.ID, entity.RedrivePaused, "").Counts.Succeeded
		check.True(b, sent > 0 && sent < len(ids), "%d of %d messages were sent before the pause", sent, len(ids))
		elapse(time.Hour)
		check.Same(b, b.restored(ids), sent, "restored messages after an hour of pause, those that were sent")
		check.Must(b.Resume(ctx, r.ID, entity.By("alice")))(b)
		b.wantEnd(r.ID, counted{Selected: len(ids), Succeeded: len(ids)})
		b.wantEachOnce(ids)
	}))

	t.Run("CancelledLeavesTheRestInTheArchive", scenario(func(b *bench) {
		ids := b.Add(10 * batchMessages)
		b.shelve(ids)
		b.slow(time.Second)
		defer b.carry()()
		r := b.begin(archived)
		elapse(3 * time.Second)
		check.Must(b.Cancel(ctx, r.ID, entity.By("alice")))(b)
		got, err := b.Wait(ctx, r.ID)
		check.True(b, err == nil && got.State == entity.RedriveCancelled && got.Counts.Succeeded > 0 && got.Counts.Waiting > 0,
			"redrive = %s, %+v, %v, want cancelled in the middle", got.State, got.Counts, err)
		elapse(time.Hour)
		check.Same(b, b.restored(ids), got.Counts.Succeeded, "restored messages, those that were sent")
	}))

	t.Run("CanaryRestoresOnlyItsMessages", scenario(func(b *bench) {
		ids := b.Add(10)
		b.shelve(ids)
		b.Kafka.Deliver = except(rejected, ids[1])
		defer b.carry()()
		r := b.begin(archived, options(func(o *entity.RedriveOptions) { o.Canary = 3 }))
		check.Is(b, check.Err(b.Wait(ctx, r.ID)), entity.ErrUnavailable, "Wait")
		b.wantRedrive(r.ID, entity.RedriveStopped, "canary: 1 of 3 messages failed, BAD_RECORD")
		elapse(time.Hour)
		check.Same(b, b.restored(ids), 3, "restored messages")
		check.Must(b.Resume(ctx, r.ID, entity.By("alice")))(b)
		b.wantEnd(r.ID, counted{Selected: 10, Succeeded: 9, Failed: 1, Dead: 1, Reasons: reasons{"BAD_RECORD": 1}})
	}))

	t.Run("KeyOrderBlocksLaterMessages", scenario(func(b *bench) {
		first := b.Add(1, keyed("a"))
		others := b.Add(batchMessages, func(m *entity.Message) { m.Record.Key = fmt.Append(nil, m.ID) })
		behind := b.Add(1, keyed("a"))
		b.shelve(slices.Concat(first, others, behind))
		b.Kafka.Deliver = except(rejected, first[0])
		why := reasons{"BAD_RECORD": 1, SkippedKeyBlocked: 1}
		b.wantAll(counted{Selected: batchMessages + 2, Succeeded: batchMessages, Failed: 1, Dead: 1, Skipped: 1, Reasons: why}, archived,
			options(func(o *entity.RedriveOptions) { o.KeepKeyOrder = true }))
		b.WantState(behind[0], entity.Pending, 0, "")
	}))
}

func TestSelectionsOfArchivedMessages(t *testing.T) {
	t.Parallel()
	order := repository.NewRedrive{Action: entity.RedriveRetry, Selection: entity.Selection{Archived: true, Filter: entity.Filter{Topic: deadLetter}}}

	t.Run("AreMadeOneAfterTheOther", scenario(func(b *bench) {
		s := b.shelve(b.Add(3))
		var mu sync.Mutex
		now, most := 0, 0
		s.selecting = func() {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			elapse(time.Second)
			mu.Lock()
			now--
			mu.Unlock()
		}
		began := time.Now()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { check.NoError(b, check.Err(b.Preview(context.Background(), order))) })
		}
		all.Go(func() { b.begin(archived) })
		all.Wait()
		check.Same(b, most, 1, "selections at the same time")
		check.Equal(b, time.Since(began), 4*time.Second, "time of four selections")
	}))

	t.Run("AreNotWaitedForWhenTheRequestEnds", scenario(func(b *bench) {
		s := b.shelve(b.Add(3))
		s.selecting = func() { elapse(time.Hour) }
		var first sync.WaitGroup
		first.Go(func() { check.NoError(b, check.Err(b.Preview(context.Background(), order))) })
		elapse(time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		check.Is(b, check.Err(b.Preview(ctx, order)), context.DeadlineExceeded, "a second preview")
		first.Wait()
	}))
}
