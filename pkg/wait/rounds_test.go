package wait

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// TestRounds_Shared: callers that come while a request is under way share the next one, and nobody gets the answer of a
// request that began before the call.
func TestRounds_Shared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rounds Rounds[string, int64]
		var calls atomic.Int64
		ask := func(context.Context) (int64, error) {
			n := calls.Add(1)
			Sleep(t.Context(), 100*time.Millisecond)
			return n, nil
		}
		var all sync.WaitGroup
		call := func(want int64) {
			all.Go(func() {
				got, err := rounds.Ask(t.Context(), "orders", ask)
				check.True(t, err == nil && got == want, "answer %d, %v, want that of request %d", got, err, want)
			})
		}
		call(1)
		synctest.Wait()
		for range 1000 {
			call(2)
		}
		synctest.Wait()
		other, err := rounds.Ask(t.Context(), "payments", func(context.Context) (int64, error) { return -1, nil })
		check.True(t, err == nil && other == -1, "another question = %d, %v, want an answer at once", other, err)
		all.Wait()
		check.Equal(t, calls.Load(), int64(2), "requests")
		check.Equal(t, len(rounds.asked), 0, "questions that are kept")
	})
}

// TestRounds_Hanging: a request that hangs delays the next one a little, and a caller that leaves ends no request.
func TestRounds_Hanging(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var rounds Rounds[string, int]
		hanging, release := context.WithCancel(t.Context())
		gone, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		var first sync.WaitGroup
		first.Go(func() {
			_, err := rounds.Ask(gone, "orders", func(ctx context.Context) (int, error) {
				<-hanging.Done()
				return 1, ctx.Err()
			})
			check.True(t, errors.Is(err, context.DeadlineExceeded), "the caller that left got %v", err)
		})
		synctest.Wait()
		began := time.Now()
		got, err := rounds.Ask(t.Context(), "orders", func(context.Context) (int, error) { return 2, nil })
		check.True(t, err == nil && got == 2 && time.Since(began) == roundPatience, "answer %d, %v after %s", got, err, time.Since(began))
		first.Wait()
		release()
		synctest.Wait()
		check.Equal(t, len(rounds.asked), 0, "questions that are kept")
	})
}
