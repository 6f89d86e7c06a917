package redrive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func options(change func(*entity.RedriveOptions)) func(*repository.NewRedrive) {
	return func(n *repository.NewRedrive) { change(&n.Options) }
}

func action(a entity.RedriveAction) func(*repository.NewRedrive) {
	return func(n *repository.NewRedrive) { n.Action = a }
}

// look returns the redrive as it is now.
func (b *bench) look(id uuid.UUID) entity.Redrive {
	b.Helper()
	r, err := b.store.Redrive(context.Background(), id)
	if err != nil {
		b.Fatalf("Redrive: %v", err)
	}
	return r
}

func (b *bench) wantRedrive(id uuid.UUID, state entity.RedriveState, note string) entity.Redrive {
	b.Helper()
	r := b.look(id)
	if r.State != state || !strings.Contains(r.Note, note) {
		b.Errorf("redrive is %s, %q, want %s, %q", r.State, r.Note, state, note)
	}
	return r
}

// items returns what came of each message, in order.
func (b *bench) items(id uuid.UUID) []string {
	b.Helper()
	items, err := b.store.RedriveItems(context.Background(), id, repository.ItemQuery{Limit: 10_000})
	if err != nil {
		b.Fatalf("RedriveItems: %v", err)
	}
	var results []string
	for _, item := range items {
		results = append(results, strings.TrimSpace(string(item.Result)+" "+item.Reason))
	}
	return results
}

func (b *bench) wantItems(id uuid.UUID, want ...string) {
	b.Helper()
	if got := b.items(id); !slices.Equal(got, want) {
		b.Errorf("items = %q, want %q", got, want)
	}
}

func TestBegin(t *testing.T) {
	t.Parallel()

	t.Run("SameOperationIsTheSameRedrive", scenario(func(b *bench) {
		b.add(3)
		operation := uuid.New()
		named := func(n *repository.NewRedrive) { n.Cause.Operation = operation }
		first := b.begin(named)
		b.add(2)
		second := b.begin(named)
		if first.ID != operation || second.ID != operation || second.Selected != 3 {
			b.Errorf("redrives = %s of %d and %s of %d, want %s of 3 twice", first.ID, first.Selected, second.ID, second.Selected, operation)
		}
	}))

	t.Run("NothingSelectedIsFinished", scenario(func(b *bench) {
		if r := b.begin(); r.State != entity.RedriveFinished || r.Selected != 0 {
			b.Errorf("redrive of nothing is %s of %d, want finished of 0", r.State, r.Selected)
		}
	}))

	t.Run("WaitsForAProcessThatCarriesItOn", scenario(func(b *bench) {
		ids := b.add(3)
		r := b.begin()
		elapse(time.Hour) // nobody carries it on
		b.wantCounts(b.look(r.ID), counted{Selected: 3, Waiting: 3})
		defer b.carry()()
		got, err := b.Wait(context.Background(), r.ID)
		b.wantReport(got, err, counted{Selected: 3, Succeeded: 3})
		b.wantSent(orders, ids...)
	}))
}

func TestPreview(t *testing.T) {
	t.Parallel()
	t.Run("SaysWhatWouldNotGoAndWhyAndChangesNothing", scenario(func(b *bench) {
		good := b.add(3)
		b.add(2, to("closed"))
		b.crash(b.add(1)[0], false)
		b.kafka.plan = func(m entity.Message) error {
			if m.OriginalTopic == "closed" {
				return &entity.RefusedError{Class: entity.Unauthorized, Reason: "no"}
			}
			return nil
		}
		p, err := b.Preview(context.Background(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: deadLetter}},
		})
		if err != nil || p.Selected != 6 || p.Sendable != 3 || p.Reasons["UNAUTHORIZED"] != 2 || p.Reasons[repository.SkippedTaken] != 1 {
			b.Errorf("Preview = %+v, %v, want 3 of 6, 2 unauthorized, 1 taken", p, err)
		}
		b.wantState(good[0], entity.Pending, 0, "")
		if found, err := b.store.Redrives(context.Background(), repository.RedriveQuery{Limit: 10}); err != nil || len(found) != 0 {
			b.Errorf("there are %d redrives, %v, want none", len(found), err)
		}
	}))
}

