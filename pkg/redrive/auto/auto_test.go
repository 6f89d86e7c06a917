package auto

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

// automatic runs a test in a synctest bubble. The bench is configured to retry all topics automatically; the test
// starts automatic retry.
func automatic(do func(b *bench), changes ...func(*Config)) func(t *testing.T) {
	return scenario(func(b *bench) {
		b.cfg.Topics = []string{"*"}
		for _, change := range changes {
			change(&b.cfg)
		}
		do(b)
	})
}

// auto runs automatic retry and the settler until the returned function is called.
func (b *bench) auto() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var both sync.WaitGroup
	both.Go(func() { b.Run(ctx) })
	both.Go(func() { b.parts.Settler.Run(ctx) })
	return func() { cancel(); both.Wait() }
}

// autoFor runs automatic retry for some time.
func (b *bench) autoFor(d time.Duration) {
	stop := b.auto()
	elapse(d)
	stop()
}

func TestAuto(t *testing.T) {
	t.Parallel()

	t.Run("IsOffWithoutTopics", automatic(func(b *bench) {
		id := b.Add(1)[0]
		b.autoFor(time.Hour)
		b.WantState(id, entity.Pending, 0, "")
		check.Equal(b, testutil.ToFloat64(b.metrics.rate), 0, "rate")
	}, func(a *Config) { a.Topics = nil }))

	t.Run("SendsTheOldestFirst", automatic(func(b *bench) {
		ids := b.Add(100)
		b.autoFor(time.Second)
		b.WantSent(orders, ids...)
		b.WantStates(ids, map[entity.Status]int{entity.Resolved: 100})
		history, _ := b.Store.History(context.Background(), ids[0])
		check.True(b, len(history) == 1 && history[0].Actor == entity.ActorAuto && history[0].RedriveID == uuid.Nil,
			"History = %+v, want one attempt by %s", history, entity.ActorAuto)
		got := testutil.ToFloat64(b.metrics.rate)
		check.True(b, math.IsInf(got, 1), "rate = %v, want +Inf", got)
	}, func(a *Config) { a.Parallelism = 1 }))

	t.Run("SendsOnlyWhatMatches", automatic(func(b *bench) {
		yes := append(b.Add(3, to("orders.eu")), b.Add(3, to("bills"))...)
		no := append(b.Add(3, to("orders")), b.Add(3, to("bills.eu"))...)
		b.autoFor(time.Minute)
		b.WantStates(yes, map[entity.Status]int{entity.Resolved: 6})
		b.WantStates(no, map[entity.Status]int{entity.Pending: 6})
	}, func(a *Config) { a.Topics = []string{"orders.*", "^bills$"} }))

	t.Run("SendsToTheTargetOfARedirect", automatic(func(b *bench) {
		check.Must(b.Store.SaveRedirect(context.Background(), orders, "payments", nil, entity.By("alice")))(b)
		ids := b.Add(3)
		b.Kafka.Deliver = except(unauthorized, ids[0])
		b.autoFor(refusedPause / 2)
		b.WantState(ids[0], entity.Pending, 0, entity.Unauthorized)
		sent := len(b.Kafka.Sent("payments"))
		b.Add(1)
		b.Kafka.Deliver = nil
		b.autoFor(refusedPause / 4)
		check.Len(b, b.Kafka.Sent(orders), 0, "records of the original topic")
		check.True(b, sent == 2, "%d records of the target, want 2: its refusal pauses the original topic", sent)
	}))

	t.Run("LeavesAloneWhatAnOperatorHandles", automatic(func(b *bench) {
		busy := make(chan struct{})
		defer close(busy)
		b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			<-busy
			return true, acknowledged
		}
		id := b.Add(1)[0]
		go b.retry(id)
		synctest.Wait()
		b.autoFor(10 * time.Second)
		b.WantState(id, entity.Retrying, 1, "")
	}))

	t.Run("ArrivalsAreSeenAtOnce", automatic(func(b *bench) {
		defer b.auto()()
		elapse(time.Hour)
		id := b.Add(1)[0]
		b.Within(2*topicsFresh, "sending", func() bool { return b.Get(id).Status == entity.Resolved })
		ids := b.Add(200)
		b.Within(idleMax, "sending", func() bool { return b.States(ids)[entity.Resolved] == 200 })
	}))

	t.Run("LateCommitsAreFoundByTheNextWalk", automatic(func(b *bench) {
		// The broker refuses this message, so it stays PENDING and keeps the topic in the list of topics with PENDING
		// messages.
		b.Kafka.PlanError = func(m entity.Message) error {
			if m.Failure.Class == "bad" {
				return &entity.RefusedError{Class: entity.BadRecord}
			}
			return nil
		}
		b.Add(1, func(m *entity.Message) { m.Failure.Class = "bad" })
		b.Add(100)
		defer b.auto()()
		elapse(5 * time.Second)
		late := b.Add(1, func(m *entity.Message) { m.CreatedAt = m.CreatedAt.Add(-time.Hour) })[0]
		b.Within(walkAgain+idleMax, "sending", func() bool { return b.Get(late).Status == entity.Resolved })
	}, func(a *Config) { a.Batch = 10 }))

	t.Run("OldMessagesOfANewTopicAreSeenAtOnce", automatic(func(b *bench) {
		b.Add(100)
		defer b.auto()()
		elapse(5 * time.Second)
		old := b.Add(1, to("bills"), func(m *entity.Message) { m.CreatedAt = m.CreatedAt.Add(-time.Hour) })[0]
		b.Within(2*topicsFresh, "sending", func() bool { return b.Get(old).Status == entity.Resolved })
	}, func(a *Config) { a.Batch = 10 }))

	t.Run("IdleCostsNextToNothing", automatic(func(b *bench) {
		b.Add(1, to("other"))
		b.Add(1, func(m *entity.Message) { m.NextAttemptAt = time.Now().Add(48 * time.Hour) })
		b.autoFor(time.Hour)
		got := redrivetest.Counter(b, b.registry, "dlq_redrive_dequeue_total", "empty")
		check.True(b, got >= 1700 && got <= 1900, "%v looks in an hour, want one every 2s", got)
	}, func(a *Config) { a.Topics = []string{orders} }))

	t.Run("TwoProcessesNeverDouble", automatic(func(b *bench) {
		ids := b.Add(1000)
		b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			elapse(time.Millisecond)
			return true, acknowledged
		}
		stop, stopOther := b.auto(), b.another().auto()
		b.Within(time.Minute, "the end", func() bool { return b.States(ids)[entity.Resolved] == 1000 })
		stop()
		stopOther()
		b.WantOnce(orders, ids)
	}))

	t.Run("DrainGivesBackWhatWasNotSent", automatic(func(b *bench) {
		ids := b.Add(100)
		ctx, cancel := context.WithCancel(context.Background())
		b.Kafka.Deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			if out.Message.ID == ids[50] {
				cancel()
			}
			return true, acknowledged
		}
		b.Run(ctx)
		sent := b.Kafka.Sent(orders)
		b.WantStates(ids, map[entity.Status]int{entity.Resolved: len(sent), entity.Pending: 100 - len(sent)})
		check.True(b, len(sent) != 0 && len(sent) != 100, "%d messages were sent, want some", len(sent))
		for _, id := range ids {
			m := b.Get(id)
			check.True(b, m.Status != entity.Pending || m.RetryCount == 0, "retry count of %s = %d, want 0", id, m.RetryCount)
		}
		b.Kafka.Deliver = nil
		b.autoFor(time.Minute)
		b.WantOnce(orders, ids)
	}))
}

