package redrive

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Names of spans. Redrives and automatic retry begin new traces, because no caller waits for them.
const (
	spanBatch  = "redrive batch"
	spanAuto   = "automatic retry"
	spanSettle = "settle claims"
)

// Errors of spans.
const (
	notDone    = "not_done"    // the work was not finished and will be repeated
	notSettled = "not_settled" // a claim could not be read; the next turn tries again
	takenOver  = "taken_over"  // another process has taken the batch over
	unknownEnd = "in_doubt"    // the process ended before it knew all results
	allFailed  = "all_failed"  // messages were tried, and none succeeded
)

const (
	spanAttempts  = attribute.Key("dlq.attempts") // attempts with a result
	spanSucceeded = attribute.Key("dlq.messages.succeeded")
	spanSkipped   = attribute.Key("dlq.messages.skipped")
)

// within returns ctx with the span of the attempts.
func (a attempts) within(ctx context.Context) context.Context { return within(ctx, a.span) }

// traceBatch begins the span of a leased batch.
func (p *pass) traceBatch(b *repository.RedriveBatch) trace.Span {
	if p.tracer == nil {
		return traces.None()
	}
	attributes := []attribute.KeyValue{
		traces.RedriveID.String(p.id.String()), traces.RedriveBatch.Int(b.Number), traces.Messages.Int(len(b.Items)),
	}
	if asked := p.redrive.Cause.TraceID; asked != "" {
		attributes = append(attributes, traces.RequestTraceID.String(asked))
	}
	_, span := traces.Start(p.ctx, p.tracer, spanBatch, trace.WithNewRoot(), trace.WithAttributes(attributes...))
	return span
}

// within returns ctx with the span of the lease's batch.
func (l *lease) within(ctx context.Context) context.Context { return within(ctx, l.span) }

// within also sets an unrecorded span, so that no child of it is recorded. It ignores nil and traces.None.
func within(ctx context.Context, span trace.Span) context.Context {
	if span == nil || !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}

// fail sets the error of the batch's span. The first one stays.
func (l *lease) fail(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure == "" {
		l.failure = why
	}
}

// endTrace ends the batch's span with its results. Waiting messages are no error unless the pass failed.
func (l *lease) endTrace() {
	defer l.span.End()
	if !l.span.IsRecording() {
		return
	}
	counts := map[entity.ItemResult]int{}
	for _, item := range l.results {
		counts[item.Result]++
	}
	failed := counts[entity.ItemFailed] + counts[entity.ItemDead] + counts[entity.ItemInDoubt]
	l.span.SetAttributes(spanSucceeded.Int(counts[entity.ItemSucceeded]), traces.Failed.Int(failed), spanSkipped.Int(counts[entity.ItemSkipped]))
	switch why := context.Cause(l.p.ctx); {
	case failed > 0 && counts[entity.ItemSucceeded] == 0:
		l.fail(allFailed)
	case why != nil && !errors.Is(why, context.Canceled) && len(l.unknown()) > 0:
		l.fail(notDone)
	}
	if l.failure != "" {
		l.span.SetStatus(codes.Error, "")
		l.span.SetAttributes(traces.ErrorType.String(l.failure))
	}
}

// traceAuto begins the span of an automatic batch.
func (d *dispatcher) traceAuto(ctx context.Context, messages int) (context.Context, trace.Span) {
	if d.tracer == nil {
		return ctx, traces.None()
	}
	return traces.Start(ctx, d.tracer, spanAuto, trace.WithNewRoot(), trace.WithAttributes(traces.Messages.Int(messages)))
}

// endAuto ends the span of an automatic batch.
func endAuto(span trace.Span, attempts int, err error) {
	if span.IsRecording() {
		span.SetAttributes(spanAttempts.Int(attempts))
		fail(span, notDone, err)
	}
	span.End()
}

// settling is the span of settled claims; span is nil while it is made only if a claim is settled.
type settling struct {
	s      *Service
	ctx    context.Context //nolint:containedctx // of a span that may be made later
	span   trace.Span
	alone  bool // it has no parent
	begun  time.Time
	claims int
}

// traceSettling begins the span of settled claims, as a child of the caller's span or as a root. While a broker is
// unavailable, only the first failure and each success get a root span, until no claim fails.
func (s *Service) traceSettling(ctx context.Context, claims int) (context.Context, settling) {
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
		t.span.SetAttributes(spanAttempts.Int(settled))
		fail(t.span, notSettled, err)
	}
	t.span.End()
}

// fail records that there was an error, without its text, which may quote the broker.
func fail(span trace.Span, why string, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(traces.ErrorType.String(why))
	}
}
