package ingest

import (
	"fmt"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

func TestIdle(t *testing.T) {
	t.Parallel()
	a, b := part("a.dlq.v1", 0), part("a.dlq.v1", 1)
	tests := map[string]func(w *world){
		"AsksSeldom": func(w *world) {
			w.start(a, b)
			pass(time.Minute)
			before := w.cluster.fetched()
			pass(10 * time.Minute)
			if n := w.cluster.fetched() - before; n > 250 { // 12 requests a minute, each counted twice, are 240
				w.t.Errorf("requests in 10 idle minutes = %d, want 12 a minute", n)
			}
		},
		"StoresTheFirstRecordAtOnce": func(w *world) {
			w.start(a, b)
			pass(10 * time.Minute)
			for n := range int64(3) {
				w.cluster.produce(b, numbered(1)...)
				pass(time.Millisecond)
				w.wantOffsets("a.dlq.v1", 1, 1, 0, n+1)
			}
		},
		"EndsAtOnce": func(w *world) {
			_, stop := w.start(a, b)
			pass(time.Minute)
			start := time.Now()
			check.Equal(w.t, stop(), nil, "generation")
			took := time.Since(start)
			check.True(w.t, took <= 0, "generation ended after %s, want at once", took)
		},
		"APartitionThatComesBackIsAskedForAtOnce": func(w *world) {
			w.cluster.set(func() { w.cluster.log(b).leader = 2 })
			w.start(a, b)
			pass(10 * time.Minute)
			// The leader of b is now the broker at which a fetcher already waits for records of a.
			w.cluster.set(func() { w.cluster.log(b).leader = 1 })
			pass(time.Second)
			w.cluster.produce(b, numbered(1)...)
			pass(time.Millisecond)
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 1)
		},
		"APartitionThatRestsIsAskedForAgainInTime": func(w *world) {
			w.start(a, b)
			pass(10 * time.Minute)
			w.cluster.set(func() { w.cluster.log(a).err = broker.ErrUnauthorized })
			pass(time.Second)
			w.cluster.set(func() { w.cluster.log(a).err = nil })
			w.cluster.produce(a, numbered(1)...)
			pass(partitionBackoff)
			w.wantOffsets("a.dlq.v1", 1, 0, 0, 1)
		},
		"LeadersThatWaitLeaveTheBufferToTheOthers": func(w *world) {
			const leaders = 40 // number of leaders, so high that full reservations for all of them would exceed the buffer many times
			w.cluster.topic("wide.dlq.v1", "wide", leaders)
			var parts []broker.TopicPartition
			for n := range int32(leaders) {
				parts = append(parts, part("wide.dlq.v1", n))
				w.cluster.set(func() { w.cluster.log(parts[n]).leader = n })
			}
			w.start(parts...)
			pass(10 * time.Minute)
			for n, tp := range parts {
				w.cluster.produce(tp, numbered(1)...)
				pass(time.Millisecond)
				got := len(w.messages("wide.dlq.v1"))
				check.Require(w.t, got == n+1, "messages = %d, want %d at once", got, n+1)
			}
		},
	}
	for name, test := range tests {
		t.Run(name, bubble(func(w *world) {
			w.cluster.topic("a.dlq.v1", "first", 2)
			test(w)
		}))
	}
}

// TestFetcherMissesNoPartition: the records of a partition that gets a leader at any moment of a long wait are stored.
func TestFetcherMissesNoPartition(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Millisecond, fetchWait, idleWait, 4*idleWait - 1, 4 * idleWait, 4*idleWait + 1} {
		t.Run(fmt.Sprint(after), bubble(func(w *world) {
			w.cluster.topic("a.dlq.v1", "first", 2)
			a, b := part("a.dlq.v1", 0), part("a.dlq.v1", 1)
			w.cluster.set(func() { w.cluster.log(b).leader = -1 })
			w.start(a, b)
			pass(10*time.Minute + after)
			w.cluster.produce(b, numbered(3)...)
			w.cluster.set(func() { w.cluster.log(b).leader = 1 })
			pass(5*time.Second + time.Millisecond) // longer than the pause of a partition that has no leader
			w.wantOffsets("a.dlq.v1", 1, 1, 0, 3)
		}))
	}
}
