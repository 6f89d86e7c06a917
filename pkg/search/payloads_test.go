package search

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// payloadQueue is a PayloadStore whose batches of 100 messages take a second each.
type payloadQueue struct {
	batches atomic.Int64
	crowded atomic.Bool
	away    atomic.Bool
}

func (q *payloadQueue) Crowded(context.Context) (bool, error) { return q.crowded.Load(), nil }

func (q *payloadQueue) FillPayloads(context.Context) (int, bool, error) {
	if q.away.Load() {
		return 0, false, errors.New("the database is away")
	}
	if q.batches.Load() == 0 {
		return 0, false, nil
	}
	<-time.After(time.Second)
	q.batches.Add(-1)
	return 100, true, nil
}

func (q *payloadQueue) PayloadLag(context.Context) (time.Duration, error) {
	return time.Duration(q.batches.Load()) * time.Minute, nil
}

// The filler works without a rest, but for half of the time while the store has more
// urgent work, and survives a database that goes away.
func TestPayloadFiller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &payloadQueue{}
		core, logs := observer.New(zap.InfoLevel)
		f := NewPayloadFiller(DefaultConfig(), store, prometheus.NewRegistry(), zap.New(core))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); f.Run(ctx) }()

		store.batches.Store(100)
		<-time.After(20 * time.Second)
		if left := store.batches.Load(); left > 82 {
			t.Errorf("%d batches are left after 20 s, want about 80", left)
		}
		if lag := testutil.ToFloat64(f.lag); lag < 80*60 {
			t.Errorf("the lag is %g s, want a minute for each batch that is left", lag)
		}
		store.crowded.Store(true)
		<-time.After(5 * time.Second)
		before := store.batches.Load()
		<-time.After(40 * time.Second)
		if filled := before - store.batches.Load(); filled < 19 || filled > 21 {
			t.Errorf("%d batches were filled in 40 s beside urgent work, want 20", filled)
		}
		store.away.Store(true)
		<-time.After(time.Minute)
		store.away.Store(false)
		store.crowded.Store(false)
		<-time.After(2 * time.Minute)
		if left, lag := store.batches.Load(), testutil.ToFloat64(f.lag); left != 0 || lag != 0 {
			t.Errorf("%d batches and a lag of %g s are left, want none", left, lag)
		}
		if n := testutil.ToFloat64(f.filled); n != 100*100 {
			t.Errorf("the metric has %g messages, want 10,000", n)
		}
		if logs.Len() != 2 {
			t.Errorf("got the log lines %v, want one when the database goes away and one when it is back", logs.All())
		}
		cancel()
		<-done
	})
}
