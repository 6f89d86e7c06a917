package redrive

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// wantReport checks the counts of a report and that it ended as it should.
func (b *bench) wantReport(got entity.RedriveReport, err error, want entity.RedriveReport) {
	b.Helper()
	if err != nil {
		b.Errorf("RetryAll error = %v, want nil", err)
	}
	if got.ID == uuid.Nil {
		b.Error("report has no id")
	}
	if want.Reasons == nil {
		want.Reasons = map[string]int{}
	}
	if !maps.Equal(got.Reasons, want.Reasons) {
		b.Errorf("reasons = %v, want %v", got.Reasons, want.Reasons)
	}
	got.ID, got.Topic, got.Reasons, want.Reasons = uuid.Nil, "", nil, nil
	if got.Selected != want.Selected || got.Resolved != want.Resolved || got.Failed != want.Failed ||
		got.Dead != want.Dead || got.InDoubt != want.InDoubt || got.Skipped != want.Skipped {
		b.Errorf("report = %+v, want %+v", got, want)
	}
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

func (b *bench) retryAll() (entity.RedriveReport, error) {
	return b.RetryAll(context.Background(), deadLetter, "tester")
}

func TestRetryAll(t *testing.T) {
	t.Parallel()

	t.Run("ResolvesEverythingOldestFirst", scenario(func(b *bench) {
		ids := b.add(1750)
		report, err := b.retryAll()
		b.wantReport(report, err, entity.RedriveReport{Selected: 1750, Resolved: 1750})
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
		b.wantReport(report, err, entity.RedriveReport{
			Selected: 2*batchMessages + 3, Resolved: batchMessages + 1, Skipped: batchMessages + 2,
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
		b.wantReport(report, err, entity.RedriveReport{})
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
		b.wantReport(report, err, entity.RedriveReport{
			Selected: 5, Resolved: 1, Failed: 3, Dead: 2, InDoubt: 1,
			Reasons: map[string]int{"BAD_RECORD": 1, "RATE_LIMITED": 2},
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
		b.wantReport(report, err, entity.RedriveReport{
			Selected: 3, Resolved: 2, Skipped: 1, Reasons: map[string]int{"UNKNOWN_TOPIC": 1},
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
		b.wantReport(report, err, entity.RedriveReport{
			Selected: 3500, Resolved: 500, Skipped: 3000, Reasons: map[string]int{"UNAUTHORIZED": 3000},
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
		b.wantReport(report, err, entity.RedriveReport{Selected: 2, Resolved: 2})
		b.wantSent(orders, ids...)
	}))

	t.Run("DeletedMeanwhileIsGone", scenario(func(b *bench) {
		ids := b.add(batchMessages + 1)
		var once sync.Once
		b.kafka.plan = func(entity.Message) error {
			once.Do(func() { b.store.Delete(context.Background(), ids[batchMessages]) })
			return nil
		}
		report, err := b.retryAll()
		b.wantReport(report, err, entity.RedriveReport{
			Selected: batchMessages + 1, Resolved: batchMessages, Skipped: 1, Reasons: map[string]int{"gone": 1},
		})
	}))

	t.Run("OverlappingRunsPublishEachOnce", scenario(func(b *bench) {
		ids := b.add(5000)
		reports := make([]entity.RedriveReport, 2)
		var both sync.WaitGroup
		for i := range reports {
			both.Go(func() { reports[i], _ = b.retryAll() })
		}
		both.Wait()
		sent := b.kafka.sent(orders)
		slices.SortFunc(sent, compareIDs)
		slices.SortFunc(ids, compareIDs)
		if !slices.Equal(sent, ids) {
			b.Errorf("sent %d records, want each of %d once", len(sent), len(ids))
		}
		if got := reports[0].Resolved + reports[1].Resolved; got != len(ids) {
			b.Errorf("resolved %d together, want %d", got, len(ids))
		}
	}))
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

func TestRetryAllInterrupted(t *testing.T) {
	t.Parallel()

	t.Run("DrainLosesNothingAndLeavesNoClaim", scenario(func(b *bench) {
		ids := b.add(10 * batchMessages)
		ctx, drain := context.WithCancel(context.Background())
		sent := 0
		b.kafka.deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			if sent++; sent == 700 {
				drain()
			}
			return true, entity.Delivery{Verdict: entity.Acknowledged}
		}
		report, err := b.RetryAll(ctx, deadLetter, "tester")
		b.wantInterrupted(err, report)
		if report.Resolved != 700 || report.Failed+report.Skipped+report.InDoubt != 0 {
			b.Errorf("report = %+v, want 700 resolved and nothing else", report)
		}
		b.wantNoClaims(ids)
		again, err := b.retryAll()
		b.wantReport(again, err, entity.RedriveReport{Selected: len(ids) - 700, Resolved: len(ids) - 700})
	}))

	t.Run("DeadBrokerDoesNotCostEveryAttempt", scenario(func(b *bench) {
		ids := b.add(10 * batchMessages)
		b.kafka.deliver = always(entity.Delivery{Verdict: entity.Failed, Class: entity.BrokerUnavailable, Err: errBroken}, false)
		report, err := b.retryAll()
		b.wantInterrupted(err, report)
		if report.Failed != hopeless*batchMessages {
			b.Errorf("failed = %d, want %d", report.Failed, hopeless*batchMessages)
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
		report, err := b.retryAll()
		b.wantReport(report, err, entity.RedriveReport{Selected: 3, Resolved: 3})
		b.wantSent(orders, ids...)
	}))

	t.Run("LeaderThatStaysAwayCostsNoAttempt", scenario(func(b *bench) {
		ids := b.add(3)
		b.kafka.plan = func(entity.Message) error { return entity.ErrUnavailable }
		began := time.Now()
		report, err := b.retryAll()
		b.wantInterrupted(err, report)
		b.wantState(ids[0], entity.Pending, 0, "")
		if waited := time.Since(began); waited != leaderPatience {
			b.Errorf("RetryAll waited %s for a leader, want %s", waited, leaderPatience)
		}
	}))

	t.Run("LostStoreIsSettledLater", scenario(func(b *bench) {
		ids := b.add(2 * batchMessages)
		b.store.finish = func() error { return entity.ErrUnavailable }
		report, err := b.retryAll()
		b.wantInterrupted(err, report)
		b.store.finish = nil
		b.afterExpiry()
		b.wantNoClaims(ids)
		b.retryAll()
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
		b.wantReport(report, err, entity.RedriveReport{
			Selected: 5 * batchMessages, Resolved: batchMessages, Skipped: 4 * batchMessages,
			Reasons: map[string]int{"BROKER_UNAVAILABLE": 4 * batchMessages},
		})
		b.wantSent(orders, here...)
		b.wantState(away[0], entity.Pending, 0, "")
		if waited := time.Since(began); waited != leaderPatience {
			b.Errorf("RetryAll waited %s, want the patience once: %s", waited, leaderPatience)
		}
	}))

	t.Run("NotWhenNothingElseIsLeft", scenario(func(b *bench) {
		ids := b.add(3 * batchMessages)
		gone := map[uuid.UUID]bool{}
		for _, id := range ids[batchMessages:] {
			gone[id] = true
		}
		b.kafka.plan = func(m entity.Message) error {
			if gone[m.ID] {
				return entity.ErrUnavailable
			}
			return nil
		}
		report, err := b.retryAll()
		b.wantInterrupted(err, report)
		if report.Resolved != batchMessages || report.Failed > 0 {
			b.Errorf("report = %+v, want %d resolved and no attempt to fail", report, batchMessages)
		}
		b.wantNoClaims(ids)
	}))

	t.Run("NobodyTellsWhereThePartitionsAre", scenario(func(b *bench) {
		ids := b.add(30 * batchMessages)
		b.kafka.lost = true
		began := time.Now()
		report, err := b.retryAll()
		b.wantInterrupted(err, report)
		if waited := time.Since(began); waited != leaderPatience || report.Skipped > 0 {
			b.Errorf("RetryAll skipped %d in %s, want none in %s", report.Skipped, waited, leaderPatience)
		}
		b.wantState(ids[0], entity.Pending, 0, "")
	}))

	t.Run("EndlessNothingEndsTheRun", scenario(func(b *bench) {
		b.add((strandedLimit + 5) * batchMessages)
		b.kafka.plan = unreachable(orders)
		report, err := b.retryAll()
		b.wantInterrupted(err, report)
		if want := (strandedLimit - 1) * batchMessages; report.Skipped != want {
			b.Errorf("skipped = %d, want %d", report.Skipped, want)
		}
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
		b.wantReport(report, err, entity.RedriveReport{
			Selected: batchMessages + len(bad) + len(here), Resolved: batchMessages + len(here),
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

func (b *bench) wantInterrupted(err error, report entity.RedriveReport) {
	b.Helper()
	var interrupted *entity.InterruptedError
	if !errors.As(err, &interrupted) || !errors.Is(err, entity.ErrUnavailable) {
		b.Fatalf("RetryAll error = %v, want an InterruptedError", err)
	}
	if interrupted.Err == nil || interrupted.Report.ID != report.ID || interrupted.Report.Resolved != report.Resolved {
		b.Errorf("InterruptedError = %+v, want a cause and the report %+v", interrupted, report)
	}
}
