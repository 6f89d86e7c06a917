package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// maxTries is how many tries of what waits for somebody else are recorded.
const maxTries = 3

// Tries is how often something was tried in the end, where that was more than once.
const Tries = attribute.Key("dlq.tries")

// Quiet returns ctx in the same trace, of which nothing more is recorded: spans that
// begin within it go nowhere. Where nothing is recorded anyway it is ctx itself.
func Quiet(ctx context.Context) context.Context {
	at := trace.SpanContextFromContext(ctx)
	if !at.IsSampled() {
		return ctx
	}
	return trace.ContextWithSpanContext(ctx, at.WithTraceFlags(at.TraceFlags()&^trace.FlagsSampled))
}

// Try returns the context for try number n, from 0, of what is tried until somebody
// else is there again. The first few are recorded; the hours that may follow would
// fill a trace with one and the same. Told says how many there were.
func Try(ctx context.Context, n int) context.Context {
	if n < maxTries {
		return ctx
	}
	return Quiet(ctx)
}

// Told says on the span that ctx is in how many tries there were, if it was not one.
func Told(ctx context.Context, tries int) {
	if span := trace.SpanFromContext(ctx); tries > 1 && span.IsRecording() {
		span.SetAttributes(Tries.Int(tries))
	}
}