func TestAutoFailures(t *testing.T) {
	t.Parallel()

	t.Run("BackOffAndSucceedInTheEnd", automatic(func(b *bench) {
		var turn, attempts atomic.Int64
		b.random = func() float64 { return float64(turn.Add(1)%3) / 2 * 0.999 }
		b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			if attempts.Add(1) > 9 {
				return true, acknowledged
			}
			return false, failure(entity.NetworkTimeout)
		}
		id := b.Add(1, func(m *entity.Message) { m.MaxRetries = 20 })[0]
		defer b.auto()()
		for i, want := range []time.Duration{2, 4, 8, 16, 32, 64, 128, 256, 256} {
			want *= time.Second
			var m entity.Message
			b.Within(300*time.Second, "an attempt", func() bool { m = b.Get(id); return m.RetryCount == i+1 && m.Status == entity.Pending })
			got := m.NextAttemptAt.Sub(m.UpdatedAt)
			check.True(b, got >= want*9/10 && got <= want*11/10, "wait after attempt %d = %s, want %s ± a tenth", i+1, got, want)
			due := m.NextAttemptAt
			b.Within(300*time.Second, "the next attempt", func() bool { return b.Get(id).RetryCount == i+2 })
			late := b.Get(id).LastRetryAt.Sub(due)
			check.True(b, late >= 0 && late <= 2*idleMax, "attempt %d came %s late, want at most %s", i+2, late, 2*idleMax)
		}
		b.Within(time.Second, "success", func() bool { return b.Get(id).Status == entity.Resolved })
		b.WantSent(orders, id)
	}))

	t.Run("RejectedIsDeadAtOnce", automatic(func(b *bench) {
		bad := b.Add(10)[5]
		b.Kafka.Deliver = except(rejected, bad)
		b.autoFor(time.Second)
		b.WantState(bad, entity.Dead, 1, entity.BadRecord)
		check.Equal(b, len(b.Kafka.Sent(orders)), 9, "messages sent")
	}))

	t.Run("ExhaustedIsDeadWhereOthersAreTaken", automatic(func(b *bench) {
		bad := b.Add(1)[0]
		b.Kafka.Deliver = except(failure(entity.NetworkTimeout), bad)
		defer b.auto()()
		b.Within(time.Minute, "the end", func() bool { b.Add(1); return b.Get(bad).Status == entity.Dead })
		b.WantState(bad, entity.Dead, 3, entity.NetworkTimeout)
	}))

	t.Run("ExhaustedIsDeadInTheEndWhenAlone", automatic(func(b *bench) {
		b.Kafka.Deliver = always(failure(entity.NetworkTimeout), false)
		id := b.Add(1)[0]
		b.autoFor(time.Minute)
		b.WantState(id, entity.Pending, 2, entity.NetworkTimeout)
		b.autoFor(5 * time.Minute)
		b.WantState(id, entity.Dead, 3, entity.NetworkTimeout)
	}))

	t.Run("LastAttemptsGoAsSoonAsTheirPartitionTakesSomething", automatic(func(b *bench) {
		began := time.Now()
		b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			if time.Since(began) < 20*time.Second {
				return false, failure(entity.BrokerUnavailable)
			}
			return true, acknowledged
		}
		first := b.Add(1, func(m *entity.Message) { m.MaxRetries = 20 })
		defer b.auto()()
		elapse(time.Second)
		last := b.Add(40, func(m *entity.Message) { m.RetryCount = 2 })
		b.Within(time.Minute, "recovery", func() bool { return b.Get(first[0]).Status == entity.Resolved })
		b.Within(2*idleMax, "sending", func() bool { return b.States(last)[entity.Resolved] == 40 })
	}))

	t.Run("RefusedByTheBrokerRestsItsTopic", automatic(func(b *bench) {
		var tries atomic.Int64
		b.Kafka.Deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			if out.Target.Topic == "locked" {
				tries.Add(1)
				return false, unauthorized
			}
			return true, acknowledged
		}
		ids := b.Add(5, to("locked"))
		others := b.Add(5)
		b.autoFor(4 * time.Minute)
		b.WantStates(ids, map[entity.Status]int{entity.Pending: 5})
		b.WantState(ids[0], entity.Pending, 0, entity.Unauthorized)
		b.WantStates(others, map[entity.Status]int{entity.Resolved: 5})
		n := tries.Load()
		check.True(b, n <= 5, "%d tries in four minutes, want one for each message", n)
	}))
}