func TestPauseResumeCancel(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	alice := entity.By("alice")

	t.Run("PausedTakesNothingMoreUntilResumed", scenario(func(b *bench) {
		ids := b.add(20 * batchMessages)
		b.slow(time.Second)
		defer b.carry()()
		r := b.begin()
		elapse(5 * time.Second)
		if _, err := b.Pause(ctx, r.ID, alice); err != nil {
			b.Fatal(err)
		}
		elapse(10 * time.Second) // what was under way ends
		before := b.wantRedrive(r.ID, entity.RedrivePaused, "").Counts
		if before.Succeeded == 0 || before.Waiting == 0 {
			b.Errorf("paused with %d sent and %d waiting, want some of each", before.Succeeded, before.Waiting)
		}
		elapse(time.Hour)
		if after := b.look(r.ID).Counts; after.Succeeded != before.Succeeded {
			b.Errorf("%d were sent while it was paused, want none", after.Succeeded-before.Succeeded)
		}
		b.wantNoClaims(ids)
		if _, err := b.Wait(ctx, r.ID); !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("Wait for a paused redrive = %v, want unavailable", err)
		}
		if _, err := b.Resume(ctx, r.ID, alice); err != nil {
			b.Fatal(err)
		}
		got, err := b.Wait(ctx, r.ID)
		b.wantReport(got, err, counted{Selected: len(ids), Succeeded: len(ids)})
		b.wantEachOnce(ids)
	}))

	t.Run("CancelledLeavesTheRestAsItIs", scenario(func(b *bench) {
		ids := b.add(20 * batchMessages)
		b.slow(time.Second)
		defer b.carry()()
		r := b.begin()
		elapse(5 * time.Second)
		if _, err := b.Cancel(ctx, r.ID, alice); err != nil {
			b.Fatal(err)
		}
		elapse(10 * time.Second)
		got, err := b.Wait(ctx, r.ID)
		if err != nil || got.State != entity.RedriveCancelled || got.Counts.Waiting == 0 || got.Counts.Succeeded == 0 {
			b.Errorf("redrive = %s, %+v, %v, want cancelled in the middle", got.State, got.Counts, err)
		}
		b.wantState(ids[len(ids)-1], entity.Pending, 0, "")
		b.wantNoClaims(ids)
		var state *entity.RedriveStateError
		if _, err := b.Resume(ctx, r.ID, alice); !errors.As(err, &state) {
			b.Errorf("Resume of a cancelled redrive = %v, want a RedriveStateError", err)
		}
	}))
}

// slow makes every record take so long, one after the other.
func (b *bench) slow(d time.Duration) {
	var mu sync.Mutex
	n := 0
	b.kafka.deliver = func(entity.Outgoing) (bool, entity.Delivery) {
		mu.Lock()
		n++
		last := n%batchMessages == 0
		mu.Unlock()
		if last {
			elapse(d)
		}
		return true, entity.Delivery{Verdict: entity.Acknowledged}
	}
}

