package auto

import (
	"math"
	"time"
)

const (
	limiterFloor = 0.5 // slowest rate: one message in two seconds, often enough to notice that sends succeed again

	// limiterTop is the fastest limited rate, in batches a second. When the rate would exceed it, there is no limit any
	// more.
	limiterTop = 32

	// After a batch that succeeded, the rate is doubled if limiterStep has passed since the last change. While there
	// are no results, it is doubled once per limiterQuiet.
	limiterStep  = time.Second
	limiterQuiet = 30 * time.Second
)

// limiter limits the rate of sending. At first it has no limit. When most records of a batch fail or the broker
// throttles them, it halves the rate, down to limiterFloor; a batch that succeeds doubles it, until there is no limit
// again. While a broker throttles this process, it allows no record. All times come from the caller. It is not safe for
// concurrent use.
type limiter struct {
	batch          float64
	rate           float64 // messages a second; +Inf for no limit
	tokens         float64 // messages that may be sent at once
	filled         time.Time
	moved          time.Time // when the rate was last adjusted
	throttledUntil time.Time // end of the broker's throttle
}

// batchStats counts how the sends of one batch ended.
type batchStats struct {
	sent, bad int // bad: of the sent records, those that failed, were throttled, or were given back after a failure
	throttle  time.Duration
}

func newLimiter(batch int) *limiter { return &limiter{batch: float64(batch), rate: math.Inf(1)} }

// allow returns how many messages, up to the number want, may be sent now. If none may be sent, the caller asks again
// after wait.
func (l *limiter) allow(want int, now time.Time) (n int, wait time.Duration) {
	if throttle := l.throttle(now); throttle > 0 {
		return 0, throttle
	}
	l.speedUpWhenQuiet(now)
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

// refund returns the tokens of messages that were allowed but not sent.
func (l *limiter) refund(n int) {
	if !l.unlimited() {
		l.tokens = min(l.tokens+float64(n), l.capacity())
	}
}

// throttle returns how long the broker's throttle still lasts.
func (l *limiter) throttle(now time.Time) time.Duration { return max(0, l.throttledUntil.Sub(now)) }

// learn adjusts the rate to the result of a batch.
func (l *limiter) learn(n batchStats, now time.Time) {
	if until := now.Add(n.throttle); n.throttle > 0 && until.After(l.throttledUntil) {
		l.throttledUntil = until
	}
	if n.sent == 0 {
		return
	}
	l.speedUpWhenQuiet(now)
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

// speedUpWhenQuiet doubles the rate for each limiterQuiet in which no batch had a result, because then there is no
// reason to stay slow.
func (l *limiter) speedUpWhenQuiet(now time.Time) {
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

// capacity returns the maximum number of tokens: the messages of one second, but at least one and at most a batch.
func (l *limiter) capacity() float64 { return min(max(1, l.rate), l.batch) }

func (l *limiter) unlimited() bool { return math.IsInf(l.rate, 1) }
