package telemetry

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
)

const (
	// complainEvery is the shortest time between two log lines about spans that were not exported.
	complainEvery = time.Minute
	// linksPerSpan is the number of links that use as much memory as a span without links, about 3 KB.
	linksPerSpan = 8
)

// spanCounts count recorded spans by result.
type spanCounts struct{ exported, failed, dropped prometheus.Counter }

func newSpanCounts(reg prometheus.Registerer) spanCounts {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dlq_trace_spans_total",
		Help: "Recorded spans, by result: exported, failed (the collector did not take them) or dropped (too many waited).",
	}, []string{"result"})
	reg.MustRegister(spans)
	return spanCounts{spans.WithLabelValues("exported"), spans.WithLabelValues("failed"), spans.WithLabelValues("dropped")}
}

// spanLimiter drops and counts a span that ends while too many other spans are queued or being sent. The queue of the
// SDK does not suffice: it does not count the spans that it drops, and it limits the number of spans but not their
// size.
type spanLimiter struct {
	sdktrace.SpanProcessor
	room    int64
	dropped prometheus.Counter
	used    atomic.Int64
}

// OnEnd implements sdktrace.SpanProcessor.
func (l *spanLimiter) OnEnd(s sdktrace.ReadOnlySpan) {
	size := l.size(s)
	if l.used.Add(size) > l.room {
		l.used.Add(-size)
		l.dropped.Inc()
		return
	}
	l.SpanProcessor.OnEnd(s)
}

// size returns the queue space of a span. The result is at most the capacity of the queue, because a larger span could
// never be sent.
func (l *spanLimiter) size(s sdktrace.ReadOnlySpan) int64 {
	return min(1+int64(len(s.Links())/linksPerSpan), l.room)
}

func (l *spanLimiter) release(spans []sdktrace.ReadOnlySpan) {
	for _, s := range spans {
		l.used.Add(-l.size(s))
	}
}

// countedExporter counts the spans that were exported or not, and logs the errors of exports. Without countedExporter,
// the SDK would report the errors to a handler that is global to the process.
type countedExporter struct {
	sdktrace.SpanExporter
	rejected func() int64 // returns the number of spans that the collector rejected from the last export
	limiter  *spanLimiter
	counts   spanCounts
	log      *zap.Logger

	logged time.Time // time of the last log line. It needs no lock, because exports run one after the other.
	lost   int       // number of spans since the last log line that were not exported
}

// ExportSpans implements sdktrace.SpanExporter. It returns no error.
func (e *countedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err, failed := e.SpanExporter.ExportSpans(ctx, spans), len(spans)
	if err == nil {
		failed = int(min(max(e.rejected(), 0), int64(len(spans))))
		err = fmt.Errorf("the collector rejected %d of them", failed)
	}
	e.limiter.release(spans)
	e.counts.failed.Add(float64(failed))
	e.counts.exported.Add(float64(len(spans) - failed))
	e.lost += failed
	if now := time.Now(); failed > 0 && (e.logged.IsZero() || now.Sub(e.logged) >= complainEvery) {
		e.log.Warn("traces are not taken by the collector", zap.Int("spans", e.lost), zap.Error(err))
		e.logged, e.lost = now, 0
	}
	return nil
}
