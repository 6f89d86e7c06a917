package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

func TestSteadily(t *testing.T) {
	t.Parallel()
	t.Run("AsksAtItsRateAndCountsFailures", func(t *testing.T) {
		t.Parallel()
		var seen [200]atomic.Int64
		wrong := errors.New("wrong")
		l, err := steadily(t.Context(), 3, 2000, 100*time.Millisecond, func(_, n int) error {
			seen[n].Add(1)
			if n%100 == 7 {
				return wrong
			}
			return nil
		})
		if err != nil || len(l.times) != 198 || l.n != 198 || l.failed != 2 || l.late != 0 || !errors.Is(l.first, wrong) || l.good() {
			t.Errorf("steadily = %d answers, %d failed (%v), %d late, %v, want 198, 2, 0", len(l.times), l.failed, l.first, l.late, err)
		}
		if l.took < 99*time.Millisecond {
			t.Errorf("200 requests at 2000 a second took %s, want not less than the last is due", l.took)
		}
		for n := range seen {
			if got := seen[n].Load(); got != 1 {
				t.Errorf("request %d was asked %d times, want once", n, got)
			}
		}
	})
	t.Run("CountsFromWhenARequestWasDue", func(t *testing.T) {
		t.Parallel()
		// One connection that answers its first request only after all others are due.
		l, err := steadily(t.Context(), 1, 1000, 50*time.Millisecond, func(_, n int) error {
			if n == 0 {
				await(context.Background(), 60*time.Millisecond)
			}
			return nil
		})
		if err != nil || !l.good() || len(l.times) != 50 || percentile(l.times, 50) < 30*time.Millisecond {
			t.Errorf("steadily = %d answers, p50 %s, %v, want 50 that waited behind the first", len(l.times), percentile(l.times, 50), err)
		}
	})
	t.Run("EndsWithItsContext", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		l, err := steadily(ctx, 2, 10, time.Hour, func(int, int) error { cancel(); return nil })
		if !errors.Is(err, context.Canceled) || l.late == 0 {
			t.Errorf("steadily = %d late, %v, want those that were not asked and %v", l.late, err, context.Canceled)
		}
	})
}
