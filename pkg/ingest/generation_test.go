package ingest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

var errDown = errors.New("down")

// pass advances the fake time by d and waits until all goroutines block.
func pass(d time.Duration) {
	<-time.After(d) // fake time: it takes no real time
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
			check.Equal(w.t, stop(), nil, "generation")
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 2500)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 5)
			w.wantCommitted(a, 2500)
			w.wantCommitted(b, 5)
		},
		"GoesOnFromTheStoresPosition": func(w *world) {
			w.cluster.produce(a, numbered(10)...)
			for range 3 {
				w.start(a)
				pass(2 * time.Second)
				w.cluster.produce(a, numbered(10)...)
				pass(2 * time.Second)
			}
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 40)
		},
		"CommitsTheStoresPositionsAlthoughNothingIsNew": func(w *world) {
			w.cluster.produce(a, numbered(10)...)
			w.commitErr = errDown
			w.runFor(3*time.Second, a)
			w.commitErr = nil
			w.runFor(3*time.Second, a)
			w.wantCommitted(a, 10)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 10)
		},
		"CommitsAgainWhatKafkaDidNotTake": func(w *world) {
			w.set(func() { w.commitErr = errDown })
			w.start(a)
			w.cluster.produce(a, numbered(4)...)
			pass(5 * time.Second)
			w.set(func() { w.commitErr = nil })
			pass(2 * time.Second)
			w.wantCommitted(a, 4)
		},
		"MovesAPositionBelowTheLogsStartAndCountsTheLoss": func(w *world) {
			w.cluster.produce(a, numbered(5)...)
			w.runFor(time.Second, a)
			w.cluster.produce(a, numbered(20)...)
			w.trim(a, 15)
			w.runFor(time.Second, a)
			check.Equal(w.t, testutil.ToFloat64(w.i.metrics.gaps.WithLabelValues("a.dlq.v1")), 10, "lost records counted")
			check.Equal(w.t, len(w.messages("a.dlq.v1")), 15, "messages, 5 and the 10 that were left")
		},
		"CountsALossOnceThoughTheStoreTakesItLate": func(w *world) {
			w.cluster.produce(a, numbered(10)...)
			w.runFor(time.Second, a)
			w.cluster.produce(a, numbered(10)...)
			w.trim(a, 15)
			w.storeDown(true)
			for range 3 {
				_, stop := w.start(a)
				pass(time.Second)
				check.Is(w.t, stop(), errDown, "generation")
			}
			w.storeDown(false)
			w.runFor(time.Second, a)
			check.Equal(w.t, testutil.ToFloat64(w.i.metrics.gaps.WithLabelValues("a.dlq.v1")), 5, "lost records counted")
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
			w.storeDown(true)
			w.cluster.produce(a, numbered(5)...)
			ended, stop := w.start(a)
			pass(time.Second)
			w.cluster.set(func() { log := w.cluster.log(a); log.start, log.next, log.records = 50, 50, nil })
			pass(3 * time.Second)
			w.storeDown(false)
			pass(10 * time.Second)
			check.Require(w.t, len(ended) == 0, "generation ended, want it to go on")
			w.cluster.produce(a, numbered(2)...)
			pass(3 * time.Second)
			_ = stop()
			if got := w.messages("a.dlq.v1"); len(got) != 7 || got[4].Source.Offset != 4 || got[5].Source.Offset != 50 {
				w.t.Errorf("messages = %d, want the 5 that were fetched and the 2 after the gap", len(got))
			}
			w.wantCommitted(a, 52)
		},
		"DoesNotTakeALogForCutBecauseAnotherIngesterHasReadOn": func(w *world) {
			w.cluster.produce(a, numbered(5)...)
			w.runFor(time.Second, a)
			slow := make(chan struct{})
			w.store.set(func() { w.store.opening = slow })
			_, stop := w.start(a)
			pass(time.Second)
			w.cluster.produce(a, numbered(7)...)
			w.runFor(3*time.Second, a)
			close(slow)
			pass(3 * time.Second)
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 12)
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
			check.True(w.t, len(got) == 11, "messages = %d, want the 10 and the one after the cut", len(got))
		},
		"WithoutTopicIDsAnotherBatchAtThePositionIsANewLog": func(w *world) {
			old := part("old.dlq.v1", 0)
			w.cluster.topic("old.dlq.v1", "", 1)
			w.cluster.produce(old, numbered(10)...)
			w.runFor(time.Second, old)
			w.runFor(time.Second, old) // a second generation reads the log before the log is replaced
			w.wantOffsets("old.dlq.v1", 1, 0, 0, 10)
			w.cluster.topic("old.dlq.v1", "", 1)
			w.cluster.produce(old, numbered(12)...) // makes the new log longer than the part of the old log that was read
			w.runFor(time.Second, old)
			check.Equal(w.t, len(w.messages("old.dlq.v1")), 22, "messages of both logs")
		},
		"WithoutTopicIDsAShorterLogIsANewOne": func(w *world) {
			w.cluster.topic("old.dlq.v1", "", 1)
			w.cluster.produce(part("old.dlq.v1", 0), numbered(10)...)
			w.runFor(time.Second, part("old.dlq.v1", 0))
			w.cluster.topic("old.dlq.v1", "", 1)
			w.cluster.produce(part("old.dlq.v1", 0), numbered(4)...)
			w.runFor(time.Second, part("old.dlq.v1", 0))
			check.Equal(w.t, len(w.messages("old.dlq.v1")), 14, "messages of both logs")
		},
		"StepsOverControlRecords": func(w *world) {
			w.cluster.produce(a, numbered(2)...)
			w.cluster.set(func() { w.cluster.log(a).next += 2 })
			w.runFor(3*time.Second, a)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 2)
			w.wantCommitted(a, 4)
		},
		"APartitionThatCannotBeReadDoesNotStopItsNeighbours": func(w *world) {
			w.cluster.set(func() { w.cluster.log(a).err = broker.ErrCorrupt })
			w.cluster.produce(a, numbered(3)...)
			w.start(a, b)
			for range 5 {
				w.cluster.produce(b, numbered(1)...)
				pass(time.Second)
			}
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 5)
			check.True(w.t, w.cluster.fetched() <= 40, "fetches in 5 s = %d, want no hot loop", w.cluster.fetched())
			w.cluster.set(func() { w.cluster.log(a).err = nil })
			pass(6 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
		},
		"ADamagedBatchIsFetchedAgainAndGivenUp": func(w *world) {
			w.cluster.set(func() {
				w.cluster.log(a).damage = &broker.Record{Defect: &broker.Defect{Reason: "the checksum does not match", Last: 1}}
				w.cluster.log(a).next = 2
			})
			w.cluster.produce(a, numbered(3)...)
			w.runFor(5*time.Second, a)
			got := w.messages("a.dlq.v1")
			if len(got) != 4 || got[0].Record.State != entity.ValueUnreadable || got[0].Record.LastOffset != 1 || got[1].Source.Offset != 2 {
				w.t.Errorf("messages = %d, the first %+v; want a placeholder for 0 to 1, and three", len(got), got[0].Record)
			}
			check.Equal(w.t, w.cluster.log(a).tries, 3, "fetches of the damaged batch")
		},
		"APartitionWithoutALeaderDoesNotStopItsNeighbours": func(w *world) {
			w.cluster.set(func() { w.cluster.log(a).leader = -1 })
			w.cluster.produce(a, numbered(3)...)
			w.start(a, b)
			w.cluster.produce(b, numbered(5)...)
			pass(time.Second)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 5)
			check.True(w.t, w.i.CheckKafka() != nil, "CheckKafka = nil, want that a partition has no leader")
			w.cluster.set(func() { w.cluster.log(a).leader = 2 })
			pass(6 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			check.Equal(w.t, w.i.CheckKafka(), nil, "CheckKafka")
		},
		"ATopicThatIsGoneDoesNotStopTheOthers": func(w *world) {
			gone := part("gone.dlq.v1", 0)
			w.start(a, gone)
			w.cluster.produce(a, numbered(5)...)
			pass(time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 5)
			check.Equal(w.t, w.i.CheckKafka(), nil, "CheckKafka")
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
			w.start(a)
			pass(time.Second)
			w.cluster.set(func() { w.cluster.down = errDown })
			before := w.cluster.fetched()
			pass(time.Minute)
			n := w.cluster.fetched() - before
			check.True(w.t, n <= 60, "requests in a minute without Kafka = %d, want a few", n)
			check.Is(w.t, w.i.CheckKafka(), errDown, "CheckKafka")
			w.cluster.set(func() { w.cluster.down = nil })
			w.cluster.produce(a, numbered(3)...)
			pass(6 * time.Second)
			check.Equal(w.t, w.i.CheckKafka(), nil, "CheckKafka")
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
		},
		"KafkaAwayAtTheBeginningIsWaitedOut": func(w *world) {
			w.cluster.set(func() { w.cluster.down = errDown })
			w.cluster.produce(a, numbered(3)...)
			w.start(a)
			pass(time.Minute)
			w.cluster.set(func() { w.cluster.down = nil })
			pass(6 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
		},
		"StoreAwayIsWaitedOutAndNothingIsCommitted": func(w *world) {
			w.storeDown(true)
			w.cluster.produce(a, numbered(5)...)
			w.start(a)
			pass(10 * time.Minute)
			n := w.store.called()
			check.True(w.t, n <= 150, "store called %d times in 10 minutes, want back-off", n)
			check.Equal(w.t, w.commitsSeen()[a], 0, "committed offset while nothing is stored")
			check.Is(w.t, w.i.CheckDatabase(), errDown, "CheckDatabase")
			w.storeDown(false)
			pass(7 * time.Second)
			check.Equal(w.t, w.i.CheckDatabase(), nil, "CheckDatabase")
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 5)
			w.wantCommitted(a, 5)
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
			check.Require(w.t, len(ended) == 0, "generation ended, want it to go on")
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 15)
			w.wantCommitted(a, 15)
		},
		"AFencedBatchIsReadAgainFromTheStoresPosition": func(w *world) {
			ended, _ := w.start(a, b)
			pass(time.Second)
			w.otherStores(2)
			w.cluster.produce(a, numbered(5)...)
			pass(2 * time.Second)
			check.Require(w.t, len(ended) == 0, "generation ended, want it to go on")
			w.cluster.produce(a, numbered(1)...)
			w.cluster.produce(b, numbered(1)...)
			pass(2 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 6)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 1)
			w.wantCommitted(a, 6)
		},
		"GoesOnWithoutAGenerationUntilTheSessionHasEnded": func(w *world) {
			reading := w.i.read(w.t.Context(), partitionsOf([]broker.TopicPartition{a}), w.commit)
			pass(time.Second)
			w.set(func() { w.commitErr = errDown }) // Kafka refuses the commits of an ended generation
			reading.over()
			reading.outlive(w.i.cfg.SessionTimeout)
			for range 5 {
				w.cluster.produce(a, numbered(1)...)
				pass(w.i.cfg.SessionTimeout / 6)
			}
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 5)
			check.Equal(w.t, testutil.ToFloat64(w.i.metrics.commitFailures), 0, "refused commits")
			pass(w.i.cfg.SessionTimeout)
			<-reading.ended
			w.set(func() { w.commitErr = nil })
			w.runFor(2*time.Second, a)
			w.wantCommitted(a, 5)
		},
		"WithoutAGenerationAFencedPartitionIsLeftToItsNewOwner": func(w *world) {
			reading := w.i.read(w.t.Context(), partitionsOf([]broker.TopicPartition{a, b}), w.commit)
			pass(time.Second)
			reading.over()
			w.otherStores(2)
			w.cluster.produce(a, numbered(5)...)
			pass(2 * time.Second)
			w.cluster.produce(b, numbered(3)...)
			pass(2 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 2)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 3)
		},
		"AGuestThatItsOwnerReadsIsLeftAlone": func(w *world) {
			parts := partitionsOf([]broker.TopicPartition{a})
			parts[0].guest = &guest{until: time.Now().Add(30 * time.Second)}
			w.i.read(w.t.Context(), parts, w.commit)
			_, stop := newOwner(w).start(a)
			for range 20 {
				w.cluster.produce(a, numbered(10)...)
				pass(time.Second / 4)
			}
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 200)
			check.Equal(w.t, testutil.ToFloat64(w.i.metrics.received.WithLabelValues("a.dlq.v1")), 0, "records that the guest read")
			// The owner dies.
			w.cluster.produce(a, numbered(10)...)
			pass(4 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 210)
		},
		"AGuestIsReadForAWhileAndNotCommitted": func(w *world) {
			parts := partitionsOf([]broker.TopicPartition{a, b})
			parts[1].guest = &guest{until: time.Now().Add(30 * time.Second)}
			w.i.read(w.t.Context(), parts, w.commit)
			pass(time.Second)
			w.cluster.produce(a, numbered(3)...)
			w.cluster.produce(b, numbered(3)...)
			pass(20 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 3)
			w.wantCommitted(a, 3)
			w.wantCommitted(b, 0)
			pass(20 * time.Second)
			w.cluster.produce(a, numbered(1)...)
			w.cluster.produce(b, numbered(1)...)
			pass(20 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 4)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 3)
			check.Equal(w.t, testutil.CollectAndCount(w.i.metrics.lag), 1, "partitions whose lag is shown")
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
			w.cluster.produce(a, numbered(5)...) // during the fetch of these records, the topic is deleted together with them
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
			took := time.Since(start)
			check.True(w.t, took <= 3*time.Second, "generation ended after %s, want 3 s at most", took)
			// The abandoned call ends only after the next generation has stored the same records. No record must be stored
			// twice.
			w.store.set(func() { w.store.hang = nil })
			_, stop = w.start(a)
			pass(time.Second)
			close(hang)
			pass(time.Second)
			_ = stop()
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			check.Equal(w.t, w.i.abandoned.Load(), 0, "abandoned calls when they came back")
		},
		"LeavesFewCallsBehindWhileTheStoreHangsForLong": func(w *world) {
			hang := make(chan struct{})
			w.start(a, b)
			pass(time.Second)
			w.store.set(func() { w.store.hang = hang })
			w.cluster.produce(a, numbered(3)...)
			w.cluster.produce(b, numbered(3)...)
			pass(20 * time.Minute)
			n := w.i.abandoned.Load()
			check.True(w.t, n >= 1 && n <= maxAbandoned+1, "abandoned calls in 20 minutes = %d, want 1 to %d", n, maxAbandoned+1)
			w.store.set(func() { w.store.hang = nil })
			close(hang)
			pass(10 * time.Second)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 3)
		},
		"WithoutPartitionsItWaitsAndIsWell": func(w *world) {
			w.i.health.Set(databaseHealth, errDown)
			_, stop := w.start()
			pass(time.Minute)
			check.Equal(w.t, w.i.CheckDatabase(), nil, "CheckDatabase")
			check.Equal(w.t, stop(), nil, "generation")
		},
		"AThrottleIsObeyed": func(w *world) {
			w.cluster.set(func() { w.cluster.throttle = 10 * time.Second })
			w.cluster.produce(a, numbered(3)...)
			w.start(a)
			pass(time.Minute)
			check.True(w.t, w.cluster.fetched() <= 20, "fetches in a minute = %d, want about one each 10 s", w.cluster.fetched())
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
		},
		// A small answer would not hold the record, and the bytes that the broker sent in vain would use up the quota again.
		"AThrottledAnswerIsNoQuietOne": func(w *world) {
			large := numbered(3)
			for n := range large {
				large[n].Value = make([]byte, 500_000)
			}
			w.cluster.set(func() { w.cluster.quota.bytes = 600_000 })
			w.cluster.produce(a, large...)
			w.start(a)
			pass(time.Minute)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 3)
		},
	}
	for name, test := range tests {
		t.Run(name, bubble(func(w *world) {
			w.cluster.topic("a.dlq.v1", "first", 2)
			test(w)
		}))
	}
}

