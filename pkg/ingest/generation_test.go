package ingest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

var errDown = errors.New("down")

// pass lets d go by and everything settle.
func pass(d time.Duration) {
	<-time.After(d) // by the bubble's clock: nobody waits for it
	synctest.Wait()
}

func TestGeneration(t *testing.T) {
	t.Parallel()
	a, b := part("a.dlq.v1", 0), part("a.dlq.v1", 1)
	tests := map[string]func(w *world){
		"StoresEachRecordOnceAndCommitsWhatItStored": func(w *world) {
			w.cluster.produce(a, numbered(2500)...)
			w.cluster.produce(b, numbered(3)...)
			_, stop := w.start(a, b)
			pass(3 * time.Second)
			w.cluster.produce(b, numbered(2)...)
			pass(3 * time.Second)
			if err := stop(); err != nil {
				w.t.Errorf("generation = %v, want nil when its context ended", err)
			}
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 2500)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 5)
			w.wantCommitted(a, 2500)
			w.wantCommitted(b, 5)
		},
		"GoesOnFromTheStoresPosition": func(w *world) {
			w.cluster.produce(a, numbered(10)...)
			for range 3 {
				_, stop := w.start(a)
				pass(2 * time.Second)
				w.cluster.produce(a, numbered(10)...)
				pass(2 * time.Second)
				_ = stop()
			}
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 40)
		},
		"CommitsTheStoresPositionsAlthoughNothingIsNew": func(w *world) {
			w.cluster.produce(a, numbered(10)...)
			w.commitErr = errDown
			_, stop := w.start(a)
			pass(3 * time.Second)
			_ = stop()
			w.commitErr = nil
			_, stop = w.start(a)
			pass(3 * time.Second)
			_ = stop()
			w.wantCommitted(a, 10)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 10)
		},
		"CommitsAgainWhatKafkaDidNotTake": func(w *world) {
			w.set(func() { w.commitErr = errDown })
			_, stop := w.start(a)
			w.cluster.produce(a, numbered(4)...)
			pass(5 * time.Second)
			w.set(func() { w.commitErr = nil })
			pass(2 * time.Second)
			w.wantCommitted(a, 4)
			_ = stop()
		},
		"MovesAPositionBelowTheLogsStartAndCountsTheLoss": func(w *world) {
			w.cluster.produce(a, numbered(5)...)
			_, stop := w.start(a)
			pass(time.Second)
			_ = stop()
			w.cluster.produce(a, numbered(20)...)
			w.cluster.set(func() { log := w.cluster.log(a); log.start, log.records = 15, log.records[15:] })
			_, stop = w.start(a)
			pass(time.Second)
			_ = stop()
			if got := testutil.ToFloat64(w.i.metrics.gaps.WithLabelValues("a.dlq.v1")); got != 10 {
				w.t.Errorf("lost records counted = %v, want 10", got)
			}
			if got := len(w.messages("a.dlq.v1")); got != 15 {
				w.t.Errorf("messages = %d, want 5 and the 10 that were left", got)
			}
		},
		"CountsALossOnceThoughTheStoreTakesItLate": func(w *world) {
			w.cluster.produce(a, numbered(10)...)
			_, stop := w.start(a)
			pass(time.Second)
			_ = stop()
			w.cluster.produce(a, numbered(10)...)
			w.cluster.set(func() { log := w.cluster.log(a); log.start, log.records = 15, log.records[15:] })
			w.store.set(func() { w.store.fail = func() error { return errDown } })
			for range 3 {
				_, stop = w.start(a)
				pass(time.Second)
				_ = stop()
			}
			w.store.set(func() { w.store.fail = nil })
			_, stop = w.start(a)
			pass(time.Second)
			_ = stop()
			if got := testutil.ToFloat64(w.i.metrics.gaps.WithLabelValues("a.dlq.v1")); got != 5 {
				w.t.Errorf("lost records counted = %v, want 5", got)
			}
		},
		"FollowsALogThatIsTrimmedWhileItIsRead": func(w *world) {
			_, stop := w.start(a, b)
			pass(time.Second)
			w.cluster.set(func() { log := w.cluster.log(a); log.start, log.next = 50, 50 })
			pass(time.Second)
			w.cluster.produce(a, numbered(5)...)
			w.cluster.produce(b, numbered(5)...)
			pass(3 * time.Second)
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 50, 55)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 5)
		},
		"WhatWasFetchedIsStoredBeforeAPositionIsLookedUpAgain": func(w *world) {
			w.store.set(func() { w.store.fail = func() error { return errDown } })
			w.cluster.produce(a, numbered(5)...)
			ended, stop := w.start(a)
			pass(time.Second)
			w.cluster.set(func() { log := w.cluster.log(a); log.start, log.next, log.records = 50, 50, nil })
			pass(3 * time.Second)
			w.store.set(func() { w.store.fail = nil })
			pass(10 * time.Second)
			if len(ended) > 0 {
				w.t.Fatalf("generation ended with %v, want it to go on", <-ended)
			}
			w.cluster.produce(a, numbered(2)...)
			pass(3 * time.Second)
			_ = stop()
			if got := w.messages("a.dlq.v1"); len(got) != 7 || got[4].Source.Offset != 4 || got[5].Source.Offset != 50 {
				w.t.Errorf("messages = %d, want the 5 that were fetched and the 2 after the gap", len(got))
			}
			w.wantCommitted(a, 52)
		},
		"MovesAPositionAboveTheEndOfACutLogBackToIt": func(w *world) {
			w.cluster.produce(a, numbered(10)...)
			_, stop := w.start(a)
			pass(time.Second)
			w.cluster.set(func() { log := w.cluster.log(a); log.next, log.records = 6, log.records[:6] })
			pass(time.Second)
			w.cluster.produce(a, numbered(1)...)
			pass(2 * time.Second)
			_ = stop()
			got := w.messages("a.dlq.v1")
			if len(got) != 11 {
				w.t.Errorf("messages = %d, want the 10 and the one after the cut", len(got))
			}
		},
		"WithoutTopicIDsAnotherBatchAtThePositionIsANewLog": func(w *world) {
			old := part("old.dlq.v1", 0)
			w.cluster.topic("old.dlq.v1", "", 1)
			w.cluster.produce(old, numbered(10)...)
			_, stop := w.start(old)
			pass(time.Second)
			_ = stop()
			_, stop = w.start(old) // the same log
			pass(time.Second)
			_ = stop()
			w.wantOffsets("old.dlq.v1", 1, 0, 0, 10)
			w.cluster.topic("old.dlq.v1", "", 1)
			w.cluster.produce(old, numbered(12)...) // as long as what was read, and longer
			_, stop = w.start(old)
			pass(time.Second)
			_ = stop()
			if got := len(w.messages("old.dlq.v1")); got != 22 {
				w.t.Errorf("messages = %d, want 10 of the old log and 12 of the new one", got)
			}
		},
		"WithoutTopicIDsAShorterLogIsANewOne": func(w *world) {
			w.cluster.topic("old.dlq.v1", "", 1)
			w.cluster.produce(part("old.dlq.v1", 0), numbered(10)...)
			_, stop := w.start(part("old.dlq.v1", 0))
			pass(time.Second)
			_ = stop()
			w.cluster.topic("old.dlq.v1", "", 1)
			w.cluster.produce(part("old.dlq.v1", 0), numbered(4)...)
			_, stop = w.start(part("old.dlq.v1", 0))
			pass(time.Second)
			_ = stop()
			if got := len(w.messages("old.dlq.v1")); got != 14 {
				w.t.Errorf("messages = %d, want 10 of the old log and 4 of the new one", got)
			}
		},
		"StepsOverControlRecords": func(w *world) {
			w.cluster.produce(a, numbered(2)...)
			w.cluster.set(func() { w.cluster.log(a).next += 2 })
			_, stop := w.start(a)
			pass(3 * time.Second)
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 2)
			w.wantCommitted(a, 4)
		},
		"APartitionThatCannotBeReadDoesNotStopItsNeighbours": func(w *world) {
			w.cluster.set(func() { w.cluster.log(a).err = broker.ErrCorrupt })
			w.cluster.produce(a, numbered(3)...)
			_, stop := w.start(a, b)
			for range 5 {
				w.cluster.produce(b, numbered(1)...)
				pass(time.Second)
			}
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 5)
			if w.cluster.fetched() > 40 {
				w.t.Errorf("fetches in 5 s = %d, want no hot loop", w.cluster.fetched())
			}
			w.cluster.set(func() { w.cluster.log(a).err = nil })
			pass(6 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			_ = stop()
		},
		"ADamagedBatchIsFetchedAgainAndGivenUp": func(w *world) {
			w.cluster.set(func() {
				w.cluster.log(a).damage = &broker.Record{Defect: &broker.Defect{Reason: "the checksum does not match", Last: 1}}
				w.cluster.log(a).next = 2
			})
			w.cluster.produce(a, numbered(3)...)
			_, stop := w.start(a)
			pass(5 * time.Second)
			_ = stop()
			got := w.messages("a.dlq.v1")
			if len(got) != 4 || got[0].Record.State != entity.ValueUnreadable || got[0].Record.LastOffset != 1 || got[1].Source.Offset != 2 {
				w.t.Errorf("messages = %d, the first %+v; want a placeholder for 0 to 1, and three", len(got), got[0].Record)
			}
			if tries := w.cluster.log(a).tries; tries != 3 {
				w.t.Errorf("fetches of the damaged batch = %d, want 3", tries)
			}
		},
		"APartitionWithoutALeaderDoesNotStopItsNeighbours": func(w *world) {
			w.cluster.set(func() { w.cluster.log(a).leader = -1 })
			w.cluster.produce(a, numbered(3)...)
			_, stop := w.start(a, b)
			w.cluster.produce(b, numbered(5)...)
			pass(time.Second)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 5)
			if w.i.CheckKafka() == nil {
				w.t.Error("CheckKafka = nil, want that a partition has no leader")
			}
			w.cluster.set(func() { w.cluster.log(a).leader = 2 })
			pass(6 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			if err := w.i.CheckKafka(); err != nil {
				w.t.Errorf("CheckKafka = %v, want nil once it has one", err)
			}
			_ = stop()
		},
		"ATopicThatIsGoneDoesNotStopTheOthers": func(w *world) {
			gone := part("gone.dlq.v1", 0)
			_, stop := w.start(a, gone)
			w.cluster.produce(a, numbered(5)...)
			pass(time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 5)
			if err := w.i.CheckKafka(); err != nil {
				w.t.Errorf("CheckKafka = %v, want nil: Kafka answers", err)
			}
			_ = stop()
		},
		"FollowsALeaderThatMoves": func(w *world) {
			_, stop := w.start(a, b)
			for n := range 5 {
				w.cluster.set(func() { w.cluster.log(a).leader = int32(n % 3) })
				w.cluster.produce(a, numbered(2)...)
				w.cluster.produce(b, numbered(2)...)
				pass(2 * time.Second)
			}
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 10)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 10)
		},
		"KafkaAwayIsWaitedOutWithoutAHotLoop": func(w *world) {
			_, stop := w.start(a)
			pass(time.Second)
			w.cluster.set(func() { w.cluster.down = errDown })
			before := w.cluster.fetched()
			pass(time.Minute)
			if n := w.cluster.fetched() - before; n > 60 {
				w.t.Errorf("requests in a minute without Kafka = %d, want a few", n)
			}
			if err := w.i.CheckKafka(); !errors.Is(err, errDown) {
				w.t.Errorf("CheckKafka = %v, want %v", err, errDown)
			}
			w.cluster.set(func() { w.cluster.down = nil })
			w.cluster.produce(a, numbered(3)...)
			pass(6 * time.Second)
			if err := w.i.CheckKafka(); err != nil {
				w.t.Errorf("CheckKafka = %v, want nil when Kafka is back", err)
			}
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			_ = stop()
		},
		"KafkaAwayAtTheBeginningIsWaitedOut": func(w *world) {
			w.cluster.set(func() { w.cluster.down = errDown })
			w.cluster.produce(a, numbered(3)...)
			_, stop := w.start(a)
			pass(time.Minute)
			w.cluster.set(func() { w.cluster.down = nil })
			pass(6 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			_ = stop()
		},
		"StoreAwayIsWaitedOutAndNothingIsCommitted": func(w *world) {
			w.store.set(func() { w.store.fail = func() error { return errDown } })
			w.cluster.produce(a, numbered(5)...)
			_, stop := w.start(a)
			pass(10 * time.Minute)
			if n := w.store.called(); n > 150 {
				w.t.Errorf("store called %d times in 10 minutes, want back-off", n)
			}
			if got := w.commitsSeen()[a]; got != 0 {
				w.t.Errorf("committed offset = %d, want 0 while nothing is stored", got)
			}
			if err := w.i.CheckDatabase(); !errors.Is(err, errDown) {
				w.t.Errorf("CheckDatabase = %v, want %v", err, errDown)
			}
			w.store.set(func() { w.store.fail = nil })
			pass(7 * time.Second)
			if err := w.i.CheckDatabase(); err != nil {
				w.t.Errorf("CheckDatabase = %v, want nil when the store is back", err)
			}
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 5)
			w.wantCommitted(a, 5)
			_ = stop()
		},
		"AnAnswerThatWasLostAfterStoringIsNoFence": func(w *world) {
			n := 0
			w.store.set(func() {
				w.store.lose = func() error {
					if n++; n%2 == 1 {
						return entity.ErrUnavailable
					}
					return nil
				}
			})
			ended, stop := w.start(a)
			for range 5 {
				w.cluster.produce(a, numbered(3)...)
				pass(2 * time.Second)
			}
			select {
			case err := <-ended:
				w.t.Fatalf("generation ended with %v, want it to go on", err)
			default:
			}
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 15)
			w.wantCommitted(a, 15)
		},
		"AFencedBatchEndsTheGenerationAndIsReadAgain": func(w *world) {
			ended, _ := w.start(a)
			pass(time.Second)
			// Another ingester stores half of what comes.
			w.store.set(func() {
				w.store.before = func(batch repository.Batch) {
					w.store.set(func() { w.store.before = nil })
					r := batch.Ranges[0]
					_, err := w.store.Store.Store(context.Background(), repository.Batch{
						Ranges: []repository.Range{{Partition: r.Partition, From: r.From, To: r.From + 2}}, Messages: batch.Messages[:2],
					})
					if err != nil {
						w.t.Error(err)
					}
				}
			})
			w.cluster.produce(a, numbered(5)...)
			pass(2 * time.Second)
			select {
			case err := <-ended:
				if !errors.Is(err, errFenced) {
					w.t.Errorf("generation = %v, want %v", err, errFenced)
				}
			default:
				w.t.Fatal("generation goes on, want it to end")
			}
			if got := w.commitsSeen()[a]; got > 2 {
				w.t.Errorf("committed offset = %d, want at most 2", got)
			}
			_, stop := w.start(a)
			pass(2 * time.Second)
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 5)
		},
		"ATopicMadeAgainBetweenFetchAndStoreIsNotMixed": func(w *world) {
			w.cluster.produce(a, numbered(3)...)
			_, stop := w.start(a)
			pass(time.Second)
			once := false
			w.cluster.set(func() {
				w.cluster.duringFetch = func() {
					if w.cluster.log(a).next == 8 && !once {
						once = true
						w.cluster.topic("a.dlq.v1", "second", 2)
						w.cluster.produce(a, numbered(7)...)
					}
				}
			})
			w.cluster.produce(a, numbered(5)...) // these go with the old topic
			pass(3 * time.Second)
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			w.wantOffsets("a.dlq.v1", 2, 0, 0, 7)
			w.wantCommitted(a, 7)
		},
		"ATopicDeletedAndMadeAgainStartsOver": func(w *world) {
			w.cluster.produce(a, numbered(3)...)
			_, stop := w.start(a, b)
			pass(time.Second)
			w.cluster.set(func() { delete(w.cluster.topics, "a.dlq.v1") })
			pass(3 * time.Second)
			w.cluster.topic("a.dlq.v1", "second", 2)
			w.cluster.produce(a, numbered(6)...)
			w.cluster.produce(b, numbered(1)...)
			pass(15 * time.Second)
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			w.wantOffsets("a.dlq.v1", 2, 0, 0, 6)
			w.wantOffsets("a.dlq.v1", 2, 1, 0, 1)
		},
		"ReturnsSoonWhileTheStoreHangs": func(w *world) {
			hang := make(chan struct{})
			_, stop := w.start(a)
			pass(time.Second)
			w.store.set(func() { w.store.hang = hang })
			w.cluster.produce(a, numbered(3)...)
			pass(time.Second)
			start := time.Now()
			_ = stop()
			if took := time.Since(start); took > 3*time.Second {
				w.t.Errorf("generation ended after %s, want 3 s at most", took)
			}
			// The call that was left behind takes effect later, and harms nobody.
			w.store.set(func() { w.store.hang = nil })
			_, stop = w.start(a)
			pass(time.Second)
			close(hang)
			pass(time.Second)
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			if n := w.i.abandoned.Load(); n != 0 {
				w.t.Errorf("abandoned calls = %d, want 0 when they came back", n)
			}
		},
		"LeavesFewCallsBehindWhileTheStoreHangsForLong": func(w *world) {
			hang := make(chan struct{})
			_, stop := w.start(a, b)
			pass(time.Second)
			w.store.set(func() { w.store.hang = hang })
			w.cluster.produce(a, numbered(3)...)
			w.cluster.produce(b, numbered(3)...)
			pass(20 * time.Minute)
			if n := w.i.abandoned.Load(); n < 1 || n > maxAbandoned+1 {
				w.t.Errorf("calls left behind in 20 minutes = %d, want 1 to %d", n, maxAbandoned+1)
			}
			w.store.set(func() { w.store.hang = nil })
			close(hang)
			pass(10 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 3)
			_ = stop()
		},
		"WithoutPartitionsItWaitsAndIsWell": func(w *world) {
			w.i.health.set(databaseHealth, errDown)
			_, stop := w.start()
			pass(time.Minute)
			if err := w.i.CheckDatabase(); err != nil {
				w.t.Errorf("CheckDatabase = %v, want nil: nothing of ours depends on it", err)
			}
			if err := stop(); err != nil {
				w.t.Errorf("generation = %v, want nil", err)
			}
		},
		"AThrottleIsObeyed": func(w *world) {
			w.cluster.set(func() { w.cluster.throttle = 10 * time.Second })
			w.cluster.produce(a, numbered(3)...)
			_, stop := w.start(a)
			pass(time.Minute)
			if w.cluster.fetched() > 20 {
				w.t.Errorf("fetches in a minute = %d, want about one each 10 s", w.cluster.fetched())
			}
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			_ = stop()
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.cluster.topic("a.dlq.v1", "first", 2)
				test(w)
			})
		})
	}
}

func (w *world) set(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *world) wantCommitted(tp broker.TopicPartition, want int64) {
	w.t.Helper()
	if got := w.commitsSeen()[tp]; got != want {
		w.t.Errorf("committed offset of %s = %d, want %d", tp, got, want)
	}
}

// wantPosition checks the store's position in the first life of a topic.
func (w *world) wantPosition(tp broker.TopicPartition, want int64) {
	w.t.Helper()
	key := repository.Partition{Incarnation: 1, Partition: tp.Partition}
	got, err := w.store.Store.OpenPosition(context.Background(), []repository.Position{{Partition: key, Next: -1}})
	if err != nil || got[0].Next != want {
		w.t.Errorf("position of %s = %v, %v; want %d", tp, got, err, want)
	}
}
