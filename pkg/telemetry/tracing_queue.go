package telemetry

import (
	"context"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// batchDelay is how long a span waits for others at most.
const batchDelay = 2 * time.Second

// spanLimits bound what one span can hold, whatever it is made of.
var spanLimits = sdktrace.SpanLimits{
	AttributeValueLengthLimit:   1024,
	AttributeCountLimit:         64,
	EventCountLimit:             32,
	LinkCountLimit:              128,
	AttributePerEventCountLimit: 16,
	AttributePerLinkCountLimit:  16,
}

// spanQueue lets as many spans into the next processor as there is room for, those
// that are being sent included, and drops the others. The processor has a bound of its
// own, but tells nobody how often it drops.
type spanQueue struct {
	next    sdktrace.SpanProcessor
	room    int64
	waiting atomic.Int64
	stopped atomic.Bool
	counts  spanCounts
}

// OnStart implements sdktrace.SpanProcessor.
func (q *spanQueue) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor. It never waits.
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.stopped.Load() {
		q.counts.dropped.Inc()
		return
	}
	if q.waiting.Add(1) > q.room {
		q.waiting.Add(-1)
		q.counts.dropped.Inc()
		return
	}
	q.next.OnEnd(s)
}

// left notes that so many spans have been sent, or never will be.
func (q *spanQueue) left(n int) { q.waiting.Add(-int64(n)) }

// abandon counts what still waits as dropped; nothing is let in any more.
func (q *spanQueue) abandon() {
	q.stopped.Store(true)
	q.counts.dropped.Add(float64(max(0, q.waiting.Swap(0))))
}

// Shutdown implements sdktrace.SpanProcessor.
func (q *spanQueue) Shutdown(ctx context.Context) error {
	q.stopped.Store(true)
	return q.next.Shutdown(ctx)
}

// ForceFlush implements sdktrace.SpanProcessor.
func (q *spanQueue) ForceFlush(ctx context.Context) error { return q.next.ForceFlush(ctx) }
