package archive

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A bubble of testing/synctest begins at midnight UTC, 2000-01-01.
func TestRunOnSchedule(t *testing.T) {
	t.Parallel()

	t.Run("RunsAtItsTimesInUTC", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var at []string
			f := newFixture(&fakeStore{during: func(context.Context) { at = append(at, time.Now().UTC().Format(time.DateTime)) }})
			stop := f.start(t, "0 3 * * *")
			wait(48 * time.Hour)
			stop()
			if got, want := strings.Join(at, ", "), "2000-01-01 03:00:00, 2000-01-02 03:00:00"; got != want {
				t.Errorf("ran at %s, want %s", got, want)
			}
		})
	})

	t.Run("NeverOverlaps", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			running, most, runs := 0, 0, 0
			f := newFixture(&fakeStore{during: func(context.Context) {
				running++
				runs++
				most = max(most, running)
				wait(150 * time.Second)
				running--
			}})
			stop := f.start(t, "* * * * *")
			wait(10*time.Minute + time.Second)
			stop()
			if most != 1 || runs < 2 {
				t.Errorf("got %d runs, %d at once, want several, 1 at once", runs, most)
			}
			if f.lines.FilterMessageSnippet("left out").Len() == 0 {
				t.Error("got no line about runs left out, want one each")
			}
		})
	})

	t.Run("GoesOnAfterAFailure", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(&fakeStore{lockErr: errStore})
			stop := f.start(t, "@hourly")
			wait(3*time.Hour + time.Second)
			stop()
			if got := f.lines.FilterMessageSnippet("could not start").Len(); got != 3 {
				t.Errorf("got %d lines about failures, want 3", got)
			}
		})
	})

	t.Run("LetsARunFinishWhenStopped", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(&fakeStore{during: func(ctx context.Context) { pause(ctx, 10*time.Second) }})
			stop := f.start(t, "0 1 * * *")
			wait(time.Hour + time.Second)
			began := time.Now()
			stop()
			if took := time.Since(began); took != 9*time.Second {
				t.Errorf("stopped after %s, want 9s: what the run still needed", took)
			}
			wantCalls(t, f.store, "partitions 2", "archive 30 1000", "quarters 365 1000", "purge 365 1000", "bookkeeping 365 730 1000", "unlock")
		})
	})

	t.Run("CancelsARunThatTakesTooLongToFinish", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(&fakeStore{during: func(ctx context.Context) { pause(ctx, time.Hour) }})
			stop := f.start(t, "0 1 * * *")
			wait(time.Hour + time.Second)
			began := time.Now()
			stop()
			if took := time.Since(began); took != drainTime {
				t.Errorf("stopped after %s, want %s", took, drainTime)
			}
			wantCalls(t, f.store, "partitions 2", "archive 30 1000", "unlock")
		})
	})
}

func TestParseSchedule(t *testing.T) {
	t.Parallel()

	for _, good := range []string{"0 3 * * *", "*/15 * * * 1-5", "@daily", "@every 1h", "0 0 29 2 *"} {
		if _, err := parseSchedule(good); err != nil {
			t.Errorf("%q: got %v, want nil", good, err)
		}
	}
	for bad, want := range map[string]string{
		"":                         "five cron fields",
		"daily":                    "five cron fields",
		"0 0 3 * * *":              "five cron fields",
		"61 * * * *":               "five cron fields",
		"CRON_TZ=Asia/X 0 3 * * *": "times are in UTC",
		"TZ=":                      "times are in UTC",
		"0 0 30 2 *":               "never comes",
	} {
		f := newFixture(&fakeStore{})
		err := f.RunOnSchedule(t.Context(), bad)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", bad, err, want)
		}
	}
}

// start runs the schedule and returns what ends it and waits for the end.
func (f fixture) start(t *testing.T, schedule string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.RunOnSchedule(ctx, schedule) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v, want nil", err)
		}
	}
}

// wait moves the bubble's clock.
func wait(d time.Duration) { <-time.After(d) }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
