package program

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// lastSpans is the maximum time for which the shutdown waits until a collector has accepted the last spans. The wait is
// shorter when the shutdown is late, so that at least lastWords is left of the time for the shutdown.
const (
	lastSpans = 1500 * time.Millisecond
	lastWords = 500 * time.Millisecond
)

// WithTracing returns a Base with tracing, if the configuration names a collector. The time for the shutdown begins
// when ctx ends. The caller must call StopTracing after everything else has stopped.
func (b Base) WithTracing(ctx context.Context, service string) (Base, error) {
	var err error
	b.end = &endTime{}
	b.end.watch(ctx)
	b.Tracing, err = telemetry.NewTracing(b.Config.Tracing, service, telemetry.Version(), b.Log, b.Registry)
	return b, err
}

// StopTracing sends the spans that are left, for at most lastSpans and within the time for the shutdown.
func (b Base) StopTracing() {
	ctx, cancel := context.WithDeadline(context.Background(), b.end.before(time.Now().Add(lastSpans)))
	defer cancel()
	b.Tracing.Stop(ctx)
}

// endTime is the time at which the shutdown stops waiting for spans to be sent.
type endTime struct{ at atomic.Pointer[time.Time] }

// watch sets the endTime when ctx ends, which means that the shutdown begins.
func (e *endTime) watch(ctx context.Context) {
	context.AfterFunc(ctx, func() {
		at := time.Now().Add(patience - lastWords)
		e.at.Store(&at)
	})
}

// before returns the earlier of two times: the parameter until and the endTime.
func (e *endTime) before(until time.Time) time.Time {
	if e != nil {
		if at := e.at.Load(); at != nil && at.Before(until) {
			return *at
		}
	}
	return until
}