func TestTakeOver(t *testing.T) {
	t.Parallel()

	t.Run("WhatADeadProcessClaimedIsSettledAndNotDoneTwice", scenario(func(b *bench) {
		ids := b.add(2*batchMessages, func(m *entity.Message) { m.MaxRetries = 1 })
		dead := b.another()
		r := b.begin()
		l, err := dead.store.LeaseBatch(context.Background(), r.ID, uuid.New(), dead.cfg.ClaimExpiry)
		if err != nil || l == nil {
			b.Fatalf("LeaseBatch = %v, %v, want one", l, err)
		}
		// It claimed a hundred, sent fifty of them, stored the results of ten, and died.
		planned := make([]entity.Outgoing, 100)
		for i := range planned {
			if planned[i], err = dead.planOne(context.Background(), entity.RetryOrder{ID: l.Items[i].MessageID}); err != nil {
				b.Fatal(err)
			}
		}
		taken, err := dead.claim(context.Background(), planned, claiming{cause: entity.By("tester"), redrive: r.ID})
		if err != nil {
			b.Fatal(err)
		}
		sent := attempts{cause: taken.cause, claimed: taken.claimed, outgoing: taken.outgoing[:50]}
		deliveries := dead.publish(context.Background(), sent)
		stored := attempts{cause: taken.cause, claimed: taken.claimed, outgoing: taken.outgoing[:10]}
		if _, err := dead.finish(stored, deliveries[:10]); err != nil {
			b.Fatal(err)
		}

		defer b.carry()()
		got, err := b.Wait(context.Background(), r.ID)
		b.wantReport(got, err, counted{Selected: len(ids), Succeeded: len(ids)})
		b.wantEachOnce(ids)
		for _, id := range ids {
			if m := b.get(id); m.Status != entity.Resolved || m.RetryCount != 1 {
				b.Fatalf("message is %s after %d attempts, want RESOLVED after 1", m.Status, m.RetryCount)
			}
		}
	}))

	t.Run("WhatADeadProcessChangedCountsAsDone", scenario(func(b *bench) {
		ids := b.add(10)
		r := b.begin(action(entity.RedriveDead))
		if _, err := b.store.LeaseBatch(context.Background(), r.ID, uuid.New(), b.cfg.ClaimExpiry); err != nil {
			b.Fatal(err)
		}
		cause := entity.Cause{Actor: "tester", Operation: r.ID}
		if _, err := b.store.Change(context.Background(), repository.Change{Action: entity.RedriveDead, IDs: ids[:4]}, cause); err != nil {
			b.Fatal(err)
		}
		defer b.carry()()
		got, err := b.Wait(context.Background(), r.ID)
		b.wantReport(got, err, counted{Selected: 10, Succeeded: 10})
	}))

	t.Run("SleeperThatWakesSavesNothing", scenario(func(b *bench) {
		ids := b.add(batchMessages)
		var slept atomic.Bool
		asleep := make(chan struct{})
		b.kafka.deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			if slept.CompareAndSwap(false, true) {
				close(asleep)
				elapse(10 * b.cfg.ClaimExpiry)
			}
			return true, entity.Delivery{Verdict: entity.Acknowledged}
		}
		sleeper := b.another()
		stop := sleeper.carryWithoutRenewal()
		defer stop()
		r := b.begin()
		<-asleep
		defer b.carry()()
		got, err := b.Wait(context.Background(), r.ID)
		if err != nil || got.State != entity.RedriveFinished {
			b.Errorf("redrive is %s, %v, want finished", got.State, err)
		}
		b.wantNoClaims(ids)
	}))
}

// carryWithoutRenewal carries redrives on as a process does whose leases run out
// because it was stopped: it goes on when it wakes, and is late.
func (b *bench) carryWithoutRenewal() (stop func()) {
	b.Service.store = withoutRenewal{b.store}
	return b.carry()
}

type withoutRenewal struct{ Store }

func (withoutRenewal) RenewLeases(context.Context, uuid.UUID, time.Duration) error { return nil }

func TestBulkActions(t *testing.T) {
	t.Parallel()

	t.Run("DeadRequeueDelete", scenario(func(b *bench) {
		ids := b.add(batchMessages + 10)
		r, err := b.retryAll(action(entity.RedriveDead))
		b.wantReport(r, err, counted{Selected: len(ids), Succeeded: len(ids)})
		b.wantState(ids[0], entity.Dead, 0, "")
		r, err = b.retryAll(action(entity.RedriveRequeue))
		b.wantReport(r, err, counted{Selected: len(ids), Succeeded: len(ids)})
		b.wantState(ids[0], entity.Pending, 0, "")
		r, err = b.retryAll(action(entity.RedriveDelete))
		b.wantReport(r, err, counted{Selected: len(ids), Succeeded: len(ids)})
		if _, err := b.store.Get(context.Background(), ids[0], 0); !errors.Is(err, entity.ErrNotFound) {
			b.Errorf("Get = %v, want not found", err)
		}
	}))

	t.Run("RequeueTakesTheDeadToo", scenario(func(b *bench) {
		ids := b.add(4)
		for _, id := range ids[:2] {
			if _, err := b.GiveUp(context.Background(), id, entity.By("tester")); err != nil {
				b.Fatal(err)
			}
		}
		r, err := b.retryAll(options(func(o *entity.RedriveOptions) { o.Requeue = true }))
		b.wantReport(r, err, counted{Selected: 4, Succeeded: 4})
		b.wantEachOnce(ids)
	}))

	t.Run("IDsInTheirOrderWithWhatCannotGo", scenario(func(b *bench) {
		ids := b.add(4)
		if _, err := b.GiveUp(context.Background(), ids[1], entity.By("tester")); err != nil {
			b.Fatal(err)
		}
		r, err := b.retryAll(func(n *repository.NewRedrive) {
			n.Selection = entity.Selection{IDs: []uuid.UUID{ids[3], ids[1], uuid.New(), ids[0]}}
		})
		b.wantReport(r, err, counted{
			Selected: 4, Succeeded: 2, Skipped: 2,
			Reasons: map[string]int{repository.SkippedNotRetryable: 1, repository.SkippedGone: 1},
		})
		b.wantSent(orders, ids[3], ids[0])
	}))
}

