package bulk

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/bulk/internal/reach"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// counted holds the expected counts of a redrive's messages, and the reasons for failed and skipped messages.
type counted struct {
	Selected, Succeeded, Failed, Dead, InDoubt, Skipped, Waiting int
	Reasons                                                      reasons
}

type reasons = map[string]int

// wantAll begins a redrive of all messages, waits for its end and checks its counts.
func (b *bench) wantAll(want counted, changes ...func(*repository.NewRedrive)) entity.Redrive {
	b.Helper()
	defer b.carry()()
	return b.wantEnd(b.begin(changes...).ID, want)
}

// wantEnd waits until a redrive is finished and checks its counts.
func (b *bench) wantEnd(id uuid.UUID, want counted) entity.Redrive {
	b.Helper()
	got, err := b.Wait(context.Background(), id)
	check.True(b, err == nil && got.State == entity.RedriveFinished, "redrive is %s, %v, want finished, nil", got.State, err)
	b.wantCounts(got, want)
	return got
}

func (b *bench) wantCounts(got entity.Redrive, want counted) {
	b.Helper()
	c := got.Counts
	is := counted{got.Selected, c.Succeeded, c.Failed, c.Dead, c.InDoubt, c.Skipped, c.Waiting, nil}
	check.True(b, len(c.Reasons)+len(want.Reasons) <= 0 || maps.Equal(c.Reasons, want.Reasons),
		"reasons = %v, want %v", c.Reasons, want.Reasons)
	want.Reasons = nil
	check.Equal(b, is, want, "redrive")
}

// carry runs redrives and the settler until the returned function is called.
func (b *bench) carry() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	b.draining.Store(false)
	var both sync.WaitGroup
	both.Go(func() { b.runner.Run(ctx) })
	both.Go(func() { b.parts.Settler.Run(ctx) })
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
	return check.Must(b.Begin(context.Background(), n))(b)
}

func (b *bench) retryAll(changes ...func(*repository.NewRedrive)) (entity.Redrive, error) {
	b.Helper()
	defer b.carry()()
	return b.Wait(context.Background(), b.begin(changes...).ID)
}

// wantNoClaims checks that no message is claimed.
func (b *bench) wantNoClaims(ids []uuid.UUID) {
	b.Helper()
	for _, id := range ids {
		m := b.Get(id)
		check.Require(b, !m.Claimed(), "message %s is still claimed", id)
	}
}

