package program

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// lastSpans is how long the end of a program waits for a collector to take its last
// spans, and lastWords what it leaves of the time that a program has for its end: the
// drain in front of it may have taken most of that.
const (
	lastSpans = 1500 * time.Millisecond
	lastWords = 500 * time.Millisecond
)

// WithTracing is the base of a program that makes spans, where the configuration
// names a collector. What it returns must be stopped when everything else has ended,
// which ctx tells it to.
func (b Base) WithTracing(ctx context.Context, service string) (Base, error) {
	var err error
	b.end = &endTime{}
	b.end.watch(ctx)
	b.Tracing, err = telemetry.NewTracing(b.Config.Tracing, service, telemetry.Version(), b.Log, b.Registry)
	return b, err
}

// StopTracing sends what spans there still are, and waits no longer for it than the
// program can afford.
func (b Base) StopTracing() {
	ctx, cancel := context.WithDeadline(context.Background(), b.end.before(time.Now().Add(lastSpans)))
	defer cancel()
	b.Tracing.Stop(ctx)
}

// endTime is when the end of a program is no longer waited for.
type endTime struct{ at atomic.Pointer[time.Time] }

// watch starts the clock when ctx ends.
func (e *endTime) watch(ctx context.Context) {
	context.AfterFunc(ctx, func() {
		at := time.Now().Add(patience - lastWords)
		e.at.Store(&at)
	})
}

// before returns the earlier of the two times.
func (e *endTime) before(until time.Time) time.Time {
	if e != nil {
		if at := e.at.Load(); at != nil && at.Before(until) {
			return *at
		}
	}
	return until
}
