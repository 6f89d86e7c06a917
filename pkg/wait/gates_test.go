package wait

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestGates: for each key only some callers are inside at a time, a caller that stops waiting takes no place, and
// nothing is kept.
func TestGates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gates := NewGates[string](3)
		var inside, most atomic.Int64
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				leave, err := gates.Enter(t.Context(), "a")
				check.NoError(t, err)
				if n := inside.Add(1); n > most.Load() {
					most.Store(n)
				}
				Sleep(t.Context(), time.Minute)
				inside.Add(-1)
				leave()
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.Is(t, check.Err(gates.Enter(ctx, "a")), context.DeadlineExceeded, "Enter of a full gate")
		leave, err := gates.Enter(t.Context(), "b")
		check.NoError(t, err)
		leave()
		all.Wait()
		check.Equal(t, most.Load(), int64(3), "callers inside")
		check.Equal(t, len(gates.gates), 0, "gates that are kept")
	})
}
