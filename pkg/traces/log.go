package traces

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// InLog are the fields trace_id and span_id of a line that is about what the span of
// ctx is about, whether or not that is recorded. Without a span there are none.
func InLog(ctx context.Context) zap.Field { return LogOf(trace.SpanFromContext(ctx)) }

// LogOf are the same of a span, which may be nil.
func LogOf(span trace.Span) zap.Field {
	if span == nil || !span.SpanContext().IsValid() {
		return zap.Skip()
	}
	return zap.Inline(ids{span})
}

type ids struct{ span trace.Span }

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (i ids) MarshalLogObject(to zapcore.ObjectEncoder) error {
	at := i.span.SpanContext()
	to.AddString("trace_id", at.TraceID().String())
	to.AddString("span_id", at.SpanID().String())
	return nil
}
