package traces

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// headerParent is the name of the header that carries a trace context. Kafka's header
// names are case-sensitive, but producers do not agree on the case of this one.
const headerParent = "traceparent"

// maxParent is the length of the longest traceparent that is read. Later versions of the header may be longer than
// today's 55 bytes.
const maxParent = 512

// header is the header of a record, whichever package's type it has.
type header = struct {
	Key   string
	Value []byte
}

// FromHeaders returns the trace context in a record's headers. Of several traceparent headers it uses the last, because
// the last sender wrote it. It is invalid when there is none, or an ill-formed one. It ignores tracestate, which may be
// as large as the record, while spans with links to hundreds of records wait in memory.
func FromHeaders[H ~header](headers []H) trace.SpanContext {
	var value []byte
	for i := range headers {
		if h := header(headers[i]); strings.EqualFold(h.Key, headerParent) {
			value = h.Value
		}
	}
	if len(value) == 0 || len(value) > maxParent {
		return trace.SpanContext{}
	}
	return Parse(string(value))
}

// Parse returns the trace context of a W3C traceparent. It is invalid when the header is ill-formed.
func Parse(traceparent string) trace.SpanContext {
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier(traceparent)))
}

// carrier gives a traceparent, and no tracestate, to OpenTelemetry's propagator.
type carrier string

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(key string) string {
	if key == headerParent {
		return string(c)
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (carrier) Keys() []string { return []string{headerParent} }
