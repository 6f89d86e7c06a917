package telemetry

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"
)

// errStopped is why an export is broken off that outlives the program's patience.
var errStopped = errors.New("the program has ended")

// complainEvery is the least time between two lines about spans that were lost.
const complainEvery = time.Minute

// spanCounts tell what became of the spans that were recorded.
type spanCounts struct{ exported, failed, dropped prometheus.Counter }

func newSpanCounts(reg prometheus.Registerer) spanCounts {
	spans := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "dlq_trace_spans_total",
		Help: "Recorded spans, by what became of them: exported, failed (the collector did not take them) or dropped (too many waited).",
	}, []string{"result"})
	reg.MustRegister(spans)
	return spanCounts{spans.WithLabelValues("exported"), spans.WithLabelValues("failed"), spans.WithLabelValues("dropped")}
}

// countedExporter counts what the exporter behind it did, and keeps its errors: the
// library would hand them to a handler that is one for the whole process.
type countedExporter struct {
	next   sdktrace.SpanExporter
	queue  *spanQueue
	counts spanCounts
	log    *zap.Logger
	now    func() time.Time

	said time.Time // the last line; exports come one after the other
	lost int       // spans since then

	ctx    context.Context // ends every export
	cancel context.CancelCauseFunc
}

func newCountedExporter(next sdktrace.SpanExporter, queue *spanQueue, counts spanCounts, log *zap.Logger) *countedExporter {
	e := &countedExporter{next: next, queue: queue, counts: counts, log: log, now: time.Now}
	e.ctx, e.cancel = context.WithCancelCause(context.Background())
	return e
}

// ExportSpans implements sdktrace.SpanExporter. It returns no error.
func (e *countedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.ctx, func() { cancel(errStopped) })()
	err := e.next.ExportSpans(ctx, spans)
	if e.ctx.Err() != nil {
		return nil // whoever stopped us has counted them
	}
	e.queue.left(len(spans))
	if err != nil {
		e.counts.failed.Add(float64(len(spans)))
		e.complain(len(spans), err)
		return nil
	}
	e.counts.exported.Add(float64(len(spans)))
	return nil
}

func (e *countedExporter) complain(spans int, err error) {
	e.lost += spans
	now := e.now()
	if !e.said.IsZero() && now.Sub(e.said) < complainEvery {
		return
	}
	e.log.Warn("traces are not taken by the collector", zap.Int("spans", e.lost), zap.Error(err))
	e.said, e.lost = now, 0
}

// Shutdown implements sdktrace.SpanExporter.
func (e *countedExporter) Shutdown(ctx context.Context) error { return e.next.Shutdown(ctx) }
