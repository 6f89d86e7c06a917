package traces

import (
	"context"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// InLog returns the log fields trace_id and span_id for the span in ctx, whether it is recorded or not. When ctx has no
// span, it returns no fields.
func InLog(ctx context.Context) zap.Field { return LogOf(trace.SpanFromContext(ctx)) }

// LogOf returns the fields of InLog for a span, which may be nil.
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