// TestAutoBrokerAway: when the broker is available again after an outage, no message has become DEAD, and each is sent
// once.
func TestAutoBrokerAway(t *testing.T) {
	t.Parallel()
	// Each outage lists the errors with which plans and sends fail while the broker is unreachable.
	outages := map[string]struct {
		plan    error
		deliver entity.Delivery
		written bool
	}{
		"NobodyAnswers":            {entity.ErrUnavailable, failure(entity.BrokerUnavailable), false},
		"LeaderAnswersWritesFail":  {nil, failure(entity.BrokerUnavailable), false},
		"WritesAreNotAnswered":     {nil, inDoubt(entity.NetworkTimeout), false},
		"AnswersAreLost":           {nil, inDoubt(entity.NetworkTimeout), true},
		"ThrottlesWithoutTakingIt": {nil, entity.Delivery{Verdict: entity.Failed, Class: entity.RateLimited, Err: errBroken, Throttle: time.Second}, false},
	}
	for name, o := range outages {
		t.Run(name, automatic(func(b *bench) {
			began := time.Now()
			away := func() bool {
				age := time.Since(began)
				return age >= 100*time.Millisecond && age < time.Minute
			}
			b.Kafka.PlanError = func(entity.Message) error {
				if away() {
					return o.plan
				}
				return nil
			}
			b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
				elapse(time.Millisecond)
				if away() {
					return o.written, o.deliver
				}
				return true, acknowledged
			}
			ids := b.Add(1000)
			alone := b.Add(1, to("alone"))
			defer b.auto()()
			elapse(time.Minute)
			check.Equal(b, b.States(append(alone, ids...))[entity.Dead], 0, "DEAD messages after a minute")
			n := b.States(ids)[entity.Resolved]
			check.Require(b, n >= 50 && (n <= 900 || o.written), "%d messages were sent before and during the outage, want some", n)
			b.Within(5*time.Minute, "recovery", func() bool { return b.States(append(alone, ids...))[entity.Resolved] == 1001 })
			b.WantOnce(orders, ids)
			b.WantOnce("alone", alone)
			b.Within(time.Hour, "full speed", func() bool { return math.IsInf(testutil.ToFloat64(b.metrics.rate), 1) })
		}))
	}

	t.Run("OthersGoOn", automatic(func(b *bench) {
		var plans atomic.Int64
		b.Kafka.PlanError = func(m entity.Message) error {
			if m.OriginalTopic == "gone" {
				plans.Add(1)
				return entity.ErrUnavailable
			}
			return nil
		}
		gone := b.Add(3000, to("gone"))
		touched := b.Add(3000, to("gone"), func(m *entity.Message) { m.NextAttemptAt = time.Now().Add(-time.Hour) })
		others := b.Add(500)
		defer b.auto()()
		b.Within(10*time.Second, "sending", func() bool { return b.States(others)[entity.Resolved] == 500 })
		elapse(10 * time.Minute)
		b.WantStates(append(gone, touched...), map[entity.Status]int{entity.Pending: 6000})
		b.WantState(gone[0], entity.Pending, 0, "")
		check.True(b, plans.Load() <= 200*32, "%d plans in ten minutes for what cannot be reached", plans.Load())
		check.Equal(b, b.Logs.FilterMessage("automatic retry cannot send").Len(), 1, "lines about it")
	}))
}