func TestRetryAll(t *testing.T) {
	t.Parallel()

	t.Run("ResolvesEverythingOldestFirst", scenario(func(b *bench) {
		ids := b.Add(1750)
		b.wantAll(counted{Selected: 1750, Succeeded: 1750})
		b.WantSent(orders, ids...)
	}))

	t.Run("WhatHasNoLeaderIsLeftOutAndTheRestIsSent", scenario(func(b *bench) {
		mixed := b.Add(1) // with this message of the topic orders, the first batch has messages of both topics
		away := b.Add(batchMessages, to("payments"))
		here := b.Add(batchMessages, to(orders))
		more := b.Add(2, to("payments"))
		b.Kafka.PlanError = notTo("payments", entity.ErrUnavailable)
		began, n := time.Now(), batchMessages
		b.wantAll(counted{Selected: 2*n + 3, Succeeded: n + 1, Skipped: n + 2, Reasons: reasons{"BROKER_UNAVAILABLE": n + 2}})
		b.WantSent(orders, append(mixed, here...)...)
		b.WantState(away[0], entity.Pending, 0, "")
		b.WantState(more[1], entity.Pending, 0, "")
		check.Equal(b, time.Since(began), leaderTimeout, "the wait")
	}))

	t.Run("NothingToDoIsAnEmptyReport", scenario(func(b *bench) { b.wantAll(counted{}) }))

	t.Run("CountsWhatFailedByClass", scenario(func(b *bench) {
		ids := b.Add(4)
		last := b.Add(1, func(m *entity.Message) { m.RetryCount = 2 })
		b.Kafka.Deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			switch out.Message.ID {
			case ids[1]:
				return false, rejected
			case ids[2], last[0]:
				return false, failure(entity.RateLimited)
			case ids[3]:
				return false, inDoubt(entity.NetworkTimeout)
			}
			return true, acknowledged
		}
		// The attempt that ended in doubt is settled later: its record is not in the log, so it has failed.
		why := reasons{"BAD_RECORD": 1, "RATE_LIMITED": 2, "NETWORK_TIMEOUT": 1}
		b.wantAll(counted{Selected: 5, Succeeded: 1, Failed: 4, Dead: 2, Reasons: why})
		b.WantDeadLines(2)
	}))

	t.Run("SkipsWhatIsRefusedBeforehand", scenario(func(b *bench) {
		ids := b.Add(3)
		b.Kafka.PlanError = func(m entity.Message) error {
			if m.ID == ids[1] {
				return &entity.RefusedError{Class: entity.UnknownTopic, Reason: "no"}
			}
			return nil
		}
		b.wantAll(counted{Selected: 3, Succeeded: 2, Skipped: 1, Reasons: reasons{"UNKNOWN_TOPIC": 1}})
		b.WantState(ids[1], entity.Pending, 0, "")
	}))

	t.Run("RefusingTopicDoesNotStopTheOthers", scenario(func(b *bench) {
		refused := b.Add(3000, to("closed"))
		ids := b.Add(500)
		asked := 0
		b.Kafka.Deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			if out.Target.Topic == "closed" {
				asked++
				return false, unauthorized
			}
			return true, acknowledged
		}
		b.wantAll(counted{Selected: 3500, Succeeded: 500, Skipped: 3000, Reasons: reasons{"UNAUTHORIZED": 3000}})
		b.WantSent(orders, ids...)
		b.WantState(refused[2999], entity.Pending, 0, "")
		check.True(b, asked != 3000, "every message was tried on a topic that refuses")
	}))

	t.Run("ValuesThatMayNotBeReadDoNotStopTheirTopic", scenario(func(b *bench) {
		unread := map[uuid.UUID]bool{}
		for _, id := range b.Add(500) {
			unread[id] = true
		}
		ids := b.Add(4000) // so many that some are planned after the first refusals
		b.Kafka.Deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			if unread[out.Message.ID] {
				return false, redrivetest.Unread
			}
			return true, acknowledged
		}
		b.wantAll(counted{Selected: 4500, Succeeded: 4000, Skipped: 500, Reasons: reasons{"UNAUTHORIZED": 500}})
		b.WantSent(orders, ids...)
	}))

	t.Run("ArrivalsAreNotInTheSnapshot", scenario(func(b *bench) {
		ids := b.Add(2)
		b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			b.Add(1)
			return true, acknowledged
		}
		b.wantAll(counted{Selected: 2, Succeeded: 2})
		b.WantSent(orders, ids...)
	}))

	t.Run("DeletedMeanwhileIsGone", scenario(func(b *bench) {
		ids := b.Add(batchMessages + 1)
		var once sync.Once
		b.Kafka.PlanError = func(entity.Message) error {
			once.Do(func() { b.Store.Delete(context.Background(), ids[batchMessages], entity.By("tester")) })
			return nil
		}
		b.wantAll(counted{Selected: batchMessages + 1, Succeeded: batchMessages, Skipped: 1, Reasons: reasons{"gone": 1}})
	}))

	t.Run("OverlappingRunsPublishEachOnce", scenario(func(b *bench) {
		ids := b.Add(5000)
		defer b.carry()()
		one, two := b.begin(), b.begin()
		one, _ = b.Wait(context.Background(), one.ID)
		two, _ = b.Wait(context.Background(), two.ID)
		b.wantEachOnce(ids)
		check.Equal(b, one.Counts.Succeeded+two.Counts.Succeeded, len(ids), "messages that both resolved")
	}))
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

