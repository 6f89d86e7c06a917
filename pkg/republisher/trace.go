package republisher

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

const send = "send"

// trace starts the span of a send to a partition. The kind of the span is not producer, because the sent records carry
// their own trace context and not that of the span.
func (r *Republisher) trace(ctx context.Context, tp broker.TopicPartition, records int) (context.Context, oteltrace.Span) {
	if r.tracer == nil {
		return ctx, traces.None()
	}
	attributes := append(traces.Kafka(send), traces.Topic.String(tp.Topic), traces.Partition(tp.Partition))
	if records > 1 {
		attributes = append(attributes, traces.BatchMessages.Int(records))
	}
	return traces.Start(ctx, r.tracer, send+" "+tp.Topic, oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(attributes...))
}

// end sets the results of the messages at indices in the span, links the span to the trace context in each dead letter,
// and ends it.
func end(span oteltrace.Span, batch []entity.Outgoing, indices []int, deliveries []entity.Delivery) {
	defer span.End()
	if !span.IsRecording() {
		return
	}
	links := traces.NewLinks(span)
	var failure entity.Delivery
	failed := 0
	for n, i := range indices {
		m, d := &batch[i].Message, deliveries[n]
		if failedBy(d.Verdict) {
			if failed++; failed == 1 {
				failure = d
			}
		}
		if len(indices) == 1 {
			span.SetAttributes(recordAttributes(m, d)...)
			links.Add(traces.FromHeaders(m.Record.Headers))
		} else if !links.Full() {
			links.Add(traces.FromHeaders(m.Record.Headers), recordAttributes(m, d)...)
		}
	}
	if failed > 0 {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(traces.ErrorType.String(string(failure.Class)), traces.Failed.Int(failed))
	}
}

// failedBy reports whether a verdict makes the span of the send an error: the send failed, or its result is in doubt.
// Records that were not sent do not make it an error.
func failedBy(v entity.Verdict) bool {
	switch v {
	case entity.Failed, entity.Rejected, entity.Refused, entity.InDoubt:
		return true
	default:
		return false
	}
}

// recordAttributes returns attributes for a record: the ids of its message and attempt and, if it was acknowledged and
// is known, its offset.
func recordAttributes(m *entity.Message, d entity.Delivery) []attribute.KeyValue {
	attributes := []attribute.KeyValue{traces.MessageID.String(m.ID.String()), traces.AttemptID.String(m.Claim.ID.String())}
	if d.Verdict == entity.Acknowledged && d.Offset != broker.OffsetUnknown {
		attributes = append(attributes, traces.Offset.Int64(d.Offset))
	}
	return attributes
}
