package traces

import (
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// headerParent is the name of the header that carries a trace context. Kafka's headers
// are told apart by case, but not everybody writes it as it is written here.
const headerParent = "traceparent"

// maxParent is how long a traceparent may be. Later versions may be longer than
// today's; one beyond this is not read, whatever else it says.
const maxParent = 512

// header is a record's, whichever package's type it has.
type header = struct {
	Key   string
	Value []byte
}

// FromHeaders returns the context that a record's headers carry: that of the last
// traceparent, for whoever sent the record last wrote it. It is not valid when there
// is none, or none that is well formed. A tracestate is left out: it may have as many
// bytes as the record, and spans with links to hundreds of records wait in memory.
func FromHeaders[H ~header](headers []H) trace.SpanContext {
	var parent []byte
	for i := range headers {
		if h := header(headers[i]); strings.EqualFold(h.Key, headerParent) {
			parent = h.Value
		}
	}
	if len(parent) < length || len(parent) > maxParent {
		return trace.SpanContext{}
	}
	return Parse(string(parent))
}

// The fields of version 00 and where they stand: version-trace-parent-flags.
const (
	atTrace  = 3
	atParent = 36
	atFlags  = 53
	length   = 55
)

// Parse returns the context that W3C's header traceparent stands for. One that is not
// well formed is as good as none: the context is then not valid. The tracestate beside
// it is nobody's business here: it is free text of whoever wrote it.
func Parse(traceparent string) trace.SpanContext {
	if !wellFormed(traceparent) {
		return trace.SpanContext{}
	}
	id, err := trace.TraceIDFromHex(traceparent[atTrace : atParent-1])
	if err != nil {
		return trace.SpanContext{}
	}
	span, err := trace.SpanIDFromHex(traceparent[atParent : atFlags-1])
	if err != nil {
		return trace.SpanContext{}
	}
	flags := hexDigit(traceparent[atFlags])<<4 | hexDigit(traceparent[atFlags+1])
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(flags) & trace.FlagsSampled, Remote: true,
	})
}

// wellFormed looks at all that the ids themselves do not tell. Later versions may go
// on behind a hyphen.
func wellFormed(text string) bool {
	if len(text) < length || len(text) > length && (text[:2] == "00" || text[length] != '-') {
		return false
	}
	return text[2] == '-' && text[atParent-1] == '-' && text[atFlags-1] == '-' && text[:2] != "ff" &&
		isHex(text[:2]) && isHex(text[atFlags:length])
}

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}
