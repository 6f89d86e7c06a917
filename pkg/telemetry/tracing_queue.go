package telemetry

import (
	"context"
	"iter"
	"sync"
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

// linksOfWeight is how many links take as much memory as a span without any, some
// three kilobytes.
const linksOfWeight = 8

// spanQueue lets spans into the next processor as long as there is room, for those too
// that are being sent, and drops the others. A span with links takes the room of
// several. The processor has a bound of its own, but of spans alone, and tells nobody
// how often it drops.
type spanQueue struct {
	next   sdktrace.SpanProcessor
	room   int
	counts spanCounts

	mu      sync.Mutex
	spans   int // that wait or are being sent
	weight  int // of them
	stopped bool
	given   bool // nobody waits for those that are left
}

// weightOf is the room that a span takes: no more than there is, or it would never be sent.
func (q *spanQueue) weightOf(s sdktrace.ReadOnlySpan) int {
	return min(1+len(s.Links())/linksOfWeight, q.room)
}

// OnStart implements sdktrace.SpanProcessor.
func (q *spanQueue) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd implements sdktrace.SpanProcessor. It never waits for the collector.
func (q *spanQueue) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if !q.enter(q.weightOf(s)) {
		q.counts.dropped.Inc()
		return
	}
	q.next.OnEnd(s)
}

func (q *spanQueue) enter(weight int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped || q.weight+weight > q.room {
		return false
	}
	q.spans++
	q.weight += weight
	return true
}

// left notes that spans were sent, or never will be. It reports false when they were
// counted as dropped meanwhile.
func (q *spanQueue) left(spans []sdktrace.ReadOnlySpan) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.given {
		return false
	}
	q.spans -= len(spans)
	for _, s := range spans {
		q.weight -= q.weightOf(s)
	}
	return true
}

// abandon counts what still waits as dropped; nothing is let in any more.
func (q *spanQueue) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped, q.given = true, true
	q.counts.dropped.Add(float64(q.spans))
	q.spans, q.weight = 0, 0
}

// portions are the spans of a batch in their order, in parts that a collector takes:
// those limit how long a request may be.
func (q *spanQueue) portions(spans []sdktrace.ReadOnlySpan) iter.Seq[[]sdktrace.ReadOnlySpan] {
	return func(yield func([]sdktrace.ReadOnlySpan) bool) {
		from, weight := 0, 0
		for i, s := range spans {
			w := q.weightOf(s)
			if i > from && weight+w > tracingBatch {
				if !yield(spans[from:i]) {
					return
				}
				from, weight = i, 0
			}
			weight += w
		}
		if from < len(spans) {
			yield(spans[from:])
		}
	}
}

// stop lets nothing in any more.
func (q *spanQueue) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stopped = true
}

// Shutdown implements sdktrace.SpanProcessor.
func (q *spanQueue) Shutdown(ctx context.Context) error {
	q.stop()
	return q.next.Shutdown(ctx)
}

// ForceFlush implements sdktrace.SpanProcessor.
func (q *spanQueue) ForceFlush(ctx context.Context) error { return q.next.ForceFlush(ctx) }
