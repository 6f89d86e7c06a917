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

// Names of spans. Those of redrives and of automatic retry are the roots of traces: no caller waits for them.
const (
	spanBatch  = "redrive batch"
	spanAuto   = "automatic retry"
	spanSettle = "settle claims"
)

// Errors of spans.
const (
	notDone    = "not_done"    // the work was not finished; it is done again
	notSettled = "not_settled" // some claim could not be looked at; the next turn does
	takenOver  = "taken_over"  // another process has the batch, and its result counts
	unknownEnd = "in_doubt"    // the process ended before it knew what became of all
	allFailed  = "all_failed"  // of the messages that were tried none succeeded
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

// within passes on unrecorded spans too: nothing within them is recorded. nil and traces.None are left out.
func within(ctx context.Context, span trace.Span) context.Context {
	if span == nil || !span.SpanContext().IsValid() {
		return ctx
	}
	return trace.ContextWithSpan(ctx, span)
}

// fail has the batch's span fail. The first reason counts.
func (l *lease) fail(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure == "" {
		l.failure = why
	}
}

// endTrace ends the batch's span with its results. Waiting messages are no failure unless the pass failed.
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

// settling is the span of settled claims; span is nil for one that is made only if something is settled.
type settling struct {
	s      *Service
	ctx    context.Context //nolint:containedctx // of the span that may be made later
	span   trace.Span
	alone  bool // it is within no other
	begun  time.Time
	claims int
}

// traceSettling begins the span of settled claims: within the caller's span, else of its own. While a broker is
// away, only the first failure and each success have a span of their own, until all goes well again.
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

// end ends it with the attempts that were settled.
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

// fail says that there was an error, not which: its text may quote what a broker says.
func fail(span trace.Span, why string, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(traces.ErrorType.String(why))
	}
}
