package budget

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// One client gets at most half of a budget, all clients together get the whole budget, and a waiting client gets units
// that are released.
func TestBudgetIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, ctx := New(10), t.Context()
		wait := func(who string, n int64, want error, after time.Duration) {
			t.Helper()
			began := time.Now()
			if err := b.Wait(ctx, who, n); !errors.Is(err, want) || (err == nil) != (want == nil) {
				t.Errorf("%d for %s: %v, want %v", n, who, err, want)
			}
			if took := time.Since(began); took != after {
				t.Errorf("%d for %s took %s, want %s", n, who, took, after)
			}
		}
		wait("a", 5, nil, 0)
		wait("a", 1, ErrShare, Timeout)
		wait("b", 6, ErrFull, 0) // b asks for more than a share, which no client ever gets
		wait("b", 3, nil, 0)
		wait("c", 3, ErrFull, Timeout)
		if b.Try("c", 3) || !b.Try("c", 2) {
			t.Error("try takes what is not there, or not what is")
		}

		granted := make(chan string)
		for _, who := range []string{"a", "c"} { // a has used up its share, so it waits; this must not delay c, which asks later
			go func() {
				if err := b.Wait(ctx, who, 2); err == nil {
					granted <- who
				}
			}()
			synctest.Wait()
		}
		b.Release("b", 3)
		if who := <-granted; who != "c" {
			t.Errorf("%s got what b had, want c", who)
		}
		b.Release("a", 5)
		if who := <-granted; who != "a" {
			t.Errorf("%s got its share, want a", who)
		}

		left, leave := context.WithCancel(ctx)
		gone := make(chan error)
		go func() { gone <- b.Wait(left, "d", 5) }()
		synctest.Wait()
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) || len(b.waiting) != 0 {
			t.Errorf("after the client left: %v, %d waiters, want the context's error and none", err, len(b.waiting))
		}
		b.Release("a", 2)
		b.Release("c", 4)
		if b.used != 0 || len(b.by) != 0 {
			t.Errorf("%d are used by %v, want none", b.used, b.by)
		}
	})
}
