package traces

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// MaxLinks is how many links a span has at most. A batch may have a thousand records,
// and what collects spans drops those with too much on them.
const MaxLinks = 128

// Links links a span to the traces that records were part of.
type Links struct {
	span trace.Span
	made int
}

// NewLinks returns the links of a span. One that is not recorded takes none.
func NewLinks(span trace.Span) *Links { return &Links{span: span} }

// Full reports whether no more links are taken, so that nobody reads headers in vain.
func (l *Links) Full() bool { return l.made >= MaxLinks || !l.span.IsRecording() }

// Add links the span to a context; one that is not valid is left out.
func (l *Links) Add(to trace.SpanContext, attributes ...attribute.KeyValue) {
	if l.Full() || !to.IsValid() {
		return
	}
	l.made++
	l.span.AddLink(trace.Link{SpanContext: to, Attributes: attributes})
}
