package bulk

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// spanBatch is the name of the span of a batch. The span begins a new trace, because no request waits for the batch.
const spanBatch = "redrive batch"

// Errors of the span, in addition to traces.NotDone.
const (
	takenOver  = "taken_over" // the lease has ended, and another process has leased the batch
	unknownEnd = "in_doubt"   // the pass ended before the results of all attempts were known
	allFailed  = "all_failed" // attempts were made, and none succeeded
)

const (
	spanSucceeded = attribute.Key("dlq.messages.succeeded")
	spanSkipped   = attribute.Key("dlq.messages.skipped")
)

// batchSpan is the span of a leased batch.
type batchSpan struct {
	span trace.Span

	mu      sync.Mutex
	failure string // error of the span; "" for none
}

// startSpan begins the span of a leased batch.
func startSpan(ctx context.Context, tracer trace.Tracer, redrive entity.Redrive, b *repository.RedriveBatch) trace.Span {
	if tracer == nil {
		return traces.None()
	}
	attributes := []attribute.KeyValue{
		traces.RedriveID.String(redrive.ID.String()), traces.RedriveBatch.Int(b.Number), traces.Messages.Int(len(b.Items)),
	}
	if asked := redrive.Cause.TraceID; asked != "" {
		attributes = append(attributes, traces.RequestTraceID.String(asked))
	}
	_, span := traces.Start(ctx, tracer, spanBatch, trace.WithNewRoot(), trace.WithAttributes(attributes...))
	return span
}

// within returns ctx with the span.
func (s *batchSpan) within(ctx context.Context) context.Context { return traces.In(ctx, s.span) }

// fail sets the error of the span, unless an error is already set.
func (s *batchSpan) fail(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == "" {
		s.failure = why
	}
}

// end ends the span with the counts of the batch's results. stopped is the reason for which the pass was stopped. If
// messages have no result, the span is an error only when the pass was stopped by an error.
func (s *batchSpan) end(of *items, stopped error) {
	defer s.span.End()
	if !s.span.IsRecording() {
		return
	}
	counts := map[entity.ItemResult]int{}
	for _, item := range of.results {
		counts[item.Result]++
	}
	failed := counts[entity.ItemFailed] + counts[entity.ItemDead] + counts[entity.ItemInDoubt]
	s.span.SetAttributes(spanSucceeded.Int(counts[entity.ItemSucceeded]), traces.Failed.Int(failed), spanSkipped.Int(counts[entity.ItemSkipped]))
	switch {
	case failed > 0 && counts[entity.ItemSucceeded] == 0:
		s.fail(allFailed)
	case stopped != nil && !errors.Is(stopped, context.Canceled) && len(of.unknown()) > 0:
		s.fail(traces.NotDone)
	}
	if s.failure != "" {
		s.span.SetStatus(codes.Error, "")
		s.span.SetAttributes(traces.ErrorType.String(s.failure))
	}
}
