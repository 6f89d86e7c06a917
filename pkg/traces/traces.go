// Package traces reads the W3C trace contexts of records and requests, and makes tracers that cost nothing when
// tracing is off. It gives all spans of the product the same form; the packages that do the work decide which spans
// there are.
package traces

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Of returns a tracer for a package; scope is its import path. It returns nil when provider is nil or a no-op:
// callers then make no span, and do not compute its attributes.
func Of(provider trace.TracerProvider, scope string) trace.Tracer {
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
