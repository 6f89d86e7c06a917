package traces

import (
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// Names of the headers that carry a trace context. Kafka's headers are told apart by
// case, but not everybody writes them as they are written here.
const (
	headerParent = "traceparent"
	headerState  = "tracestate"
)

// header is a record's, whichever package's type it has.
type header = struct {
	Key   string
	Value []byte
}

// FromHeaders returns the context that a record's headers carry: that of the last
// traceparent, for whoever sent the record last wrote it. It is not valid when there
// is none, or none that is well formed.
func FromHeaders[H ~header](headers []H) trace.SpanContext {
	var parent, state string
	for i := range headers {
		h := header(headers[i])
		switch {
		case strings.EqualFold(h.Key, headerParent):
			parent = string(h.Value)
		case strings.EqualFold(h.Key, headerState):
			state = string(h.Value)
		}
	}
	if parent == "" {
		return trace.SpanContext{}
	}
	return Parse(parent, state)
}

// The fields of version 00 and where they stand: version-trace-parent-flags.
const (
	atTrace  = 3
	atParent = 36
	atFlags  = 53
	length   = 55
)

// Parse returns the context that the two headers of W3C stand for. A traceparent that
// is not well formed is as good as none: the context is then not valid. A tracestate
// that is not is left out.
func Parse(traceparent, tracestate string) trace.SpanContext {
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
	state, err := trace.ParseTraceState(tracestate)
	if err != nil {
		state = trace.TraceState{}
	}
	flags := hexDigit(traceparent[atFlags])<<4 | hexDigit(traceparent[atFlags+1])
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: span, TraceFlags: trace.TraceFlags(flags) & trace.FlagsSampled, TraceState: state, Remote: true,
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
