package auto

import (
	"context"

	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// spanAuto is the name of the span of a batch. It begins a new trace, because no caller waits for it.
const spanAuto = "automatic retry"

// traceAuto begins the span of an automatic batch.
func (d *dispatcher) traceAuto(ctx context.Context, messages int) (context.Context, trace.Span) {
	if d.tracer == nil {
		return ctx, traces.None()
	}
	return traces.Start(ctx, d.tracer, spanAuto, trace.WithNewRoot(), trace.WithAttributes(traces.Messages.Int(messages)))
}

// endAuto ends the span of an automatic batch.
func endAuto(span trace.Span, attempts int, err error) {
	if span.IsRecording() {
		span.SetAttributes(traces.Attempts.Int(attempts))
		traces.Fail(span, traces.NotDone, err)
	}
	span.End()
}
