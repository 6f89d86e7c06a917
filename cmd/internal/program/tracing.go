package program

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// lastSpans limits how long shutdown waits for a collector to accept the last spans. When only lastWords is left of the
// shutdown time, StopTracing stops waiting, even if it has waited for less than lastSpans.
const (
	lastSpans = 1500 * time.Millisecond
	lastWords = 500 * time.Millisecond
)

// WithTracing adds tracing to the base if the configuration names a collector. The shutdown time
// starts when ctx ends; call StopTracing after everything else has stopped.
func (b Base) WithTracing(ctx context.Context, service string) (Base, error) {
	var err error
	b.end = &endTime{}
	b.end.watch(ctx)
	b.Tracing, err = telemetry.NewTracing(b.Config.Tracing, service, telemetry.Version(), b.Log, b.Registry)
	return b, err
}

// StopTracing sends the remaining spans, for at most lastSpans and within the shutdown time.
func (b Base) StopTracing() {
	ctx, cancel := context.WithDeadline(context.Background(), b.end.before(time.Now().Add(lastSpans)))
	defer cancel()
	b.Tracing.Stop(ctx)
}

// endTime is the time at which shutdown stops waiting.
type endTime struct{ at atomic.Pointer[time.Time] }

// When ctx ends, watch sets the end time.
func (e *endTime) watch(ctx context.Context) {
	context.AfterFunc(ctx, func() {
		at := time.Now().Add(patience - lastWords)
		e.at.Store(&at)
	})
}

// before returns the earlier of until and the end time.
func (e *endTime) before(until time.Time) time.Time {
	if e != nil {
		if at := e.at.Load(); at != nil && at.Before(until) {
			return *at
		}
	}
	return until
}
