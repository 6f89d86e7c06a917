package redrive

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// counted is what a redrive came to, in the words of its counts.
type counted struct {
	Selected, Succeeded, Failed, Dead, InDoubt, Skipped, Waiting int
	Reasons                                                      map[string]int
}

// wantReport checks the counts of a redrive and that it ended as it should.
func (b *bench) wantReport(got entity.Redrive, err error, want counted) {
	b.Helper()
	if err != nil || got.State != entity.RedriveFinished {
		b.Errorf("redrive is %s, %v, want finished, nil", got.State, err)
	}
	b.wantCounts(got, want)
}

func (b *bench) wantCounts(got entity.Redrive, want counted) {
	b.Helper()
	c := got.Counts
	is := counted{got.Selected, c.Succeeded, c.Failed, c.Dead, c.InDoubt, c.Skipped, c.Waiting, nil}
	if len(c.Reasons)+len(want.Reasons) > 0 && !maps.Equal(c.Reasons, want.Reasons) {
		b.Errorf("reasons = %v, want %v", c.Reasons, want.Reasons)
	}
	want.Reasons = nil
	if !reflect.DeepEqual(is, want) {
		b.Errorf("redrive = %+v, want %+v", is, want)
	}
}

// carry lets the service carry redrives on and settle, until the function that
// it returns is called.
func (b *bench) carry() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	b.draining.Store(false)
	var both sync.WaitGroup
	both.Go(func() { b.RunRedrives(ctx) })
	both.Go(func() { b.RunSettler(ctx) })
	return func() { cancel(); both.Wait() }
}

func (b *bench) begin(changes ...func(*repository.NewRedrive)) entity.Redrive {
	b.Helper()
	n := repository.NewRedrive{
		Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: deadLetter}}, Cause: entity.By("tester"),
		Options: entity.RedriveOptions{MinSample: entity.DefaultMinSample, CanaryWait: entity.DefaultCanaryWait},
	}
	for _, change := range changes {
		change(&n)
	}
	r, err := b.Begin(context.Background(), n)
	if err != nil {
		b.Fatalf("Begin: %v", err)
	}
	return r
}

func (b *bench) retryAll(changes ...func(*repository.NewRedrive)) (entity.Redrive, error) {
	b.Helper()
	defer b.carry()()
	return b.Wait(context.Background(), b.begin(changes...).ID)
}

// wantNoClaims checks that every message is free or final.
func (b *bench) wantNoClaims(ids []uuid.UUID) {
	b.Helper()
	for _, id := range ids {
		if m := b.get(id); m.Claimed() {
			b.Fatalf("message %s is still claimed", id)
		}
	}
}