func TestAutoPlan(t *testing.T) {
	t.Parallel()

	t.Run("RefusedTopicRestsForAMinuteAndIsToldOnce", automatic(func(b *bench) {
		refused := &entity.RefusedError{Class: entity.UnknownTopic, Reason: "gone"}
		looks := map[time.Time]bool{}
		b.Kafka.PlanError = func(m entity.Message) error {
			if m.OriginalTopic != "gone" || refused == nil {
				return nil
			}
			looks[time.Now()] = true
			return refused
		}
		ids, others := b.Add(5, to("gone")), b.Add(100)
		b.autoFor(10 * time.Minute)
		b.WantStates(others, map[entity.Status]int{entity.Resolved: 100})
		b.WantState(ids[0], entity.Pending, 0, "")
		check.True(b, len(looks) >= 9 && len(looks) <= 11, "%d looks in ten minutes, want one a minute", len(looks))
		got := testutil.ToFloat64(b.metrics.skipped.WithLabelValues("UNKNOWN_TOPIC"))
		check.True(b, int(got) == 5*len(looks), "counted %v, want each message once a look", got)
		check.Equal(b, b.Logs.FilterMessage("automatic retry cannot send").Len(), 1, "lines about it")
		refused = nil // changed without a lock, because automatic retry is not running now
		b.autoFor(time.Minute + 2*idleMax)
		b.WantStates(ids, map[entity.Status]int{entity.Resolved: 5})
	}))

	t.Run("RefusedMessagesDoNotStopTheirTopic", automatic(func(b *bench) {
		bad, guessed := b.Add(1)[0], b.Add(1, func(m *entity.Message) { m.Origin.Confidence = entity.FromName })[0]
		b.Kafka.PlanError = func(m entity.Message) error {
			switch m.ID {
			case bad:
				return &entity.RefusedError{Class: entity.BadRecord, Reason: "no bytes"}
			case guessed:
				return &entity.RefusedError{Class: entity.UnknownTopic, Reason: "guessed"}
			}
			return nil
		}
		first := b.Add(10)
		defer b.auto()()
		elapse(10 * time.Second)
		second := b.Add(10)
		elapse(10 * time.Second)
		b.WantStates(append(first, second...), map[entity.Status]int{entity.Resolved: 20})
		b.WantState(bad, entity.Pending, 0, "")
		b.WantState(guessed, entity.Pending, 0, "")
		elapse(time.Hour)
		check.Equal(b, b.Logs.FilterMessage("automatic retry cannot send").Len(), 2, "lines about it")
		got := testutil.ToFloat64(b.metrics.skipped.WithLabelValues("BAD_RECORD"))
		check.True(b, got >= 20 && got <= 65, "counted %v times in an hour, want at most once a minute", got)
	}))

	t.Run("ValuesThatMayNotBeReadDoNotStopTheirTopic", automatic(func(b *bench) {
		unread := map[uuid.UUID]bool{}
		var tries atomic.Int64
		b.Kafka.PlanError = func(m entity.Message) error {
			if m.Source.Topic == "hidden.dlq.v1" {
				return &entity.RefusedError{Class: entity.Unauthorized, Reason: "may not describe it", OfValue: true}
			}
			return nil
		}
		b.Kafka.Deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			if unread[out.Message.ID] {
				tries.Add(1)
				return false, redrivetest.Unread
			}
			return true, acknowledged
		}
		ids := b.Add(3)
		for _, id := range ids {
			unread[id] = true
		}
		// so many that they cannot be held back one by one
		hidden := b.Add(heldMax+20, func(m *entity.Message) { m.Source.Topic = "hidden.dlq.v1" })
		first := b.Add(10)
		defer b.auto()()
		elapse(30 * time.Second)
		second := b.Add(10)
		elapse(30 * time.Second)
		b.WantStates(append(first, second...), map[entity.Status]int{entity.Resolved: 20})
		b.WantState(ids[0], entity.Pending, 0, entity.Unauthorized)
		b.WantState(hidden[0], entity.Pending, 0, "")
		elapse(3 * time.Minute)
		n := tries.Load()
		check.True(b, n >= 3 && n <= 3*5, "%d tries in four minutes, want at most one a minute for each message", n)
	}))

	t.Run("MessagesWithoutTheirRecordDoNotStopTheirTopic", automatic(func(b *bench) {
		b.Add(5*heldMax, func(m *entity.Message) { m.Share = &entity.ShareRecord{State: entity.SourceGone} })
		own := b.Add(3)
		defer b.auto()()
		elapse(time.Minute)
		b.WantSent(orders, own...)
	}))

	t.Run("NothingIsResolvedWithoutKafka", automatic(func(b *bench) {
		ids := b.Add(10)
		b.build(b.cfg, b.Store, nowhereKafka{b.Kafka})
		b.autoFor(10 * time.Minute)
		b.WantStates(ids, map[entity.Status]int{entity.Pending: 10})
		check.Equal(b, b.Logs.FilterMessage("automatic retry cannot send").Len(), 1, "lines about it")
	}))
}

