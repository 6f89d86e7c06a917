package bulk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func options(change func(*entity.RedriveOptions)) func(*repository.NewRedrive) {
	return func(n *repository.NewRedrive) { change(&n.Options) }
}

func action(a entity.RedriveAction) func(*repository.NewRedrive) {
	return func(n *repository.NewRedrive) { n.Action = a }
}

// look returns the present state of a redrive.
func (b *bench) look(id uuid.UUID) entity.Redrive {
	b.Helper()
	return check.Must(b.Store.Redrive(context.Background(), id))(b)
}

func (b *bench) wantRedrive(id uuid.UUID, state entity.RedriveState, note string) entity.Redrive {
	b.Helper()
	r := b.look(id)
	check.True(b, r.State == state && strings.Contains(r.Note, note), "redrive is %s, %q, want %s, %q", r.State, r.Note, state, note)
	return r
}

// items returns the results of a redrive's messages with their reasons, in the order of the selection.
func (b *bench) items(id uuid.UUID) []string {
	b.Helper()
	items := check.Must(b.Store.RedriveItems(context.Background(), id, repository.ItemQuery{Limit: 10_000}))(b)
	var results []string
	for _, item := range items {
		results = append(results, strings.TrimSpace(string(item.Result)+" "+item.Reason))
	}
	return results
}

func (b *bench) wantItems(id uuid.UUID, want ...string) {
	b.Helper()
	check.Equal(b, b.items(id), want, "items")
}

// lease leases a batch for a process that dies without saving it.
func (b *bench) lease(redrive uuid.UUID) *repository.RedriveBatch {
	b.Helper()
	l, err := b.Store.LeaseBatch(context.Background(), redrive, uuid.New(), b.deps.cfg.ClaimExpiry)
	check.Require(b, err == nil && l != nil, "LeaseBatch = %v, %v, want one", l, err)
	return l
}

func TestBegin(t *testing.T) {
	t.Parallel()

	t.Run("SameOperationIsTheSameRedrive", scenario(func(b *bench) {
		b.Add(3)
		operation := uuid.New()
		named := func(n *repository.NewRedrive) { n.Cause.Operation = operation }
		first := b.begin(named)
		b.Add(2)
		second := b.begin(named)
		check.True(b, first.ID == operation && second.ID == operation && second.Selected == 3, "redrives = %+v and %+v", first, second)
	}))

	t.Run("NothingSelectedIsFinished", scenario(func(b *bench) {
		r := b.begin()
		check.True(b, r.State == entity.RedriveFinished && r.Selected == 0, "redrive of nothing is %s of %d", r.State, r.Selected)
	}))

	t.Run("WaitsForAProcessThatCarriesItOn", scenario(func(b *bench) {
		ids := b.Add(3)
		r := b.begin()
		elapse(time.Hour) // no process works on the redrive
		b.wantCounts(b.look(r.ID), counted{Selected: 3, Waiting: 3})
		defer b.carry()()
		b.wantEnd(r.ID, counted{Selected: 3, Succeeded: 3})
		b.WantSent(orders, ids...)
	}))
}

