package archive

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// In this test, time begins at midnight UTC on 2000-01-01, as in every bubble of testing/synctest.
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
			check.Same(t, strings.Join(at, ", "), "2000-01-01 03:00:00, 2000-01-02 03:00:00", "ran at")
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
			check.True(t, most == 1 && runs >= 2, "got %d runs, %d at once, want several, 1 at once", runs, most)
			check.True(t, f.lines.FilterMessageSnippet("skipped").Len() != 0, "got no line about runs left out, want one each")
		})
	})

	t.Run("GoesOnAfterAFailure", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(&fakeStore{lockErr: errStore})
			stop := f.start(t, "@hourly")
			wait(3*time.Hour + time.Second)
			stop()
			check.Same(t, f.lines.FilterMessageSnippet("could not start").Len(), 3, "lines about failures")
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
			check.Same(t, time.Since(began), 9*time.Second, "stopped after, want 9s: what the run still needed")
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
			check.Same(t, time.Since(began), drainTime, "stopped after")
			wantCalls(t, f.store, "partitions 2", "archive 30 1000", "unlock")
		})
	})
}

func TestParseSchedule(t *testing.T) {
	t.Parallel()

	for _, good := range []string{"0 3 * * *", "*/15 * * * 1-5", "@daily", "@every 1h", "0 0 29 2 *"} {
		check.Must(parseSchedule(good))(t)
	}
	for bad, want := range map[string]string{
		"":                         "five cron fields",
		"daily":                    "five cron fields",
		"0 0 3 * * *":              "five cron fields",
		"61 * * * *":               "five cron fields",
		"CRON_TZ=Asia/X 0 3 * * *": "times are in UTC",
		"TZ=":                      "times are in UTC",
		"0 0 30 2 *":               "never occurs",
	} {
		f := newFixture(&fakeStore{})
		err := f.RunOnSchedule(t.Context(), bad)
		check.True(t, err != nil && strings.Contains(err.Error(), want), "%q: got %v, want %q", bad, err, want)
	}
}

// start runs the schedule and returns a function that ends it and waits for its end.
func (f fixture) start(t *testing.T, schedule string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.RunOnSchedule(ctx, schedule) }()
	synctest.Wait()
	return func() {
		cancel()
		check.NoError(t, <-done)
	}
}

// wait advances the clock of the synctest bubble by d.
func wait(d time.Duration) { <-time.After(d) }

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
