package auto

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// pace is a limiter whose clock the test sets.
type pace struct {
	*testing.T
	*limiter
	clock time.Time
}

func newPace(t *testing.T) *pace {
	t.Helper()
	return &pace{T: t, limiter: newLimiter(32), clock: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
}

func (p *pace) after(d time.Duration) *pace {
	p.clock = p.clock.Add(d)
	return p
}

func (p *pace) batch(sent, bad int) { p.learn(batchStats{sent: sent, bad: bad}, p.clock) }

func (p *pace) wantRate(want float64) {
	p.Helper()
	check.Equal(p, p.rate, want, "rate")
}

func (p *pace) wantAllowed(ask, want int, wait time.Duration) {
	p.Helper()
	n, w := p.allow(ask, p.clock)
	check.True(p, n == want && w == wait, "allow(%d) = %d, %s, want %d, %s", ask, n, w, want, wait)
}

func TestLimiter(t *testing.T) {
	t.Parallel()
	unlimited := math.Inf(1)
	for name, check := range map[string]func(p *pace){
		"HasNoLimitAtFirst": func(p *pace) {
			p.wantRate(unlimited)
			p.wantAllowed(32, 32, 0)
			p.wantAllowed(32, 32, 0)
		},
		"HalfOfABatchIsNotMost": func(p *pace) {
			p.batch(32, 16)
			p.wantRate(unlimited)
		},
		"NothingSentIsNoNews": func(p *pace) {
			p.batch(0, 0)
			p.wantRate(unlimited)
		},
		"HalvesDownToTheFloor": func(p *pace) {
			for _, want := range []float64{16, 8, 4, 2, 1, 0.5, 0.5} {
				p.batch(32, 17)
				p.wantRate(want)
			}
			p.wantAllowed(32, 0, 2*time.Second)
			p.after(2*time.Second).wantAllowed(32, 1, 0)
			p.wantAllowed(32, 0, 2*time.Second)
		},
		"SavesUpASecondsWorthOnly": func(p *pace) {
			p.batch(32, 32)
			p.after(10*time.Second).wantAllowed(32, 16, 0)
			p.wantAllowed(32, 0, 63*time.Millisecond)
		},
		"TakesBackWhatWasNotSent": func(p *pace) {
			p.batch(32, 32)
			p.after(time.Second).wantAllowed(32, 16, 0)
			p.refund(5)
			p.wantAllowed(32, 5, 0)
		},
		"DoublesOnceASecondUntilThereIsNoLimit": func(p *pace) {
			p.batch(32, 32)
			p.batch(32, 32)
			p.batch(8, 0)
			p.wantRate(8)
			var got []float64
			for range 8 {
				p.after(time.Second).batch(8, 0)
				p.batch(8, 0)
				got = append(got, p.rate)
			}
			want := "[16 32 64 128 256 512 1024 +Inf]"
			check.True(p, fmt.Sprint(got) == want, "rates = %v, want %s", got, want)
		},
		"QuietTimesSpeedItUpAsWell": func(p *pace) {
			p.batch(32, 32)
			p.after(29*time.Second).allow(1, p.clock)
			p.wantRate(16)
			p.after(time.Second).allow(1, p.clock)
			p.wantRate(32)
			p.after(time.Hour).wantAllowed(32, 32, 0)
			p.wantRate(unlimited)
		},
		"NobodySendsBeforeTheBrokersRestIsOver": func(p *pace) {
			p.learn(batchStats{sent: 1, throttle: 3 * time.Second}, p.clock)
			p.wantAllowed(32, 0, 3*time.Second)
			p.after(time.Second).learn(batchStats{throttle: time.Second}, p.clock) // a shorter throttle does not end the longer one
			p.wantAllowed(32, 0, 2*time.Second)
			p.after(2*time.Second).wantAllowed(32, 32, 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(newPace(t))
		})
	}
}