// nowhereKafka plans as if no Kafka were configured: the partition of every target is -1.
type nowhereKafka struct{ *redrivetest.Kafka }

func (n nowhereKafka) Plan(ctx context.Context, batch []entity.Outgoing, bulk bool) []entity.Target {
	targets := n.Kafka.Plan(ctx, batch, bulk)
	for i := range targets {
		targets[i].Partition = -1
	}
	return targets
}

func TestAutoSpeed(t *testing.T) {
	t.Parallel()

	t.Run("TheBrokersRestIsObeyedByAll", automatic(func(b *bench) {
		var mu sync.Mutex
		var throttled, rested time.Time
		sent := 0
		b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			mu.Lock()
			defer mu.Unlock()
			// A goroutine that has checked for a throttle just before this answer may still send its record at the same
			// moment of the fake time.
			now := time.Now()
			check.True(b, now.Equal(throttled) || !now.Before(rested), "sent %s before the broker's rest was over", time.Until(rested))
			d := acknowledged
			if sent++; sent%10 == 0 {
				d.Throttle = 7 * time.Second
				throttled, rested = now, now.Add(d.Throttle)
			}
			return true, d
		}
		ids := b.Add(60)
		defer b.auto()()
		b.Within(10*time.Minute, "the end", func() bool { return b.States(ids)[entity.Resolved] == 60 })
		b.WantOnce(orders, ids)
	}, func(a *Config) { a.Batch = 1 }))

	t.Run("ABatchThatWouldRestTooLongIsGivenBack", automatic(func(b *bench) {
		ids := b.Add(2)
		d := b.dispatcher()
		d.limiter.throttledUntil = time.Now().Add(20 * time.Second)
		check.Must(d.retry(context.Background(), ids))(b)
		b.WantStates(ids, map[entity.Status]int{entity.Pending: 2})
		b.WantState(ids[0], entity.Pending, 0, "")
		b.WantSent(orders)
	}))

	t.Run("SlowsDownAndComesBack", automatic(func(b *bench) {
		var well atomic.Bool
		slowest := math.Inf(1)
		b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			if !well.Load() {
				return false, failure(entity.NetworkTimeout)
			}
			return true, acknowledged
		}
		for i := range 50 { // with so many topics, pausing single partitions alone would not lower the rate to limiterFloor
			b.Add(20, to(fmt.Sprintf("topic-%d", i)))
		}
		defer b.auto()()
		for range 100 {
			elapse(100 * time.Millisecond)
			slowest = min(slowest, testutil.ToFloat64(b.metrics.rate))
		}
		check.Equal(b, slowest, limiterFloor, "slowest rate")
		well.Store(true)
		b.Within(10*time.Minute, "full speed", func() bool { return math.IsInf(testutil.ToFloat64(b.metrics.rate), 1) })
	}))
}