func TestRetryAllInterrupted(t *testing.T) {
	t.Parallel()

	t.Run("DrainLosesNothingAndAnotherProcessGoesOn", scenario(func(b *bench) {
		ids := b.Add(10 * batchMessages)
		stop := b.carry()
		sent := 0
		drained := make(chan struct{})
		b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			if sent++; sent == 700 {
				go func() { stop(); close(drained) }()
				elapse(time.Millisecond)
			}
			return true, acknowledged
		}
		r, err := b.Wait(context.Background(), b.begin().ID)
		b.wantInterrupted(r, err)
		<-drained
		b.wantNoClaims(ids)
		got, err := b.Store.Redrive(context.Background(), r.ID)
		if err != nil || got.Counts.Succeeded < 700 || got.Counts.Waiting == 0 || got.Counts.Failed+got.Counts.Skipped > 0 {
			b.Errorf("redrive = %+v, %v, want some messages sent, the rest waiting and nothing lost", got.Counts, err)
		}
		began := time.Now()
		other := b.another()
		defer other.carry()()
		other.wantEnd(r.ID, counted{Selected: len(ids), Succeeded: len(ids)})
		b.wantEachOnce(ids)
		waited := time.Since(began)
		check.True(b, waited <= 2*pollInterval, "the other process took over after %s, want at once", waited)
	}))

	t.Run("DeadBrokerDoesNotCostEveryAttempt", scenario(func(b *bench) {
		ids := b.Add(10 * batchMessages)
		b.Kafka.Deliver = always(failure(entity.BrokerUnavailable), false)
		stop := b.carry()
		r := b.begin()
		elapse(unreachablePause / 2)
		b.Kafka.Set(func() { b.Kafka.NoPartitions = true })
		r, err := b.Wait(context.Background(), r.ID)
		stop()
		b.wantInterrupted(r, err)
		check.Equal(b, r.Counts.Failed, reach.MaxFailedBatches*batchMessages, "failed")
		b.wantNoClaims(ids)
		b.WantState(ids[len(ids)-1], entity.Pending, 0, "")
	}))

	t.Run("LeaderThatComesBackIsWaitedFor", scenario(func(b *bench) {
		ids := b.Add(3)
		back := time.Now().Add(10 * time.Second)
		b.Kafka.PlanError = func(entity.Message) error {
			if time.Now().Before(back) {
				return entity.ErrUnavailable
			}
			return nil
		}
		r := b.wantAll(counted{Selected: 3, Succeeded: 3})
		b.WantSent(orders, ids...)
		check.True(b, r.WaitingSince.IsZero(), "redrive waits since %s, want not any more", r.WaitingSince)
	}))

	t.Run("LeaderThatStaysAwayCostsNoAttemptAndTheRedriveGoesOnLater", scenario(func(b *bench) {
		ids := b.Add(3)
		var back atomic.Bool
		b.Kafka.PlanError = func(entity.Message) error {
			if back.Load() {
				return nil
			}
			return entity.ErrUnavailable
		}
		defer b.carry()()
		began := time.Now()
		r, err := b.Wait(context.Background(), b.begin().ID)
		b.wantInterrupted(r, err)
		check.True(b, !r.WaitingSince.IsZero() && (r.Note != "" || r.Counts.Waiting != 0),
			"redrive = %+v, want it to say that it waits", r)
		b.WantState(ids[0], entity.Pending, 0, "")
		waited := time.Since(began)
		check.True(b, waited >= waitTimeout && waited <= 2*waitTimeout, "Wait returned after %s", waited)
		elapse(10 * time.Minute)
		back.Store(true)
		b.wantEnd(r.ID, counted{Selected: 3, Succeeded: 3})
	}))

	t.Run("LostStoreIsSettledAndTheRedriveEnds", scenario(func(b *bench) {
		ids := b.Add(2 * batchMessages)
		var broken atomic.Bool
		broken.Store(true)
		b.Store.OnFinish = func() error {
			if broken.Load() {
				return entity.ErrUnavailable
			}
			return nil
		}
		defer b.carry()()
		r := b.begin()
		elapse(time.Minute)
		broken.Store(false)
		b.wantEnd(r.ID, counted{Selected: len(ids), Succeeded: len(ids)})
		b.wantNoClaims(ids)
		b.WantSent(orders, ids...)
	}))
}