// otherStores makes another ingester store the first n records of the next batch before this ingester does.
func (w *world) otherStores(n int) {
	w.store.set(func() {
		w.store.before = func(batch repository.Batch) {
			w.store.set(func() { w.store.before = nil })
			r := batch.Ranges[0]
			_, err := w.store.Store.Store(context.Background(), repository.Batch{
				Ranges:   []repository.Range{{Partition: r.Partition, From: r.From, To: r.From + int64(n)}},
				Messages: batch.Messages[:n],
			})
			if err != nil {
				w.t.Error(err)
			}
		}
	})
}

// newOwner returns another ingester with the same cluster and the same store.
func newOwner(w *world) *world {
	o := newWorld(w.t)
	o.cluster, o.store, o.i.cluster, o.i.stores = w.cluster, w.store, w.cluster, w.i.stores
	return o
}

// storeDown makes the fake store refuse every batch when down is true, and accept batches again when it is false.
func (w *world) storeDown(down bool) {
	w.store.set(func() {
		if w.store.fail = nil; down {
			w.store.fail = func() error { return errDown }
		}
	})
}

// trim deletes the records before the offset, as retention does.
func (w *world) trim(tp broker.TopicPartition, offset int64) {
	w.cluster.set(func() { log := w.cluster.log(tp); log.start, log.records = offset, log.records[offset:] })
}

func (w *world) set(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *world) wantCommitted(tp broker.TopicPartition, want int64) {
	w.t.Helper()
	check.Equal(w.t, w.commitsSeen()[tp], want, "committed offset of %s", tp)
}

// wantPosition checks the position that the store has for a partition of the topic's first incarnation.
func (w *world) wantPosition(tp broker.TopicPartition, want int64) {
	w.t.Helper()
	key := repository.Partition{Incarnation: 1, Partition: tp.Partition}
	got, err := w.store.Store.OpenPosition(context.Background(), []repository.Position{{Partition: key, Next: -1}})
	check.True(w.t, err == nil && got[0].Next == want, "position of %s = %v, %v; want %d", tp, got, err, want)
}