func TestPreview(t *testing.T) {
	t.Parallel()
	t.Run("SaysWhatWouldNotGoAndWhyAndChangesNothing", scenario(func(b *bench) {
		good := b.Add(3)
		b.Add(2, to("closed"))
		b.claim(uuid.Nil, b.Add(1)[0])
		b.Kafka.PlanError = notTo("closed", &entity.RefusedError{Class: entity.Unauthorized})
		p, err := b.Preview(context.Background(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: deadLetter}},
		})
		if err != nil || p.Selected != 6 || p.Sendable != 3 || p.Reasons["UNAUTHORIZED"] != 2 || p.Reasons[repository.SkippedTaken] != 1 {
			b.Errorf("Preview = %+v, %v, want 3 of 6, 2 unauthorized, 1 taken", p, err)
		}
		b.WantState(good[0], entity.Pending, 0, "")
		found, err := b.Store.Redrives(context.Background(), repository.RedriveQuery{Limit: 10})
		check.True(b, err == nil && len(found) == 0, "there are %d redrives, %v, want none", len(found), err)
	}))

	t.Run("CountsEachMessageOfASmallSelection", scenario(func(b *bench) {
		ids := b.Add(7)
		large := map[uuid.UUID]bool{ids[1]: true, ids[4]: true}
		b.Kafka.PlanError = func(m entity.Message) error {
			if large[m.ID] {
				return &entity.RefusedError{Class: entity.BadRecord, Reason: "too large"}
			}
			return nil
		}
		for what, selected := range map[string]entity.Selection{
			"filter": {Filter: entity.Filter{Topic: deadLetter}}, "ids": {IDs: ids},
		} {
			p := check.Must(b.Preview(context.Background(), repository.NewRedrive{Action: entity.RedriveRetry, Selection: selected}))(b)
			check.True(b, p.Selected == 7 && p.Sendable == 5 && p.Reasons["BAD_RECORD"] == 2 && len(p.Groups) == 2,
				"%s: Preview = %+v, want 5 of 7 sent and 2 refused", what, p)
		}
		b.Add(maxPlanned)
		p := check.Must(b.Preview(context.Background(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: deadLetter}},
		}))(b)
		check.True(b, p.Selected == 7+maxPlanned && len(p.Groups) == 1, "Preview of many = %+v, want one group", p)
	}))

	t.Run("NamesTheHeadersThatReplaysLose", scenario(func(b *bench) {
		b.Add(2)
		b.Add(1, to("payments"))
		b.Add(1, to("closed"))
		b.Kafka.PlanError = notTo("closed", &entity.RefusedError{Class: entity.Unauthorized})
		b.deps.cfg.ReplayRemoves = func(_ *entity.Message, topic string) []string { return []string{"of-" + topic} }
		p := check.Must(b.Preview(context.Background(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: deadLetter}},
		}))(b)
		got := map[string][]string{}
		for _, g := range p.Groups {
			got[g.Topic] = g.ReplayRemoves
		}
		check.Equal(b, got, map[string][]string{orders: {"of-" + orders}, "payments": {"of-payments"}, "closed": nil}, "removed headers by topic")
		merged := mergeGroups([]entity.PreviewGroup{{ReplayRemoves: []string{"a", "b"}}, {ReplayRemoves: []string{"b", "c"}}})
		check.Equal(b, merged[0].ReplayRemoves, []string{"a", "b", "c"}, "removed headers of a sum")
	}))

	t.Run("HasNoOverlapsWhenTheyTakeTooLong", scenario(func(b *bench) {
		b.Add(3)
		order := repository.NewRedrive{Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: deadLetter}}}
		check.True(b, check.Must(b.Preview(context.Background(), order))(b).Overlaps != nil, "overlaps are not known, want none")
		b.build(slowOverlaps{b.Store}, nil)
		p := check.Must(b.Preview(context.Background(), order))(b)
		check.True(b, p.Selected == 3 && p.Overlaps == nil, "Preview = %+v, want 3 messages, and overlaps that are not known", p)
	}))
}

type slowOverlaps struct{ *redrivetest.Store }