func TestRetryAll(t *testing.T) {
	t.Parallel()

	t.Run("ResolvesEverythingOldestFirst", scenario(func(b *bench) {
		ids := b.add(1750)
		report, err := b.retryAll()
		b.wantReport(report, err, counted{Selected: 1750, Succeeded: 1750})
		b.wantSent(orders, ids...)
	}))

	t.Run("WhatHasNoLeaderIsLeftOutAndTheRestIsSent", scenario(func(b *bench) {
		mixed := b.add(1) // makes the first batch a mixed one
		away := b.add(batchMessages, func(m *entity.Message) { m.OriginalTopic = "payments" })
		here := b.add(batchMessages, func(m *entity.Message) { m.OriginalTopic = orders })
		more := b.add(2, func(m *entity.Message) { m.OriginalTopic = "payments" })
		b.kafka.plan = func(m entity.Message) error {
			if m.OriginalTopic == "payments" {
				return entity.ErrUnavailable
			}
			return nil
		}
		began := time.Now()
		report, err := b.retryAll()
		b.wantReport(report, err, counted{
			Selected: 2*batchMessages + 3, Succeeded: batchMessages + 1, Skipped: batchMessages + 2,
			Reasons: map[string]int{"BROKER_UNAVAILABLE": batchMessages + 2},
		})
		b.wantSent(orders, append(mixed, here...)...)
		b.wantState(away[0], entity.Pending, 0, "")
		b.wantState(more[1], entity.Pending, 0, "")
		if waited := time.Since(began); waited != leaderPatience {
			b.Errorf("RetryAll waited %s, want the patience once: %s", waited, leaderPatience)
		}
	}))

	t.Run("NothingToDoIsAnEmptyReport", scenario(func(b *bench) {
		report, err := b.retryAll()
		b.wantReport(report, err, counted{})
	}))

	t.Run("CountsWhatFailedByClass", scenario(func(b *bench) {
		ids := b.add(4)
		last := b.add(1, func(m *entity.Message) { m.RetryCount = 2 })
		b.kafka.deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			switch out.Message.ID {
			case ids[1]:
				return false, entity.Delivery{Verdict: entity.Rejected, Class: entity.BadRecord, Err: errBroken}
			case ids[2], last[0]:
				return false, entity.Delivery{Verdict: entity.Failed, Class: entity.RateLimited, Err: errBroken}
			case ids[3]:
				return false, inDoubt(entity.NetworkTimeout)
			}
			return true, entity.Delivery{Verdict: entity.Acknowledged}
		}
		report, err := b.retryAll()
		b.wantReport(report, err, counted{
			Selected: 5, Succeeded: 1, Failed: 4, Dead: 2,
			Reasons: map[string]int{"BAD_RECORD": 1, "RATE_LIMITED": 2, "NETWORK_TIMEOUT": 1}, // the doubt was settled
		})
		b.wantDeadLines(2)
	}))

	t.Run("SkipsWhatIsRefusedBeforehand", scenario(func(b *bench) {
		ids := b.add(3)
		b.kafka.plan = func(m entity.Message) error {
			if m.ID == ids[1] {
				return &entity.RefusedError{Class: entity.UnknownTopic, Reason: "no"}
			}
			return nil
		}
		report, err := b.retryAll()
		b.wantReport(report, err, counted{
			Selected: 3, Succeeded: 2, Skipped: 1, Reasons: map[string]int{"UNKNOWN_TOPIC": 1},
		})
		b.wantState(ids[1], entity.Pending, 0, "")
	}))

	t.Run("RefusingTopicDoesNotStopTheOthers", scenario(func(b *bench) {
		closed := func(m *entity.Message) { m.OriginalTopic = "closed" }
		refused := b.add(3000, closed)
		ids := b.add(500)
		asked := 0
		b.kafka.deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			if out.Target.Topic == "closed" {
				asked++
				return false, entity.Delivery{Verdict: entity.Refused, Class: entity.Unauthorized, Err: errBroken}
			}
			return true, entity.Delivery{Verdict: entity.Acknowledged}
		}
		report, err := b.retryAll()
		b.wantReport(report, err, counted{
			Selected: 3500, Succeeded: 500, Skipped: 3000, Reasons: map[string]int{"UNAUTHORIZED": 3000},
		})
		b.wantSent(orders, ids...)
		b.wantState(refused[2999], entity.Pending, 0, "")
		if asked == 3000 {
			b.Error("every message was tried on a topic that refuses")
		}
	}))

	t.Run("ArrivalsAreNotInTheSnapshot", scenario(func(b *bench) {
		ids := b.add(2)
		b.kafka.deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			b.add(1)
			return true, entity.Delivery{Verdict: entity.Acknowledged}
		}
		report, err := b.retryAll()
		b.wantReport(report, err, counted{Selected: 2, Succeeded: 2})
		b.wantSent(orders, ids...)
	}))

	t.Run("DeletedMeanwhileIsGone", scenario(func(b *bench) {
		ids := b.add(batchMessages + 1)
		var once sync.Once
		b.kafka.plan = func(entity.Message) error {
			once.Do(func() { b.store.Delete(context.Background(), ids[batchMessages], entity.By("tester")) })
			return nil
		}
		report, err := b.retryAll()
		b.wantReport(report, err, counted{
			Selected: batchMessages + 1, Succeeded: batchMessages, Skipped: 1, Reasons: map[string]int{"gone": 1},
		})
	}))

	t.Run("OverlappingRunsPublishEachOnce", scenario(func(b *bench) {
		ids := b.add(5000)
		defer b.carry()()
		reports := []entity.Redrive{b.begin(), b.begin()}
		for i := range reports {
			reports[i], _ = b.Wait(context.Background(), reports[i].ID)
		}
		sent := b.kafka.sent(orders)
		slices.SortFunc(sent, compareIDs)
		slices.SortFunc(ids, compareIDs)
		if !slices.Equal(sent, ids) {
			b.Errorf("sent %d records, want each of %d once", len(sent), len(ids))
		}
		if got := reports[0].Counts.Succeeded + reports[1].Counts.Succeeded; got != len(ids) {
			b.Errorf("resolved %d together, want %d", got, len(ids))
		}
	}))
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

