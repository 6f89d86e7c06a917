package ingest

import (
	"context"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

const (
	process       = "process"
	severalTopics = "dead letters" // replaces the topic in the name of a span when the batch has records of several topics

	spanStored    = attribute.Key("dlq.ingest.stored")
	spanDuplicate = attribute.Key("dlq.ingest.duplicate")
	// notStored is the error type of a batch that was not stored before the generation ended. The ingester that reads
	// the partition next reads the batch again.
	notStored = "not_stored"
)

// trace starts the span of a batch. The span is the root of a new trace, because each record of the batch may belong to
// a trace of its own. A batch without records has no span.
func (i *Ingester) trace(ctx context.Context, chunks []chunk) (context.Context, trace.Span) {
	if i.tracer == nil {
		return ctx, traces.None()
	}
	records := 0
	for _, c := range chunks {
		records += len(c.records)
	}
	if records == 0 {
		return ctx, traces.None()
	}
	first := chunks[0].p.TopicPartition
	sameTopic := !slices.ContainsFunc(chunks, func(c chunk) bool { return c.p.Topic != first.Topic })
	attributes := append(traces.Kafka(process), traces.ConsumerGroup.String(i.consumerGroup), traces.BatchMessages.Int(records))
	name := severalTopics
	if sameTopic {
		name = first.Topic
		attributes = append(attributes, traces.Topic.String(first.Topic))
		if !slices.ContainsFunc(chunks, func(c chunk) bool { return c.p.Partition != first.Partition }) {
			attributes = append(attributes, traces.Partition(first.Partition))
		}
	}
	return traces.Start(ctx, i.tracer, process+" "+name,
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(attributes...))
}

// link adds links from a batch's span to the traces of its records, up to MaxLinks.
func link(span trace.Span, messages []entity.Message) {
	links := traces.NewLinks(span)
	for n := 0; n < len(messages) && !links.Full(); n++ {
		m := &messages[n]
		if to := traces.FromHeaders(m.Record.Headers); to.IsValid() {
			links.Add(to, traces.MessageID.String(m.ID.String()), traces.Topic.String(m.Source.Topic),
				traces.Partition(m.Source.Partition), traces.Offset.Int64(m.Source.Offset))
		}
	}
}

// recordCounts sets two attributes of a batch's span: the number of new messages, and the number of messages that were
// stored before.
func recordCounts(span trace.Span, messages []entity.Message, moved []repository.Partition) {
	if !span.IsRecording() {
		return
	}
	stored := 0
	for n := range messages {
		from := messages[n].Source
		if slices.Contains(moved, repository.Partition{Incarnation: from.Incarnation, Partition: from.Partition}) {
			stored++
		}
	}
	span.SetAttributes(spanStored.Int(stored), spanDuplicate.Int(len(messages)-stored))
}

// end ends a batch's span.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
		span.SetAttributes(traces.ErrorType.String(notStored))
	}
	span.End()
}