func (slowOverlaps) Overlaps(ctx context.Context, _ repository.NewRedrive) ([]entity.Overlap, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestPauseResumeCancel(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	alice := entity.By("alice")

	t.Run("PausedTakesNothingMoreUntilResumed", scenario(func(b *bench) {
		ids := b.Add(20 * batchMessages)
		b.slow(time.Second)
		defer b.carry()()
		r := b.begin()
		elapse(5 * time.Second)
		check.Must(b.Pause(ctx, r.ID, alice))(b)
		elapse(10 * time.Second) // lets attempts under way end
		before := b.wantRedrive(r.ID, entity.RedrivePaused, "").Counts
		check.True(b, before.Succeeded > 0 && before.Waiting > 0, "paused with %+v, want some sent and some waiting", before)
		elapse(time.Hour)
		check.Equal(b, b.look(r.ID).Counts.Succeeded, before.Succeeded, "messages sent after an hour of pause")
		b.wantNoClaims(ids)
		check.Is(b, check.Err(b.Wait(ctx, r.ID)), entity.ErrUnavailable, "Wait for a paused redrive")
		check.Must(b.Resume(ctx, r.ID, alice))(b)
		b.wantEnd(r.ID, counted{Selected: len(ids), Succeeded: len(ids)})
		b.wantEachOnce(ids)
	}))

	t.Run("CancelledLeavesTheRestAsItIs", scenario(func(b *bench) {
		ids := b.Add(20 * batchMessages)
		b.slow(time.Second)
		defer b.carry()()
		r := b.begin()
		elapse(5 * time.Second)
		check.Must(b.Cancel(ctx, r.ID, alice))(b)
		elapse(10 * time.Second)
		got, err := b.Wait(ctx, r.ID)
		check.True(b, err == nil && got.State == entity.RedriveCancelled && got.Counts.Waiting != 0 && got.Counts.Succeeded != 0,
			"redrive = %s, %+v, %v, want cancelled in the middle", got.State, got.Counts, err)
		b.WantState(ids[len(ids)-1], entity.Pending, 0, "")
		b.wantNoClaims(ids)
		check.As[*entity.RedriveStateError](b, check.Err(b.Resume(ctx, r.ID, alice)), "Resume of a cancelled redrive")
	}))
}

// slow makes the broker wait for the given time before it answers every batchMessages-th record.
func (b *bench) slow(d time.Duration) {
	var mu sync.Mutex
	n := 0
	b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
		mu.Lock()
		n++
		last := n%batchMessages == 0
		mu.Unlock()
		if last {
			elapse(d)
		}
		return true, acknowledged
	}
}

func TestTakeOver(t *testing.T) {
	t.Parallel()

	t.Run("WhatADeadProcessClaimedIsSettledAndNotDoneTwice", scenario(func(b *bench) {
		ids := b.Add(2*batchMessages, func(m *entity.Message) { m.MaxRetries = 1 })
		dead := b.another()
		r := b.begin()
		l := dead.lease(r.ID)
		// The first process claimed a hundred messages, sent fifty of them, stored the results of ten, and died.
		var claimed []uuid.UUID
		for _, item := range l.Items[:100] {
			claimed = append(claimed, item.MessageID)
		}
		taken := dead.claim(r.ID, claimed...)
		deliveries := dead.parts.Executor.Publish(context.Background(), taken.Part(taken.Outgoing[:50]))
		check.Must(dead.parts.Executor.Finish(taken.Part(taken.Outgoing[:10]), deliveries[:10]))(b)

		defer b.carry()()
		b.wantEnd(r.ID, counted{Selected: len(ids), Succeeded: len(ids)})
		b.wantEachOnce(ids)
		for _, id := range ids {
			b.WantState(id, entity.Resolved, 1, "")
		}
	}))

	t.Run("WhatADeadProcessChangedCountsAsDone", scenario(func(b *bench) {
		ids := b.Add(10)
		r := b.begin(action(entity.RedriveDead))
		b.lease(r.ID)
		cause := entity.AuditInfo{Actor: "tester", Operation: r.ID}
		check.Must(b.Store.Change(context.Background(), repository.Change{Action: entity.RedriveDead, IDs: ids[:4]}, cause))(b)
		defer b.carry()()
		b.wantEnd(r.ID, counted{Selected: 10, Succeeded: 10})
	}))

	t.Run("SleeperThatWakesSavesNothing", scenario(func(b *bench) {
		ids := b.Add(batchMessages)
		var slept atomic.Bool
		asleep := make(chan struct{})
		b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			if slept.CompareAndSwap(false, true) {
				close(asleep)
				elapse(10 * b.deps.cfg.ClaimExpiry)
			}
			return true, acknowledged
		}
		defer b.another().carryWithoutRenewal()()
		r := b.begin()
		<-asleep
		defer b.carry()()
		got, err := b.Wait(context.Background(), r.ID)
		check.True(b, err == nil && got.State == entity.RedriveFinished, "redrive is %s, %v, want finished", got.State, err)
		b.wantNoClaims(ids)
	}))
}

