package telemetry

import (
	"context"
	"errors"
	"fmt"
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
	lost, complaint := 0, error(nil)
	for portion := range e.queue.portions(spans) {
		err := ctx.Err() // of those before it, which took all the time there is
		if err == nil {
			err = e.next.ExportSpans(ctx, portion)
		}
		if !e.queue.left(portion) {
			return nil // whoever stopped us has counted them
		}
		failed := failedOf(err, len(portion))
		e.counts.failed.Add(float64(failed))
		e.counts.exported.Add(float64(len(portion) - failed))
		lost += failed
		if complaint == nil {
			complaint = err // later ones may say no more than that time is up
		}
	}
	if complaint != nil {
		e.complain(lost, complaint)
	}
	return nil
}

// partial is the error of a collector that took spans, but not all of them, or has
// something to say about them.
type partial struct {
	rejected int64
	text     string
}

// Error implements error.
func (p *partial) Error() string {
	return fmt.Sprintf("the collector rejected %d of them: %s", p.rejected, p.text)
}

// failedOf is how many of some spans were not taken.
func failedOf(err error, spans int) int {
	var p *partial
	switch {
	case err == nil:
		return 0
	case errors.As(err, &p):
		return int(min(max(p.rejected, 0), int64(spans)))
	}
	return spans
}

func (e *countedExporter) complain(spans int, err error) {
	e.lost += spans
	now := e.now()
	if !e.said.IsZero() && now.Sub(e.said) < complainEvery {
		return
	}
	line := "traces are not taken by the collector"
	if e.lost == 0 {
		line = "the collector took the traces and warns"
	}
	e.log.Warn(line, zap.Int("spans", e.lost), zap.Error(err))
	e.said, e.lost = now, 0
}

// Shutdown implements sdktrace.SpanExporter.
func (e *countedExporter) Shutdown(ctx context.Context) error { return e.next.Shutdown(ctx) }