func TestLimits(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("StopsWhenTooMuchFailsAndGoesOnWhenResumed", scenario(func(b *bench) {
		ids := b.add(40 * batchMessages)
		b.slow(time.Second)
		sends := b.kafka.deliver
		broken := true
		b.kafka.deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			sends(out)
			if broken && slices.Index(ids, out.Message.ID)%2 == 0 {
				return false, entity.Delivery{Verdict: entity.Rejected, Class: entity.BadRecord, Err: errBroken}
			}
			return true, entity.Delivery{Verdict: entity.Acknowledged}
		}
		defer b.carry()()
		r := b.begin(options(func(o *entity.RedriveOptions) { o.MaxFailureShare = 0.3 }))
		_, err := b.Wait(ctx, r.ID)
		if !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("Wait = %v, want unavailable", err)
		}
		stopped := b.wantRedrive(r.ID, entity.RedriveStopped, "failed, more than a share of 0.3")
		elapse(time.Minute)
		broken = false
		if _, err := b.Resume(ctx, r.ID, entity.By("alice")); err != nil {
			b.Fatal(err)
		}
		got, err := b.Wait(ctx, r.ID)
		if err != nil || got.State != entity.RedriveFinished || got.Counts.Failed < stopped.Counts.Failed {
			b.Errorf("redrive = %s, %+v, %v, want finished with its failures", got.State, got.Counts, err)
		}
	}))

	t.Run("RateBindsAllProcessesTogether", scenario(func(b *bench) {
		ids := b.add(100)
		defer b.carry()()
		defer b.another().carry()()
		began := time.Now()
		r := b.begin(options(func(o *entity.RedriveOptions) { o.Rate = 10 }))
		got, err := b.Wait(ctx, r.ID)
		b.wantReport(got, err, counted{Selected: 100, Succeeded: 100})
		b.wantEachOnce(ids)
		if took := time.Since(began); took < 9*time.Second || took > 30*time.Second {
			b.Errorf("100 messages at 10 a second took %s, want about 10 s", took)
		}
	}))
}

func TestCanary(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	careful := options(func(o *entity.RedriveOptions) { o.Canary = 3 })

	t.Run("NoGroupPassesAfterTheWaitAndSaysSo", scenario(func(b *bench) {
		ids := b.add(10)
		defer b.carry()()
		r := b.begin(careful)
		elapse(entity.DefaultCanaryWait / 2)
		b.wantRedrive(r.ID, entity.RedriveCanary, "")
		b.wantSent(orders, ids[:3]...)
		got, err := b.Wait(ctx, r.ID)
		b.wantReport(got, err, counted{Selected: 10, Succeeded: 10})
		if !strings.Contains(got.Note, "no consumer group is known") {
			b.Errorf("note = %q, want it to say that nobody could tell", got.Note)
		}
	}))

	t.Run("FailureStopsItBeforeTheRest", scenario(func(b *bench) {
		ids := b.add(10)
		b.kafka.deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			if out.Message.ID == ids[1] {
				return false, entity.Delivery{Verdict: entity.Rejected, Class: entity.BadRecord, Err: errBroken}
			}
			return true, entity.Delivery{Verdict: entity.Acknowledged}
		}
		defer b.carry()()
		r := b.begin(careful)
		if _, err := b.Wait(ctx, r.ID); !errors.Is(err, entity.ErrUnavailable) {
			b.Errorf("Wait = %v, want unavailable", err)
		}
		b.wantRedrive(r.ID, entity.RedriveStopped, "canary: 1 of 3 messages failed, BAD_RECORD")
		b.wantSent(orders, ids[0], ids[2])
		if _, err := b.Resume(ctx, r.ID, entity.By("alice")); err != nil {
			b.Fatal(err)
		}
		got, err := b.Wait(ctx, r.ID)
		b.wantReport(got, err, counted{Selected: 10, Succeeded: 9, Failed: 1, Dead: 1, Reasons: map[string]int{"BAD_RECORD": 1}})
	}))

	t.Run("PausedCanaryIsResumedAsOne", scenario(func(b *bench) {
		b.add(10)
		defer b.carry()()
		r := b.begin(careful)
		elapse(time.Second)
		if _, err := b.Pause(ctx, r.ID, entity.By("alice")); err != nil {
			b.Fatal(err)
		}
		if got, err := b.Resume(ctx, r.ID, entity.By("alice")); err != nil || got.State != entity.RedriveCanary {
			b.Errorf("Resume = %s, %v, want canary", got.State, err)
		}
		got, err := b.Wait(ctx, r.ID)
		b.wantReport(got, err, counted{Selected: 10, Succeeded: 10})
	}))
}

