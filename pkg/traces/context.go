package traces

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// headerParent is the name of the header that contains a trace context. Its case is ignored: names of Kafka's headers
// are case-sensitive, but producers do not agree on the case of this name.
const headerParent = "traceparent"

// maxParent is the maximum length in bytes of a traceparent; a longer one counts as ill-formed. Later versions of the
// format may be longer than today's 55 bytes.
const maxParent = 512

// header has the fields that the header types of all packages have.
type header = struct {
	Key   string
	Value []byte
}

// FromHeaders returns the trace context in a record's headers. Of several traceparent headers it uses the last, because
// the last sender wrote it. The trace context is invalid when there is no traceparent or the last one is ill-formed.
// The header tracestate is ignored: it may be as large as the record, and spans with links to hundreds of records wait
// in memory.
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

// Parse returns the trace context of a W3C traceparent. The trace context is invalid when the text is ill-formed.
func Parse(traceparent string) trace.SpanContext {
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier(traceparent)))
}

// carrier passes a traceparent, and no tracestate, to OpenTelemetry's propagator.
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