// carryWithoutRenewal runs redrives with leases that are not renewed, like a process that was suspended and then
// continues.
func (b *bench) carryWithoutRenewal() (stop func()) {
	b.build(withoutRenewal{b.Store}, nil)
	return b.carry()
}

type withoutRenewal struct{ *redrivetest.Store }

func (withoutRenewal) RenewLeases(context.Context, uuid.UUID, time.Duration) error { return nil }

func TestBulkActions(t *testing.T) {
	t.Parallel()

	t.Run("DeadRequeueDelete", scenario(func(b *bench) {
		ids := b.Add(batchMessages + 10)
		b.wantAll(counted{Selected: len(ids), Succeeded: len(ids)}, action(entity.RedriveDead))
		b.WantState(ids[0], entity.Dead, 0, "")
		b.wantAll(counted{Selected: len(ids), Succeeded: len(ids)}, action(entity.RedriveRequeue))
		b.WantState(ids[0], entity.Pending, 0, "")
		b.wantAll(counted{Selected: len(ids), Succeeded: len(ids)}, action(entity.RedriveDelete))
		check.Is(b, check.Err(b.Store.Get(context.Background(), ids[0], 0)), entity.ErrNotFound, "Get")
	}))

	t.Run("RequeueTakesTheDeadToo", scenario(func(b *bench) {
		ids := b.Add(4)
		for _, id := range ids[:2] {
			check.Must(b.MarkDead(context.Background(), id, entity.By("tester")))(b)
		}
		b.wantAll(counted{Selected: 4, Succeeded: 4}, options(func(o *entity.RedriveOptions) { o.Requeue = true }))
		b.wantEachOnce(ids)
	}))

	t.Run("IDsInTheirOrderWithWhatCannotGo", scenario(func(b *bench) {
		ids := b.Add(4)
		check.Must(b.MarkDead(context.Background(), ids[1], entity.By("tester")))(b)
		why := reasons{repository.SkippedNotRetryable: 1, repository.SkippedGone: 1}
		b.wantAll(counted{Selected: 4, Succeeded: 2, Skipped: 2, Reasons: why}, func(n *repository.NewRedrive) {
			n.Selection = entity.Selection{IDs: []uuid.UUID{ids[3], ids[1], uuid.New(), ids[0]}}
		})
		b.WantSent(orders, ids[3], ids[0])
	}))
}

func TestLimits(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("StopsWhenTooMuchFailsAndGoesOnWhenResumed", scenario(func(b *bench) {
		ids := b.Add(40 * batchMessages)
		b.slow(time.Second)
		slow, broken := b.Kafka.Deliver, true
		b.Kafka.Deliver = func(out entity.Outgoing) (bool, entity.Delivery) {
			slow(out)
			if broken && slices.Index(ids, out.Message.ID)%2 == 0 {
				return false, rejected
			}
			return true, acknowledged
		}
		defer b.carry()()
		r := b.begin(options(func(o *entity.RedriveOptions) { o.MaxFailureShare = 0.3 }))
		check.Is(b, check.Err(b.Wait(ctx, r.ID)), entity.ErrUnavailable, "Wait")
		stopped := b.wantRedrive(r.ID, entity.RedriveStopped, "failed, more than 30 %")
		elapse(time.Minute)
		broken = false
		check.Must(b.Resume(ctx, r.ID, entity.By("alice")))(b)
		got, err := b.Wait(ctx, r.ID)
		check.True(b, err == nil && got.State == entity.RedriveFinished && got.Counts.Failed >= stopped.Counts.Failed,
			"redrive = %s, %+v, %v, want finished with its failures", got.State, got.Counts, err)
	}))

	t.Run("RateBindsAllProcessesTogether", scenario(func(b *bench) {
		ids := b.Add(100)
		defer b.carry()()
		defer b.another().carry()()
		began := time.Now()
		r := b.begin(options(func(o *entity.RedriveOptions) { o.Rate = 10 }))
		b.wantEnd(r.ID, counted{Selected: 100, Succeeded: 100})
		b.wantEachOnce(ids)
		took := time.Since(began)
		check.True(b, took >= 9*time.Second && took <= 30*time.Second, "100 messages at 10 a second took %s", took)
	}))
}

