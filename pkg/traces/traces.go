// Package traces reads the W3C trace contexts of records and requests, and makes tracers that cost nothing when tracing
// is off. Its functions give the spans of all packages the same form; each package decides which spans it makes.
package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Tracer returns a tracer for a package; scope is the package's import path. It returns nil when provider is nil or
// does nothing. Callers then make no spans and do not compute attributes.
func Tracer(provider trace.TracerProvider, scope string) trace.Tracer {
	switch provider.(type) {
	case nil, noop.TracerProvider, *noop.TracerProvider:
		return nil
	}
	return provider.Tracer(scope)
}

// None returns the span for work that is not traced. The span is never nil and does nothing.
func None() trace.Span { return noop.Span{} }

// Start begins a span, which the caller has to end. tracer must not be nil: callers check it before they compute the
// attributes.
func Start(ctx context.Context, tracer trace.Tracer, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return tracer.Start(ctx, name, options...) //nolint:spancheck // ends where the work does, not where it begins
}

// In returns ctx with the given span as the parent of later spans. In does so even for a span that is not recorded, so
// that its children are not recorded either. When the span is nil or the span of None, it returns ctx unchanged.
func In(ctx context.Context, span trace.Span) context.Context {
	if span == nil || !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}

// Attempts is the number of attempts that have a result.
const Attempts = attribute.Key("dlq.attempts")

// NotDone is the error type of a span whose work was not finished and will be tried again later.
const NotDone = "not_done"

// Fail marks the span as failed when err is not nil. It does not record the text of err, which may quote a server; the
// parameter why becomes the span's ErrorType.
func Fail(span trace.Span, why string, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(ErrorType.String(why))
	}
}
