// Package traces reads the trace contexts that records and requests carry, as W3C
// defines them, and makes tracers that cost nothing when nobody collects spans. It
// keeps the spans of the whole product alike; which there are is decided where the
// work is done.
package traces

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Of returns a tracer for the package scope, a name as import paths have it. It is
// nil when provider is nil or does nothing: callers then make no span at all, rather
// than one that goes nowhere, and are spared its attributes.
func Of(provider trace.TracerProvider, scope string) trace.Tracer {
	switch provider.(type) {
	case nil, noop.TracerProvider, *noop.TracerProvider:
		return nil
	}
	return provider.Tracer(scope)
}

// None is the span of what is not traced. It is never nil and does nothing.
func None() trace.Span { return noop.Span{} }

// Start begins a span, which the caller has to end. tracer must not be nil: callers
// have looked before they gathered what the span says.
func Start(ctx context.Context, tracer trace.Tracer, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	return tracer.Start(ctx, name, options...) //nolint:spancheck // ends where the work does, not where it begins
}