func TestCanary(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	careful := options(func(o *entity.RedriveOptions) { o.Canary = 3 })

	t.Run("NoGroupPassesAfterTheWaitAndSaysSo", scenario(func(b *bench) {
		ids := b.Add(10)
		defer b.carry()()
		r := b.begin(careful)
		elapse(entity.DefaultCanaryWait / 2)
		b.wantRedrive(r.ID, entity.RedriveCanary, "")
		b.WantSent(orders, ids[:3]...)
		got := b.wantEnd(r.ID, counted{Selected: 10, Succeeded: 10})
		check.True(b, strings.Contains(got.Note, "no consumer group shows"), "note = %q", got.Note)
	}))

	t.Run("FailureStopsItBeforeTheRest", scenario(func(b *bench) {
		ids := b.Add(10)
		b.Kafka.Deliver = except(rejected, ids[1])
		defer b.carry()()
		r := b.begin(careful)
		check.Is(b, check.Err(b.Wait(ctx, r.ID)), entity.ErrUnavailable, "Wait")
		b.wantRedrive(r.ID, entity.RedriveStopped, "canary: 1 of 3 messages failed, BAD_RECORD")
		b.WantSent(orders, ids[0], ids[2])
		check.Must(b.Resume(ctx, r.ID, entity.By("alice")))(b)
		b.wantEnd(r.ID, counted{Selected: 10, Succeeded: 9, Failed: 1, Dead: 1, Reasons: reasons{"BAD_RECORD": 1}})
	}))

	t.Run("PausedCanaryIsResumedAsOne", scenario(func(b *bench) {
		b.Add(10)
		defer b.carry()()
		r := b.begin(careful)
		elapse(time.Second)
		check.Must(b.Pause(ctx, r.ID, entity.By("alice")))(b)
		got, err := b.Resume(ctx, r.ID, entity.By("alice"))
		check.True(b, err == nil && got.State == entity.RedriveCanary, "Resume = %s, %v, want canary", got.State, err)
		b.wantEnd(r.ID, counted{Selected: 10, Succeeded: 10})
	}))
}

func TestKeyOrder(t *testing.T) {
	t.Parallel()
	ordered := options(func(o *entity.RedriveOptions) { o.KeepKeyOrder = true })

	t.Run("NothingGoesBehindAMessageThatDidNotSucceed", scenario(func(b *bench) {
		a := b.Add(3, keyed("a"))
		other := b.Add(2, keyed("b"))
		none := b.Add(2)
		b.Kafka.Deliver = except(rejected, a[1])
		r := b.wantAll(counted{Selected: 7, Succeeded: 5, Failed: 1, Dead: 1, Skipped: 1, Reasons: reasons{"BAD_RECORD": 1, SkippedKeyBlocked: 1}}, ordered)
		b.wantItems(r.ID, "succeeded", "dead BAD_RECORD", "skipped key_blocked", "succeeded", "succeeded", "succeeded", "succeeded")
		b.WantSent(orders, a[0], other[0], none[0], none[1], other[1])
	}))

	t.Run("HoldsOverBatchesAndProcesses", scenario(func(b *bench) {
		blocked := b.Add(1, keyed("a"))
		b.Add(2*batchMessages, func(m *entity.Message) { m.Record.Key = fmt.Append(nil, m.ID) })
		behind := b.Add(1, keyed("a"))
		b.Kafka.Deliver = except(failure(entity.RateLimited), blocked[0])
		defer b.carry()()
		defer b.another().carry()()
		defer b.another().carry()()
		n, why := 2*batchMessages, reasons{"RATE_LIMITED": 1, SkippedKeyBlocked: 1}
		b.wantEnd(b.begin(ordered).ID, counted{Selected: n + 2, Succeeded: n, Failed: 1, Skipped: 1, Reasons: why})
		b.WantState(behind[0], entity.Pending, 0, "")
	}))
}

