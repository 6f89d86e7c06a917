package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// maxTries is the number of tries whose spans are recorded while a server does not answer. The spans of further tries
// are not recorded.
const maxTries = 3

// Tries is the number of times that the work of a span was tried. It is set only when the number is above one.
const Tries = attribute.Key("dlq.tries")

// Quiet returns a context in the trace of ctx, but spans that begin with this context are not recorded. When spans of
// ctx are not recorded anyway, Quiet returns ctx itself.
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
