package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// maxTries is the number of tries that are recorded while a server is unavailable.
const maxTries = 3

// Tries is the number of tries. It is set only when there was more than one.
const Tries = attribute.Key("dlq.tries")

// Quiet returns a context in the same trace whose spans are not recorded. When the spans of ctx are not recorded
// either, Quiet returns ctx itself.
func Quiet(ctx context.Context) context.Context {
	at := trace.SpanContextFromContext(ctx)
	if !at.IsSampled() {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, at.WithTraceFlags(at.TraceFlags()&^trace.FlagsSampled))
}

// Try returns the context for try number n, from 0, of work that is repeated until a server answers. Only the first
// tries are recorded, because hours of equal tries would fill the trace. RecordTries records the number of all tries.
func Try(ctx context.Context, n int) context.Context {
	if n < maxTries {
		return ctx
	}
	return Quiet(ctx)
}

// RecordTries sets the number of tries on the span of ctx, unless there was only one.
func RecordTries(ctx context.Context, tries int) {
	if span := trace.SpanFromContext(ctx); tries > 1 && span.IsRecording() {
		span.SetAttributes(Tries.Int(tries))
	}
}
