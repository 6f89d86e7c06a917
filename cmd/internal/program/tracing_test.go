package program

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// StopTracing waits for lastSpans, but not longer than the time that is left for the shutdown.
func TestEndTime(t *testing.T) {
	t.Parallel()
	for drained, want := range map[time.Duration]time.Duration{
		-1: lastSpans, 0: lastSpans, 20 * time.Second: lastSpans,
		patience - lastWords - time.Second: time.Second, patience: -lastWords,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, tell := context.WithCancel(t.Context())
			defer tell()
			var e endTime
			e.watch(ctx)
			if drained >= 0 {
				tell()
				synctest.Wait()
				<-time.After(drained)
			}
			if got := time.Until(e.before(time.Now().Add(lastSpans))); got != want {
				t.Errorf("after %s: got %s, want %s", drained, got, want)
			}
		})
	}
	if until := time.Now(); !(*endTime)(nil).before(until).Equal(until) {
		t.Error("before ctx ends there is no end time")
	}
}