func TestKeyOrder(t *testing.T) {
	t.Parallel()
	ordered := options(func(o *entity.RedriveOptions) { o.KeepKeyOrder = true })
	key := func(k string) func(*entity.Message) { return func(m *entity.Message) { m.Record.Key = []byte(k) } }

	t.Run("NothingGoesBehindAMessageThatDidNotSucceed", scenario(func(b *bench) {
		a := b.add(3, key("a"))
		other := b.add(2, key("b"))
		none := b.add(2)
		b.kafka.deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			if out.Message.ID == a[1] {
				return false, entity.Delivery{Verdict: entity.Rejected, Class: entity.BadRecord, Err: errBroken}
			}
			return true, entity.Delivery{Verdict: entity.Acknowledged}
		}
		r, err := b.retryAll(ordered)
		b.wantReport(r, err, counted{
			Selected: 7, Succeeded: 5, Failed: 1, Dead: 1, Skipped: 1, Reasons: map[string]int{"BAD_RECORD": 1, skippedKeyBlocked: 1},
		})
		b.wantItems(r.ID, "succeeded", "dead BAD_RECORD", "skipped key_blocked", "succeeded", "succeeded", "succeeded", "succeeded")
		b.wantSent(orders, a[0], other[0], none[0], none[1], other[1])
	}))

	t.Run("HoldsOverBatchesAndProcesses", scenario(func(b *bench) {
		blocked := b.add(1, key("a"))
		b.add(2*batchMessages, func(m *entity.Message) { m.Record.Key = fmt.Append(nil, m.ID) })
		behind := b.add(1, key("a"))
		b.kafka.deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			if out.Message.ID == blocked[0] {
				return false, entity.Delivery{Verdict: entity.Failed, Class: entity.RateLimited, Err: errBroken}
			}
			return true, entity.Delivery{Verdict: entity.Acknowledged}
		}
		stops := []func(){b.carry(), b.another().carry(), b.another().carry()}
		r, err := b.Wait(context.Background(), b.begin(ordered).ID)
		for _, stop := range stops {
			stop()
		}
		n := 2 * batchMessages
		b.wantReport(r, err, counted{
			Selected: n + 2, Succeeded: n, Failed: 1, Skipped: 1, Reasons: map[string]int{"RATE_LIMITED": 1, skippedKeyBlocked: 1},
		})
		b.wantState(behind[0], entity.Pending, 0, "")
	}))
}