func TestRetryAllInterrupted(t *testing.T) {
	t.Parallel()

	t.Run("DrainLosesNothingAndAnotherProcessGoesOn", scenario(func(b *bench) {
		ids := b.add(10 * batchMessages)
		stop := b.carry()
		sent := 0
		drained := make(chan struct{})
		b.kafka.deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			if sent++; sent == 700 {
				go func() { stop(); close(drained) }()
				elapse(time.Millisecond)
			}
			return true, entity.Delivery{Verdict: entity.Acknowledged}
		}
		r, err := b.Wait(context.Background(), b.begin().ID)
		b.wantInterrupted(r, err)
		<-drained
		b.wantNoClaims(ids)
		got, err := b.store.Redrive(context.Background(), r.ID)
		if err != nil || got.Counts.Succeeded < 700 || got.Counts.Waiting == 0 || got.Counts.Failed+got.Counts.Skipped > 0 {
			b.Errorf("redrive = %+v, %v, want some messages sent, the rest waiting and nothing lost", got.Counts, err)
		}
		began := time.Now()
		other := b.another()
		defer other.carry()()
		again, err := other.Wait(context.Background(), r.ID)
		b.wantReport(again, err, counted{Selected: len(ids), Succeeded: len(ids)})
		b.wantEachOnce(ids)
		if waited := time.Since(began); waited > 2*lookAgain {
			b.Errorf("the other process took over after %s, want at once", waited)
		}
	}))

	t.Run("DeadBrokerDoesNotCostEveryAttempt", scenario(func(b *bench) {
		ids := b.add(10 * batchMessages)
		b.kafka.deliver = always(entity.Delivery{Verdict: entity.Failed, Class: entity.BrokerUnavailable, Err: errBroken}, false)
		stop := b.carry()
		r := b.begin()
		elapse(strandedPause / 2)
		b.kafka.mu.Lock()
		b.kafka.lost = true
		b.kafka.mu.Unlock()
		r, err := b.Wait(context.Background(), r.ID)
		stop()
		b.wantInterrupted(r, err)
		if r.Counts.Failed != hopeless*batchMessages {
			b.Errorf("failed = %d, want %d", r.Counts.Failed, hopeless*batchMessages)
		}
		b.wantNoClaims(ids)
		b.wantState(ids[len(ids)-1], entity.Pending, 0, "")
	}))

	t.Run("LeaderThatComesBackIsWaitedFor", scenario(func(b *bench) {
		ids := b.add(3)
		back := time.Now().Add(10 * time.Second)
		b.kafka.plan = func(entity.Message) error {
			if time.Now().Before(back) {
				return entity.ErrUnavailable
			}
			return nil
		}
		r, err := b.retryAll()
		b.wantReport(r, err, counted{Selected: 3, Succeeded: 3})
		b.wantSent(orders, ids...)
		if !r.WaitingSince.IsZero() {
			b.Errorf("redrive waits since %s, want not any more", r.WaitingSince)
		}
	}))

	t.Run("LeaderThatStaysAwayCostsNoAttemptAndTheRedriveGoesOnLater", scenario(func(b *bench) {
		ids := b.add(3)
		var back atomic.Bool
		b.kafka.plan = func(entity.Message) error {
			if back.Load() {
				return nil
			}
			return entity.ErrUnavailable
		}
		defer b.carry()()
		began := time.Now()
		r, err := b.Wait(context.Background(), b.begin().ID)
		b.wantInterrupted(r, err)
		if r.WaitingSince.IsZero() || r.Note == "" && r.Counts.Waiting == 0 {
			b.Errorf("redrive = %+v, want it to say that it waits", r)
		}
		b.wantState(ids[0], entity.Pending, 0, "")
		if waited := time.Since(began); waited < waitPatience || waited > 2*waitPatience {
			b.Errorf("Wait sent the caller away after %s, want some more than %s", waited, waitPatience)
		}
		elapse(10 * time.Minute)
		back.Store(true)
		r, err = b.Wait(context.Background(), r.ID)
		b.wantReport(r, err, counted{Selected: 3, Succeeded: 3})
	}))

	t.Run("LostStoreIsSettledAndTheRedriveEnds", scenario(func(b *bench) {
		ids := b.add(2 * batchMessages)
		var broken atomic.Bool
		broken.Store(true)
		b.store.finish = func() error {
			if broken.Load() {
				return entity.ErrUnavailable
			}
			return nil
		}
		defer b.carry()()
		r := b.begin()
		elapse(time.Minute)
		broken.Store(false)
		r, err := b.Wait(context.Background(), r.ID)
		b.wantReport(r, err, counted{Selected: len(ids), Succeeded: len(ids)})
		b.wantNoClaims(ids)
		b.wantSent(orders, ids...)
	}))
}

func to(topic string) func(*entity.Message) {
	return func(m *entity.Message) { m.OriginalTopic = topic }
}