// TestRetryAllGoesOnWithoutOnePlace: an unreachable partition delays only its own messages. Each topic of this test has
// one partition.
func TestRetryAllGoesOnWithoutOnePlace(t *testing.T) {
	t.Parallel()
	t.Run("ThoughItsMessagesComeFirstAndFillBatches", scenario(func(b *bench) {
		away := b.Add(4*batchMessages, to("payments"))
		here := b.Add(batchMessages)
		b.Kafka.PlanError = notTo("payments", entity.ErrUnavailable)
		began := time.Now()
		n := batchMessages
		b.wantAll(counted{Selected: 5 * n, Succeeded: n, Skipped: 4 * n, Reasons: reasons{"BROKER_UNAVAILABLE": 4 * n}})
		b.WantSent(orders, here...)
		b.WantState(away[0], entity.Pending, 0, "")
		check.Equal(b, time.Since(began), leaderTimeout, "the wait")
	}))

	t.Run("NotWhenNothingElseIsLeft", scenario(func(b *bench) {
		ids := b.Add(3*batchMessages, to("payments"))
		b.Kafka.PlanError = notTo("payments", entity.ErrUnavailable)
		r, err := b.retryAll()
		b.wantInterrupted(r, err)
		b.wantCounts(r, counted{Selected: len(ids), Waiting: len(ids)})
		b.wantNoClaims(ids)
	}))

	t.Run("NobodyTellsWhereThePartitionsAre", scenario(func(b *bench) {
		ids := b.Add(30 * batchMessages)
		b.Kafka.NoPartitions = true
		r, err := b.retryAll()
		b.wantInterrupted(r, err)
		b.wantCounts(r, counted{Selected: len(ids), Waiting: len(ids)})
		b.WantState(ids[0], entity.Pending, 0, "")
	}))

	t.Run("EndlessNothingDoesNotKeepItFromWhatIsBehind", scenario(func(b *bench) {
		b.Add((reach.MaxUnreachableBatches+5)*batchMessages, to("payments"))
		here := b.Add(1)
		b.Kafka.PlanError = notTo("payments", entity.ErrUnavailable)
		defer b.carry()()
		r := b.begin()
		elapse(5 * leaderTimeout)
		n := (reach.MaxUnreachableBatches + 5) * batchMessages
		b.wantEnd(r.ID, counted{Selected: n + 1, Succeeded: 1, Skipped: n, Reasons: reasons{"BROKER_UNAVAILABLE": n}})
		b.WantSent(orders, here...)
	}))

	t.Run("WhatTakesNothingIsNotTriedForEver", scenario(func(b *bench) {
		b.Add(batchMessages) // a batch for the topic orders, which succeeds
		bad := b.Add(10*batchMessages, to("payments"))
		here := b.Add(10)
		tried := 0
		b.Kafka.Deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			if out.Target.Topic == orders {
				return true, acknowledged
			}
			tried++
			return false, failure(entity.BrokerUnavailable)
		}
		b.wantAll(counted{
			Selected: batchMessages + len(bad) + len(here), Succeeded: batchMessages + len(here),
			Failed: reach.MaxFailedBatches * batchMessages, Skipped: len(bad) - reach.MaxFailedBatches*batchMessages,
			// Reasons counts the reasons of failed messages together with those of skipped messages.
			Reasons: reasons{"BROKER_UNAVAILABLE": len(bad)},
		})
		check.True(b, tried == reach.MaxFailedBatches*batchMessages, "tried %d times, want %d", tried, reach.MaxFailedBatches*batchMessages)
		b.WantState(bad[len(bad)-1], entity.Pending, 0, "")
		b.WantState(here[len(here)-1], entity.Resolved, 1, "")
		b.wantNoClaims(bad)
	}))
}

func (b *bench) wantInterrupted(r entity.Redrive, err error) {
	b.Helper()
	check.Is(b, err, entity.ErrUnavailable, "Wait")
	interrupted := check.As[*entity.InterruptedError](b, err, "Wait")
	check.True(b, interrupted.Err != nil && interrupted.Redrive.ID == r.ID && r.ID != uuid.Nil,
		"InterruptedError = %+v, want a cause and the redrive %s", interrupted, r.ID)
}

// wantEachOnce checks that the topic's log has exactly one record of each of these messages, and no other record.
func (b *bench) wantEachOnce(ids []uuid.UUID) {
	b.Helper()
	sent := b.Kafka.Sent(orders)
	slices.SortFunc(sent, compareIDs)
	ids = slices.Clone(ids)
	slices.SortFunc(ids, compareIDs)
	check.True(b, slices.Equal(sent, ids), "sent %d records, want each of %d once", len(sent), len(ids))
}

func TestRedriveOfLargeMessages(t *testing.T) {
	t.Parallel()
	t.Run("GoesToItsEndAndLeavesNoMemoryBehind", scenario(func(b *bench) {
		large := func(m *entity.Message) { m.Record.Value = make([]byte, 8<<20+1) }
		for range 3 {
			b.Add(1, large)
			b.Add(2)
		}
		b.wantAll(counted{Selected: 9, Succeeded: 9})
		// The message needs all memory that the loader may use, so this call succeeds only if no memory is reserved any
		// more.
		all := b.Add(1, func(m *entity.Message) { m.Record.Value = make([]byte, 17<<20) })
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, _, memory, err := b.parts.Loader.Load(ctx, all, attempt.Unpatched)
		check.Require(b, err == nil, "some memory was not given back: %v", err)
		memory.Release()
	}))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	t.Run("OfARedrive", scenario(func(b *bench) {
		b.Add(3)
		check.Must(b.retryAll())(b)
		b.WantMetric("finished", b.moves.WithLabelValues("retry", "finished"), 1)
		check.Equal(b, redrivetest.Counter(b, b.registry, "dlq_redrive_dequeue_total", "claimed"), 3, "claimed")
	}))
}
