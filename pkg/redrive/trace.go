package redrive

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Names of spans. Those of redrives and of automatic retry are the roots of traces:
// nobody waits for them.
const (
	spanBatch  = "redrive batch"
	spanAuto   = "automatic retry"
	spanSettle = "settle claims"
)

// Errors of spans.
const (
	notDone    = "not_done"    // the work was not finished; it is done again
	notSettled = "not_settled" // some claim could not be looked at; the next turn does
)

const (
	spanAttempts  = attribute.Key("dlq.attempts") // that came to an end
	spanSucceeded = attribute.Key("dlq.messages.succeeded")
	spanSkipped   = attribute.Key("dlq.messages.skipped")
)

// within returns ctx in the span of the attempts.
func (a attempts) within(ctx context.Context) context.Context { return within(ctx, a.span) }

// traceBatch begins the span of a batch that was leased.
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

// within returns ctx in the span of the lease's batch.
func (l *lease) within(ctx context.Context) context.Context { return within(ctx, l.span) }

// within passes on a span that is not recorded as well: what is done within it is not
// to be recorded either. nil and traces.None are passed over.
func within(ctx context.Context, span trace.Span) context.Context {
	if span == nil || !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}

// endTrace ends the batch's span with what came of its messages.
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
}

// traceAuto begins the span of a batch that is retried without being asked.
func (d *dispatcher) traceAuto(ctx context.Context, messages int) (context.Context, trace.Span) {
	if d.tracer == nil {
		return ctx, traces.None()
	}
	return traces.Start(ctx, d.tracer, spanAuto, trace.WithNewRoot(), trace.WithAttributes(traces.Messages.Int(messages)))
}

// endAuto ends it.
func endAuto(span trace.Span, attempts int, err error) {
	if span.IsRecording() {
		span.SetAttributes(spanAttempts.Int(attempts))
		fail(span, notDone, err)
	}
	span.End()
}

// traceSettling begins the span of claims that are settled: within that of whoever has
// to have them settled, else of its own.
func (s *Service) traceSettling(ctx context.Context, claims int) (context.Context, trace.Span) {
	if s.tracer == nil || claims == 0 {
		return ctx, traces.None()
	}
	return traces.Start(ctx, s.tracer, spanSettle, trace.WithAttributes(traces.Messages.Int(claims)))
}

// endSettling ends it with the attempts that were settled.
func endSettling(span trace.Span, settled int, err error) {
	if span.IsRecording() {
		span.SetAttributes(spanAttempts.Int(settled))
		fail(span, notSettled, err)
	}
	span.End()
}

// fail says that there was an error, not which: its text may quote what a broker says.
func fail(span trace.Span, why string, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(traces.ErrorType.String(why))
	}
}