func TestCancelAndDeath(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("WhatADeadProcessSentIsCountedThoughItWasCancelled", scenario(func(b *bench) {
		ids := b.Add(3)
		dead := b.another()
		r := b.begin()
		dead.lease(r.ID)
		dead.parts.Executor.Publish(ctx, dead.claim(r.ID, ids[0]))
		check.Must(b.Cancel(ctx, r.ID, entity.By("alice")))(b)
		c := b.look(r.ID).Counts
		check.True(b, c.UnderWay == 3, "under way = %d, want 3", c.UnderWay)
		defer b.carry()()
		got, err := b.Wait(ctx, r.ID)
		check.True(b, err == nil && got.State == entity.RedriveCancelled, "Wait = %s, %v, want cancelled", got.State, err)
		b.wantCounts(got, counted{Selected: 3, Succeeded: 1, Waiting: 2})
		b.WantSent(orders, ids[0])
	}))

	t.Run("WaitersDoNotKeepOthersFromTheirTurn", scenario(func(b *bench) {
		b.Add(2, to("payments"))
		defer b.carry()()
		for range 3 * maxPasses {
			b.begin(func(n *repository.NewRedrive) {
				n.Selection = entity.Selection{Filter: entity.Filter{Topic: "payments"}}
				n.Options.Rate = 0.001
			})
			elapse(2 * pollInterval)
		}
		b.Add(2)
		began := time.Now()
		r := b.begin(func(n *repository.NewRedrive) { n.Selection = entity.Selection{Filter: entity.Filter{Topic: orders}} })
		b.wantEnd(r.ID, counted{Selected: 2, Succeeded: 2})
		took := time.Since(began)
		check.True(b, took <= 3*pollInterval, "it took %s after redrives that wait for their rate", took)
	}))
}

func TestRequeueOfARedrive(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	requeue := options(func(o *entity.RedriveOptions) { o.Requeue = true })

	t.Run("LeavesDeadWhatSomebodyGaveUpSince", scenario(func(b *bench) {
		ids := b.Add(2)
		r := b.begin(requeue)
		elapse(time.Second)
		check.Must(b.MarkDead(ctx, ids[0], entity.AuditInfo{Actor: "alice", Reason: "never send this"}))(b)
		defer b.carry()()
		b.wantEnd(r.ID, counted{Selected: 2, Succeeded: 1, Skipped: 1, Reasons: reasons{repository.SkippedTaken: 1}})
		b.WantState(ids[0], entity.Dead, 0, "")
	}))

	t.Run("LeavesDeadWhatCannotGo", scenario(func(b *bench) {
		id := b.Add(1)[0]
		check.Must(b.MarkDead(ctx, id, entity.By("alice")))(b)
		b.Kafka.PlanError = func(entity.Message) error { return &entity.RefusedError{Class: entity.UnknownTopic, Reason: "no"} }
		b.wantAll(counted{Selected: 1, Skipped: 1, Reasons: reasons{"UNKNOWN_TOPIC": 1}}, requeue)
		b.WantState(id, entity.Dead, 0, "")
	}))
}

func TestCanaryThatIsNotConsumed(t *testing.T) {
	t.Parallel()
	t.Run("SaysSoAndGoesOnWhenContinuedNotWhenResumed", scenario(func(b *bench) {
		b.Add(10, func(m *entity.Message) { m.Failure.ConsumerGroup = "billing" })
		defer b.carry()()
		r := b.begin(options(func(o *entity.RedriveOptions) { o.Canary = 3 }))
		elapse(2 * entity.DefaultCanaryWait)
		waiting := b.wantRedrive(r.ID, entity.RedriveCanary, "the offsets of group billing have not passed 3 messages yet")
		check.True(b, !waiting.WaitingSince.IsZero(), "it does not say since when it waits")
		check.Is(b, check.Err(b.Resume(context.Background(), r.ID, entity.By("alice"))), entity.ErrConflict, "Resume")
		check.Must(b.Continue(context.Background(), r.ID, entity.By("alice")))(b)
		b.wantEnd(r.ID, counted{Selected: 10, Succeeded: 10})
	}))
}
