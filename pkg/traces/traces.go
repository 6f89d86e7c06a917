// Package traces reads the W3C trace contexts of records and requests, and makes tracers that cost nothing when
// tracing is off. It gives all spans of the product the same form; the packages that do the work decide which spans
// there are.
package traces

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Tracer returns a tracer for a package; scope is its import path. It returns nil when provider is nil or a no-op:
// callers then make no span, and do not compute its attributes.
func Tracer(provider trace.TracerProvider, scope string) trace.Tracer {
	switch provider.(type) {
	case nil, noop.TracerProvider, *noop.TracerProvider:
		return nil
	}
	return provider.Tracer(scope)
}

// None returns the span of untraced work. It is never nil and does nothing.
func None() trace.Span { return noop.Span{} }

// Start begins a span, which the caller has to end. tracer must not be nil: callers check it before they compute the
// attributes.
func Start(ctx context.Context, tracer trace.Tracer, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return tracer.Start(ctx, name, options...) //nolint:spancheck // ends where the work does, not where it begins
}

// In returns ctx with span. A span that is not recorded is put into ctx too, so that its children are not recorded
// either. It ignores nil and None.
func In(ctx context.Context, span trace.Span) context.Context {
	if span == nil || !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}

// Attempts is the number of attempts with a result.
const Attempts = attribute.Key("dlq.attempts")

// NotDone is the error of a span whose work was not finished, but will be done again later.
const NotDone = "not_done"

// Fail records that there was an error, without its text, which may quote a server; nil records nothing. the text in
// the parameter why becomes the ErrorType.
func Fail(span trace.Span, why string, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(ErrorType.String(why))
	}
}
