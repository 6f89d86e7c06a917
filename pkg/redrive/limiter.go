package redrive

import (
	"math"
	"time"
)

const (
	limiterFloor = 0.5 // the slowest rate, one message in two seconds: enough to notice a recovery

	// limiterTop, in batches a second, is the fastest rate that is still kept; above it there is no limit.
	limiterTop = 32

	// The rate goes up a step limiterStep after a success, and limiterQuiet after nothing at all.
	limiterStep  = time.Second
	limiterQuiet = 30 * time.Second
)

// limiter is the rate of sending. It has no limit until most of a batch fails or is throttled; each such batch
// halves the rate, down to limiterFloor, and success doubles it until there is no limit again. Nothing is allowed
// while a broker throttles. All times come from the caller, who also guards it against concurrent use.
type limiter struct {
	batch  float64
	rate   float64 // messages a second; +Inf for no limit
	tokens float64 // messages that may be sent at once
	filled time.Time
	moved  time.Time // when the rate last changed, or news last came
	rested time.Time // the broker wants to be left alone until then
}

// news is how the sends of one batch ended.
type news struct {
	sent, bad int // bad: of those that were sent, what failed or was throttled
	throttle  time.Duration
}

func newLimiter(batch int) *limiter { return &limiter{batch: float64(batch), rate: math.Inf(1)} }

// allow returns how many messages, up to want, may be taken and sent now; none means to ask again after wait.
func (l *limiter) allow(want int, now time.Time) (n int, wait time.Duration) {
	if rest := l.rest(now); rest > 0 {
		return 0, rest
	}
	l.pickUp(now)
	if l.unlimited() {
		return want, 0
	}
	l.fill(now)
	if l.tokens < 1 {
		return 0, time.Duration(math.Ceil((1-l.tokens)/l.rate*1000)) * time.Millisecond
	}
	n = min(want, int(l.tokens))
	l.tokens -= float64(n)
	return n, 0
}

// refund takes back what was allowed and not sent.
func (l *limiter) refund(n int) {
	if !l.unlimited() {
		l.tokens = min(l.tokens+float64(n), l.capacity())
	}
}

// rest is how long the broker still wants to be left alone.
func (l *limiter) rest(now time.Time) time.Duration { return max(0, l.rested.Sub(now)) }

// learn adjusts the rate to how a batch went.
func (l *limiter) learn(n news, now time.Time) {
	if until := now.Add(n.throttle); n.throttle > 0 && until.After(l.rested) {
		l.rested = until
	}
	if n.sent == 0 {
		return
	}
	l.pickUp(now)
	l.fill(now)
	switch {
	case 2*n.bad > n.sent:
		l.slowDown(now)
	case now.Sub(l.moved) >= limiterStep:
		l.speedUp(now)
	}
}

func (l *limiter) slowDown(now time.Time) {
	if l.unlimited() {
		l.rate, l.tokens, l.filled = l.batch, 0, now
	}
	l.rate = max(limiterFloor, l.rate/2)
	l.tokens = min(l.tokens, l.capacity())
	l.moved = now
}

func (l *limiter) speedUp(now time.Time) {
	l.moved = now
	if l.rate *= 2; l.rate > limiterTop*l.batch {
		l.rate = math.Inf(1)
	}
}

// pickUp goes up a step for each quiet time: who hears nothing has no reason to go on being careful for ever.
func (l *limiter) pickUp(now time.Time) {
	for !l.unlimited() && now.Sub(l.moved) >= limiterQuiet {
		l.fill(l.moved.Add(limiterQuiet))
		l.speedUp(l.moved.Add(limiterQuiet))
	}
}

func (l *limiter) fill(now time.Time) {
	if !l.unlimited() && now.After(l.filled) {
		l.tokens = min(l.tokens+l.rate*now.Sub(l.filled).Seconds(), l.capacity())
		l.filled = now
	}
}

// capacity is how much may be saved up: a second's worth, as far as a batch goes.
func (l *limiter) capacity() float64 { return min(max(1, l.rate), l.batch) }

func (l *limiter) unlimited() bool { return math.IsInf(l.rate, 1) }
