package attempt

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

const (
	spanSettle = "settle claims" // name of the span
	notSettled = "not_settled"   // its error: a claim could not be read; the next turn tries again
)

// settling is the span of settled claims; span is nil while it is made only if a claim is settled.
type settling struct {
	s      *Settler
	ctx    context.Context //nolint:containedctx // of a span that may be made later
	span   trace.Span
	alone  bool // it has no parent
	begun  time.Time
	claims int
}

// traceSettling begins the span of settled claims, as a child of the caller's span or as a root. While a broker is
// unavailable, only the first failure and each success get a root span, until no claim fails.
func (s *Settler) traceSettling(ctx context.Context, claims int) (context.Context, settling) {
	if s.tracer == nil || claims == 0 {
		return ctx, settling{span: traces.None()}
	}
	t := settling{s: s, ctx: ctx, alone: !trace.SpanContextFromContext(ctx).IsValid(), begun: time.Now(), claims: claims}
	if t.alone && s.unsettled.Load() {
		return ctx, t
	}
	return t.start()
}

func (t settling) start() (context.Context, settling) {
	ctx, span := traces.Start(t.ctx, t.s.tracer, spanSettle, trace.WithTimestamp(t.begun), trace.WithAttributes(traces.Messages.Int(t.claims)))
	t.span = span
	return ctx, t
}

// end ends the span with the number of settled attempts.
func (t settling) end(settled int, err error) {
	if t.alone {
		t.s.unsettled.Store(err != nil)
	}
	if t.span == nil {
		if settled == 0 {
			return
		}
		_, t = t.start()
	}
	if t.span.IsRecording() {
		t.span.SetAttributes(traces.Attempts.Int(settled))
		traces.Fail(t.span, notSettled, err)
	}
	t.span.End()
}