func TestFeed(t *testing.T) {
	t.Parallel()
	take := func(b *bench, d *dispatcher, n int) []uuid.UUID {
		b.Helper()
		ids, _, _, err := d.feed.take(context.Background(), n)
		check.NoError(b, err)
		return ids
	}

	t.Run("HandsEachMessageToOneWorker", scenario(func(b *bench) {
		ids := b.Add(10)
		d := b.dispatcher()
		got := slices.Concat(take(b, d, 3), take(b, d, 4), take(b, d, 9), take(b, d, 9))
		check.True(b, slices.Equal(got, ids), "taken %v, want all of %v once", got, ids)
	}))

	t.Run("LooksAgainForWhatWasFoundTooLongAgo", scenario(func(b *bench) {
		ids := b.Add(10)
		d := b.dispatcher()
		for _, id := range take(b, d, 2) { // the feed asks the store for two messages, and for two more when two are taken
			b.retry(id)
		}
		take(b, d, 2)
		elapse(spareFresh)
		got := take(b, d, 4)
		check.True(b, slices.Equal(got, ids[4:8]), "taken %v, want %v", got, ids[4:8])
	}))

	t.Run("WhatCannotBeSentCostsNoRate", scenario(func(b *bench) {
		b.Kafka.PlanError = func(entity.Message) error { return &entity.RefusedError{Class: entity.BadRecord} }
		b.Add(10)
		d := b.dispatcher()
		d.limiter.rate, d.limiter.tokens, d.limiter.filled, d.limiter.moved = limiterFloor, 1, time.Now(), time.Now()
		for range 20 {
			d.step(context.Background())
		}
		check.True(b, d.limiter.tokens == 1, "%v messages may be sent, want 1 as before", d.limiter.tokens)
		check.Equal(b, testutil.ToFloat64(b.metrics.skipped.WithLabelValues("BAD_RECORD")), 10, "looks")
	}))
}

