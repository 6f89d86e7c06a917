// Package tracestest records the spans of the code under test.
package tracestest

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
)

// Spans is a provider that keeps every span. It is safe for concurrent use.
type Spans struct {
	trace.TracerProvider
	recorder *tracetest.SpanRecorder
}

// Record returns a provider that records every trace that begins with one of its spans. It records its part of a trace
// that began in another program if that program records the trace.
func Record() *Spans { return RecordSampled(sdktrace.ParentBased(sdktrace.AlwaysSample())) }

// RecordSampled returns a provider with a sampler. Like the provider of the programs, it drops events. It has no other
// limits for spans, so that tests notice when the code under test exceeds its own limits, such as MaxLinks.
func RecordSampled(sampler sdktrace.Sampler) *Spans {
	recorder := tracetest.NewSpanRecorder()
	limits := sdktrace.SpanLimits{
		AttributeValueLengthLimit: -1, AttributeCountLimit: -1, EventCountLimit: 0,
		LinkCountLimit: -1, AttributePerEventCountLimit: -1, AttributePerLinkCountLimit: -1,
	}
	return &Spans{sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(recorder), sdktrace.WithSampler(sampler), sdktrace.WithRawSpanLimits(limits)), recorder}
}

// Begin returns a context with a new span, which is never ended.
func (s *Spans) Begin(ctx context.Context) context.Context {
	ctx, _ = s.Tracer("test").Start(ctx, "test") //nolint:spancheck // tests look at ended spans, and this is not one of them
	return ctx                                   //nolint:spancheck // as above
}

// Ended returns the spans that have ended, in the order of their ends.
func (s *Spans) Ended() []sdktrace.ReadOnlySpan { return s.recorder.Ended() }

// Named returns the ended spans with a name.
func (s *Spans) Named(name string) []sdktrace.ReadOnlySpan {
	var found []sdktrace.ReadOnlySpan
	for _, span := range s.Ended() {
		if span.Name() == name {
			found = append(found, span)
		}
	}
	return found
}

// Only returns the ended span with a name. It ends the test unless exactly one ended span has the name.
func (s *Spans) Only(t testing.TB, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	found := s.Named(name)
	if len(found) != 1 {
		t.Fatalf("got %d spans %q among %q, want one", len(found), name, s.Names())
	}
	return found[0]
}

// Names returns the names of the ended spans, in the order of their ends.
func (s *Spans) Names() []string {
	names := []string{}
	for _, span := range s.Ended() {
		names = append(names, span.Name())
	}
	return names
}

// WantAttributes reports each attribute of want that got does not have with the same value. The value "" in want means
// that got must not have the attribute.
func WantAttributes(t testing.TB, got []attribute.KeyValue, want map[attribute.Key]string) {
	t.Helper()
	set := attribute.NewSet(got...)
	for key, text := range want {
		value, there := set.Value(key)
		if there != (text != "") || there && value.String() != text {
			t.Errorf("attribute %s is %q (there: %t), want %q", key, value.String(), there, text)
		}
	}
}

// WantNothingOf reports a span that contains a text in any of its parts.
func WantNothingOf(t testing.TB, span sdktrace.ReadOnlySpan, text string) {
	t.Helper()
	all := fmt.Sprint(span.Name(), span.Attributes(), span.Events(), span.Links(), span.Status())
	if strings.Contains(all, text) {
		t.Errorf("the span %q has %q on it, want nothing of it: %s", span.Name(), text, all)
	}
}
