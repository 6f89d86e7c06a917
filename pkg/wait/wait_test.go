package wait

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Sleep(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("slept %s, want a minute", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if Sleep(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("slept %s, want only until the context ended", time.Since(began))
		}
	})
}

func TestReady(t *testing.T) {
	t.Parallel()
	refused, late := errors.New("refused"), errors.New("i/o timeout")
	const timeout, pause = 3 * time.Second, time.Second
	untilLate := func(ctx context.Context) error { // as a connection whose deadline is that of the context
		deadline, _ := ctx.Deadline()
		Sleep(context.WithoutCancel(ctx), time.Until(deadline))
		return late
	}
	for name, c := range map[string]struct {
		try  func(ctx context.Context, n int) error
		want error
	}{
		"ReadyAtTheThirdTry": {func(_ context.Context, n int) error {
			if n < 3 {
				return refused
			}
			return nil
		}, nil},
		"TheLastErrorInTime": {func(ctx context.Context, n int) error {
			if n < 3 {
				return refused
			}
			return untilLate(ctx)
		}, refused},
		"NoneInTime": {func(ctx context.Context, _ int) error { return untilLate(ctx) }, late},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := 0
				try := func(ctx context.Context) error { n++; return c.try(ctx, n) }
				if got := Ready(t.Context(), timeout, pause, try); got != c.want { //nolint:errorlint // this very error
					t.Errorf("Ready = %v after %d tries, want %v", got, n, c.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if got := Ready(ctx, timeout, pause, untilLate); !errors.Is(got, context.Canceled) {
			t.Errorf("Ready of a cancelled context = %v, want its error", got)
		}
	})
}

func TestBackoffAfter(t *testing.T) {
	t.Parallel()
	b := Backoff{Base: 2 * time.Second, Max: 256 * time.Second, Jitter: 0.1}
	cases := []struct {
		name    string
		attempt int
		random  float64
		want    time.Duration
	}{
		{"FirstWaitsTheBase", 1, 0.5, 2 * time.Second},
		{"EachDoubles", 2, 0.5, 4 * time.Second},
		{"EighthIsTheLongest", 8, 0.5, 256 * time.Second},
		{"StaysAtTheLongest", 9, 0.5, 256 * time.Second},
		{"HugeNumbersDoNotOverflow", 1 << 30, 0.5, 256 * time.Second},
		{"NumbersBelowOneAreTheFirst", 0, 0.5, 2 * time.Second},
		{"JitterTakesATenth", 1, 0, 1800 * time.Millisecond},
		{"JitterAddsATenth", 1, 1, 2200 * time.Millisecond},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := b.After(c.attempt, c.random); got != c.want {
				t.Errorf("After(%d, %v) = %s, want %s", c.attempt, c.random, got, c.want)
			}
		})
	}
}
