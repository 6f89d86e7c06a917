package traces

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// MaxLinks is the maximum number of links of a span. A batch may have a thousand records, and collectors drop spans
// with too many links.
const MaxLinks = 128

// Links adds links from a span to the traces of records.
type Links struct {
	span trace.Span
	made int
}

// NewLinks returns the Links of a span. If the span is not recorded, Add does nothing.
func NewLinks(span trace.Span) *Links { return &Links{span: span} }

// Full reports whether Add would add no more links. The caller then need not read headers.
func (l *Links) Full() bool { return l.made >= MaxLinks || !l.span.IsRecording() }

// Add adds a link from the span to another trace. It does nothing if the context is invalid, or if Full returns true.
func (l *Links) Add(to trace.SpanContext, attributes ...attribute.KeyValue) {
	if l.Full() || !to.IsValid() {
		return
	}
	l.made++
	l.span.AddLink(trace.Link{SpanContext: to, Attributes: attributes})
}
