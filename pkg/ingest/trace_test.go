package ingest

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

// inTrace returns a record whose headers contain a trace context. The number n, which must be above 0, becomes the
// trace id.
func inTrace(n int) broker.Record {
	return broker.Record{Key: []byte("secret-key"), Value: []byte("secret-value"), Headers: []entity.Header{
		{Key: "traceparent", Value: fmt.Appendf(nil, "00-%032x-%016x-01", n, n)}, {Key: "tracestate", Value: []byte("vendor=1")},
	}}
}

func TestWithTracing(t *testing.T) {
	t.Parallel()
	a, b := part("a.dlq.v1", 0), part("a.dlq.v1", 1)
	tests := map[string]func(w *world, spans *tracestest.Spans){
		"LinksABatchToTheTracesOfItsRecords": func(w *world, spans *tracestest.Spans) {
			malformed, none := numbered(1)[0], numbered(1)[0]
			malformed.Headers = []entity.Header{{Key: "traceparent", Value: []byte("00-secret-01")}}
			w.cluster.produce(a, inTrace(1), malformed, none, inTrace(2))
			w.runFor(time.Second, a)
			span := spans.Only(w.t, "process a.dlq.v1")
			if span.SpanKind() != trace.SpanKindConsumer || span.Parent().IsValid() || span.Status().Code != codes.Unset {
				w.t.Errorf("got kind %s, parent %v, status %v, want a consumer without either", span.SpanKind(), span.Parent(), span.Status())
			}
			tracestest.WantAttributes(w.t, span.Attributes(), map[attribute.Key]string{
				traces.System: "kafka", traces.Operation: "process", traces.OperationType: "process", traces.ConsumerGroup: "group",
				traces.Topic: "a.dlq.v1", traces.PartitionID: "0", traces.BatchMessages: "4", spanStored: "4", spanDuplicate: "0",
				traces.ErrorType: "",
			})
			check.Require(w.t, len(span.Links()) == 2, "got %d links, want 2", len(span.Links()))
			second := span.Links()[1]
			if got, want := second.SpanContext.TraceID().String(), fmt.Sprintf("%032x", 2); got != want || second.SpanContext.TraceState().Len() != 0 {
				w.t.Errorf("got a link to %s with state %q, want %s without any", got, second.SpanContext.TraceState(), want)
			}
			tracestest.WantAttributes(w.t, second.Attributes, map[attribute.Key]string{
				traces.Topic: "a.dlq.v1", traces.PartitionID: "0", traces.Offset: "3", traces.MessageID: w.messages("a.dlq.v1")[3].ID.String(),
			})
			tracestest.WantNothingOf(w.t, span, "secret")
		},
		"LinksToSoManyOnly": func(w *world, spans *tracestest.Spans) {
			for n := range 300 {
				w.cluster.produce(a, inTrace(n+1))
			}
			w.runFor(time.Second, a)
			check.Equal(w.t, len(spans.Only(w.t, "process a.dlq.v1").Links()), traces.MaxLinks, "links")
		},
		"NamesNoTopicWhenThereAreSeveral": func(w *world, spans *tracestest.Spans) {
			other := part("b.dlq.v1", 0)
			w.cluster.topic("b.dlq.v1", "second", 1)
			w.i.tracer = traces.Tracer(spans, "test")
			p, q := &partition{TopicPartition: a}, &partition{TopicPartition: other}
			_, span := w.i.trace(context.Background(), []chunk{{p: p, records: numbered(1)}, {p: q, records: numbered(1)}})
			span.End()
			tracestest.WantAttributes(w.t, spans.Only(w.t, "process dead letters").Attributes(),
				map[attribute.Key]string{traces.Topic: "", traces.PartitionID: "", traces.BatchMessages: "2"})
		},
		"NamesNoPartitionWhenThereAreSeveral": func(w *world, spans *tracestest.Spans) {
			p, q := &partition{TopicPartition: a}, &partition{TopicPartition: b}
			_, span := w.i.trace(spans.Begin(context.Background()), []chunk{{p: p, records: numbered(1)}, {p: q, records: numbered(1)}})
			span.End()
			got := spans.Only(w.t, "process a.dlq.v1").Parent()
			check.True(w.t, !got.IsValid(), "got parent %s, want a root whatever it is within", got.SpanID())
			tracestest.WantAttributes(w.t, spans.Only(w.t, "process a.dlq.v1").Attributes(),
				map[attribute.Key]string{traces.Topic: "a.dlq.v1", traces.PartitionID: ""})
		},
		"GivesTheStoreItsContext": func(w *world, spans *tracestest.Spans) {
			w.store.tracing = make(chan trace.SpanContext, 1)
			w.cluster.produce(a, inTrace(1))
			w.runFor(time.Second, a)
			span := spans.Only(w.t, "process a.dlq.v1")
			if got := <-w.store.tracing; got.SpanID() != span.SpanContext().SpanID() {
				w.t.Errorf("the store was asked within span %s, want %s", got.SpanID(), span.SpanContext().SpanID())
			}
		},
		"CountsWhatAnotherHasStored": func(w *world, spans *tracestest.Spans) {
			// Another ingester stores one of the messages first.
			w.store.before = func(batch repository.Batch) {
				r := batch.Ranges[0]
				_, err := w.store.Store.Store(context.Background(), repository.Batch{
					Ranges: []repository.Range{{Partition: r.Partition, From: r.From, To: r.From + 1}}, Messages: batch.Messages[:1],
				})
				if err != nil {
					w.t.Error(err)
				}
			}
			w.cluster.produce(a, inTrace(1), inTrace(2))
			reading := w.i.read(w.t.Context(), partitionsOf([]broker.TopicPartition{a}), w.commit)
			reading.over() // so that the rest is left to the partition's new owner
			pass(time.Second)
			span := spans.Only(w.t, "process a.dlq.v1")
			check.True(w.t, span.Status().Code == codes.Unset,
				"got status %v, want none: the partition's new owner stores the rest", span.Status())
			tracestest.WantAttributes(w.t, span.Attributes(), map[attribute.Key]string{spanStored: "0", spanDuplicate: "2", traces.ErrorType: ""})
		},
		"SaysThatABatchWasNotStored": func(w *world, spans *tracestest.Spans) {
			w.store.fail = func() error { return errDown }
			w.cluster.produce(a, inTrace(1))
			w.runFor(time.Minute, a)
			span := spans.Only(w.t, "process a.dlq.v1")
			check.True(w.t, span.Status().Code == codes.Error && len(span.Links()) == 1,
				"got status %v, %d links, want an error and one link", span.Status(), len(span.Links()))
			tracestest.WantAttributes(w.t, span.Attributes(), map[attribute.Key]string{traces.ErrorType: notStored, spanStored: ""})
		},
		"RecordsTheFirstTriesAlone": func(w *world, spans *tracestest.Spans) {
			w.store.tracing = make(chan trace.SpanContext, 1000)
			w.store.fail = func() error { return errDown }
			w.cluster.produce(a, inTrace(1))
			w.runFor(time.Hour, a)
			span := spans.Only(w.t, "process a.dlq.v1")
			tries, recorded := len(w.store.tracing), 0
			for range tries {
				at := <-w.store.tracing
				check.True(w.t, at.TraceID() == span.SpanContext().TraceID(),
					"the store was asked in trace %s, want %s", at.TraceID(), span.SpanContext().TraceID())
				if at.IsSampled() {
					recorded++
				}
			}
			check.True(w.t, tries >= 100 && recorded == 3, "%d of %d tries are recorded, want 3 of some hundreds", recorded, tries)
			tracestest.WantAttributes(w.t, span.Attributes(), map[attribute.Key]string{traces.Tries: fmt.Sprint(tries)})
		},
		"TellsTheLog": func(w *world, spans *tracestest.Spans) {
			w.cluster.produce(a, inTrace(1))
			w.runFor(time.Second, a)
			span := spans.Only(w.t, "process a.dlq.v1").SpanContext()
			for _, line := range []string{"stored dead letters", "stored"} {
				got := w.logged.FilterMessage(line).All()[0].ContextMap()
				check.True(w.t, got["trace_id"] == span.TraceID().String() && got["span_id"] == span.SpanID().String(),
					"%q has %v, want the ids of %s and %s", line, got, span.TraceID(), span.SpanID())
			}
		},
		"IsSilentWhenIdle": func(w *world, spans *tracestest.Spans) {
			w.runFor(10*time.Minute, a, b)
			got := spans.Names()
			check.True(w.t, len(got) == 0, "got the spans %q, want none", got)
		},
		"IsSilentAboutPositionsAlone": func(w *world, spans *tracestest.Spans) {
			ctx, span := w.i.trace(context.Background(), []chunk{{p: &partition{TopicPartition: a}, to: 5}})
			check.True(w.t, !span.IsRecording() && !trace.SpanContextFromContext(ctx).IsValid(),
				"a batch without records has a span, want none")
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, spans := newWorld(t), tracestest.Record()
				WithTracing(spans)(w.i)
				w.cluster.topic("a.dlq.v1", "first", 2)
				test(w, spans)
			})
		})
	}
}

func TestWithTracing_OffCostsNothing(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	w := newWorld(t)
	WithTracing(nil)(w.i)
	ctx, chunks := t.Context(), []chunk{{p: &partition{TopicPartition: part("a.dlq.v1", 0)}, records: []broker.Record{inTrace(1)}}}
	messages, _ := w.i.batch(chunks)
	if n := testing.AllocsPerRun(100, func() {
		_, span := w.i.trace(ctx, chunks)
		link(span, messages.Messages)
		recordCounts(span, messages.Messages, nil)
		end(span, nil)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

// runFor runs a generation that reads the given partitions for the time d.
func (w *world) runFor(d time.Duration, parts ...broker.TopicPartition) {
	w.t.Helper()
	_, stop := w.start(parts...)
	pass(d)
	check.Equal(w.t, stop(), nil, "generation")
}