// dispatcher returns a dispatcher of automatic retry for all topics.
func (b *bench) dispatcher() *dispatcher {
	b.Helper()
	return newDispatcher(b.Retrier, check.Must(Config{Topics: []string{"*"}}.patterns())(b))
}

func TestAutoStoreAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		store := &absent{Store: b.Store}
		cfg := DefaultConfig()
		cfg.Topics = []string{"*"}
		b.build(cfg, store, b.Kafka)
		ids := b.Add(10)
		stop := b.auto()
		elapse(time.Minute)
		store.here.Store(true)
		b.Within(2*idleMax, "sending", func() bool { return b.States(ids)[entity.Resolved] == 10 })
		synctest.Wait()
		stop()
		var told []string
		for _, l := range b.Logs.All() {
			told = append(told, l.Message)
		}
		want := []string{"automatic retry is on", "automatic retry waits for the store", "automatic retry continues"}
		check.True(t, slices.Equal(told, want), "logged %q, want %q", told, want)
		n := store.asked.Load()
		check.True(t, n <= 100, "it was asked %d times in a minute, want few", n)
	})
}

// absent is a store whose method Counts fails until here becomes true.
type absent struct {
	*redrivetest.Store
	here  atomic.Bool
	asked atomic.Int64
}

func (a *absent) Counts(ctx context.Context) ([]repository.Count, error) {
	if !a.here.Load() {
		a.asked.Add(1)
		return nil, entity.ErrUnavailable
	}
	return a.Store.Counts(ctx)
}

func TestWithTracing(t *testing.T) {
	t.Parallel()
	t.Run("AutomaticRetry", automatic(func(b *bench) {
		spans := tracestest.Record()
		b.tracer = traces.Tracer(spans, "test")
		asked := b.Watch()
		b.Add(2)
		b.autoFor(time.Minute)
		span := spans.Only(b, spanAuto)
		tracestest.WantAttributes(b, span.Attributes(), map[attribute.Key]string{traces.Messages: "2", traces.Attempts: "2", traces.ErrorType: ""})
		asked.Want(b.T, span, "Load", "Claim", "Finish")
	}))
}

func TestWithTracing_OffCostsNothing(t *testing.T) { //nolint:paralleltest // other tests allocate too
	d, ctx := newBench(t).dispatcher(), t.Context()
	if n := testing.AllocsPerRun(100, func() {
		_, span := startSpan(ctx, d.tracer, 1)
		endSpan(span, 1, nil)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