func TestCancelAndDeath(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("WhatADeadProcessSentIsCountedThoughItWasCancelled", scenario(func(b *bench) {
		ids := b.add(3)
		dead := b.another()
		r := b.begin()
		l, err := dead.store.LeaseBatch(ctx, r.ID, uuid.New(), dead.cfg.ClaimExpiry)
		if err != nil || l == nil {
			b.Fatalf("LeaseBatch = %v, %v, want one", l, err)
		}
		planned, err := dead.planOne(ctx, entity.RetryOrder{ID: ids[0]})
		if err != nil {
			b.Fatal(err)
		}
		taken, err := dead.claim(ctx, []entity.Outgoing{planned}, claiming{cause: entity.By("tester"), redrive: r.ID})
		if err != nil {
			b.Fatal(err)
		}
		dead.publish(ctx, taken)
		if _, err := b.Cancel(ctx, r.ID, entity.By("alice")); err != nil {
			b.Fatal(err)
		}
		if c := b.look(r.ID).Counts; c.UnderWay != 3 {
			b.Errorf("under way = %d, want 3", c.UnderWay)
		}
		defer b.carry()()
		got, err := b.Wait(ctx, r.ID)
		if err != nil || got.State != entity.RedriveCancelled {
			b.Errorf("Wait = %s, %v, want cancelled", got.State, err)
		}
		b.wantCounts(got, counted{Selected: 3, Succeeded: 1, Waiting: 2})
		b.wantSent(orders, ids[0])
	}))

	t.Run("WaitersDoNotKeepOthersFromTheirTurn", scenario(func(b *bench) {
		b.add(2, to("payments"))
		defer b.carry()()
		for range 3 * maxPasses {
			b.begin(func(n *repository.NewRedrive) {
				n.Selection = entity.Selection{Filter: entity.Filter{Topic: "payments"}}
				n.Options.Rate = 0.001
			})
			elapse(2 * lookAgain)
		}
		b.add(2)
		began := time.Now()
		r := b.begin(func(n *repository.NewRedrive) { n.Selection = entity.Selection{Filter: entity.Filter{Topic: orders}} })
		got, err := b.Wait(ctx, r.ID)
		b.wantReport(got, err, counted{Selected: 2, Succeeded: 2})
		if took := time.Since(began); took > 3*lookAgain {
			b.Errorf("it took %s behind redrives that wait for their rate", took)
		}
	}))
}

func TestRequeueOfARedrive(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	requeue := options(func(o *entity.RedriveOptions) { o.Requeue = true })

	t.Run("LeavesDeadWhatSomebodyGaveUpSince", scenario(func(b *bench) {
		ids := b.add(2)
		r := b.begin(requeue)
		elapse(time.Second)
		if _, err := b.GiveUp(ctx, ids[0], entity.Cause{Actor: "alice", Reason: "never send this"}); err != nil {
			b.Fatal(err)
		}
		defer b.carry()()
		got, err := b.Wait(ctx, r.ID)
		b.wantReport(got, err, counted{Selected: 2, Succeeded: 1, Skipped: 1, Reasons: map[string]int{repository.SkippedTaken: 1}})
		b.wantState(ids[0], entity.Dead, 0, "")
	}))

	t.Run("LeavesDeadWhatCannotGo", scenario(func(b *bench) {
		id := b.add(1)[0]
		if _, err := b.GiveUp(ctx, id, entity.By("alice")); err != nil {
			b.Fatal(err)
		}
		b.kafka.plan = func(entity.Message) error { return &entity.RefusedError{Class: entity.UnknownTopic, Reason: "no"} }
		r, err := b.retryAll(requeue)
		b.wantReport(r, err, counted{Selected: 1, Skipped: 1, Reasons: map[string]int{"UNKNOWN_TOPIC": 1}})
		b.wantState(id, entity.Dead, 0, "")
	}))
}

func TestCanaryThatIsNotConsumed(t *testing.T) {
	t.Parallel()
	t.Run("SaysSoAndGoesOnWhenResumed", scenario(func(b *bench) {
		b.add(10, func(m *entity.Message) { m.Failure.ConsumerGroup = "billing" })
		defer b.carry()()
		r := b.begin(options(func(o *entity.RedriveOptions) { o.Canary = 3 }))
		elapse(2 * entity.DefaultCanaryWait)
		waiting := b.wantRedrive(r.ID, entity.RedriveCanary, "3 of 3 messages are not consumed yet by group billing")
		if waiting.WaitingSince.IsZero() {
			b.Error("it does not say since when it waits")
		}
		if _, err := b.Resume(context.Background(), r.ID, entity.By("alice")); err != nil {
			b.Fatal(err)
		}
		got, err := b.Wait(context.Background(), r.ID)
		b.wantReport(got, err, counted{Selected: 10, Succeeded: 10})
	}))
}