// TestRetryAllGoesOnWithoutOnePlace: one dead partition of many costs its own
// messages their turn, and nothing else. Each topic has one partition here.
func TestRetryAllGoesOnWithoutOnePlace(t *testing.T) {
	t.Parallel()
	unreachable := func(topic string) func(entity.Message) error {
		return func(m entity.Message) error {
			if m.OriginalTopic == topic {
				return entity.ErrUnavailable
			}
			return nil
		}
	}

	t.Run("ThoughItsMessagesComeFirstAndFillBatches", scenario(func(b *bench) {
		away := b.add(4*batchMessages, to("payments"))
		here := b.add(batchMessages)
		b.kafka.plan = unreachable("payments")
		began := time.Now()
		report, err := b.retryAll()
		b.wantReport(report, err, counted{
			Selected: 5 * batchMessages, Succeeded: batchMessages, Skipped: 4 * batchMessages,
			Reasons: map[string]int{"BROKER_UNAVAILABLE": 4 * batchMessages},
		})
		b.wantSent(orders, here...)
		b.wantState(away[0], entity.Pending, 0, "")
		if waited := time.Since(began); waited != leaderPatience {
			b.Errorf("RetryAll waited %s, want the patience once: %s", waited, leaderPatience)
		}
	}))

	t.Run("NotWhenNothingElseIsLeft", scenario(func(b *bench) {
		ids := b.add(3*batchMessages, to("payments"))
		b.kafka.plan = unreachable("payments")
		r, err := b.retryAll()
		b.wantInterrupted(r, err)
		b.wantCounts(r, counted{Selected: len(ids), Waiting: len(ids)})
		b.wantNoClaims(ids)
	}))

	t.Run("NobodyTellsWhereThePartitionsAre", scenario(func(b *bench) {
		ids := b.add(30 * batchMessages)
		b.kafka.lost = true
		r, err := b.retryAll()
		b.wantInterrupted(r, err)
		b.wantCounts(r, counted{Selected: len(ids), Waiting: len(ids)})
		b.wantState(ids[0], entity.Pending, 0, "")
	}))

	t.Run("EndlessNothingDoesNotKeepItFromWhatIsBehind", scenario(func(b *bench) {
		b.add((strandedLimit+5)*batchMessages, to("payments"))
		here := b.add(1)
		b.kafka.plan = unreachable("payments")
		defer b.carry()()
		r := b.begin()
		elapse(5 * leaderPatience)
		r, err := b.Wait(context.Background(), r.ID)
		n := (strandedLimit + 5) * batchMessages
		b.wantReport(r, err, counted{Selected: n + 1, Succeeded: 1, Skipped: n, Reasons: map[string]int{"BROKER_UNAVAILABLE": n}})
		b.wantSent(orders, here...)
	}))

	t.Run("WhatTakesNothingIsNotTriedForEver", scenario(func(b *bench) {
		b.add(batchMessages) // something works
		bad := b.add(10*batchMessages, to("payments"))
		here := b.add(10)
		tried := 0
		b.kafka.deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			if out.Target.Topic == orders {
				return true, entity.Delivery{Verdict: entity.Acknowledged}
			}
			tried++
			return false, entity.Delivery{Verdict: entity.Failed, Class: entity.BrokerUnavailable, Err: errBroken}
		}
		report, err := b.retryAll()
		b.wantReport(report, err, counted{
			Selected: batchMessages + len(bad) + len(here), Succeeded: batchMessages + len(here),
			Failed: hopeless * batchMessages, Skipped: len(bad) - hopeless*batchMessages,
			// Failed and skipped ones alike.
			Reasons: map[string]int{"BROKER_UNAVAILABLE": len(bad)},
		})
		if tried != hopeless*batchMessages {
			b.Errorf("tried %d times, want %d", tried, hopeless*batchMessages)
		}
		if got := b.get(bad[len(bad)-1]); got.Status != entity.Pending || got.RetryCount != 0 {
			b.Errorf("last message is %s with %d attempts, want PENDING with none", got.Status, got.RetryCount)
		}
		b.wantState(here[len(here)-1], entity.Resolved, 1, "")
		b.wantNoClaims(bad)
	}))
}

func (b *bench) wantInterrupted(r entity.Redrive, err error) {
	b.Helper()
	var interrupted *entity.InterruptedError
	if !errors.As(err, &interrupted) || !errors.Is(err, entity.ErrUnavailable) {
		b.Fatalf("Wait error = %v, want an InterruptedError", err)
	}
	if interrupted.Err == nil || interrupted.Redrive.ID != r.ID || r.ID == uuid.Nil {
		b.Errorf("InterruptedError = %+v, want a cause and the redrive %s", interrupted, r.ID)
	}
}

// wantEachOnce checks that the log has every message exactly once.
func (b *bench) wantEachOnce(ids []uuid.UUID) {
	b.Helper()
	sent := b.kafka.sent(orders)
	slices.SortFunc(sent, compareIDs)
	ids = slices.Clone(ids)
	slices.SortFunc(ids, compareIDs)
	if !slices.Equal(sent, ids) {
		b.Errorf("sent %d records, want each of %d once", len(sent), len(ids))
	}
}
