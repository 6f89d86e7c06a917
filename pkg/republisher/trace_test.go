package republisher

import (
	"context"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

// inTrace makes a message part of trace number n, which is above 0.
func inTrace(n int) func(*entity.Message) {
	return func(m *entity.Message) {
		m.Origin.Partition = ptr(int32(1))
		m.Record.Key, m.Record.Value = []byte("secret-key"), []byte("secret-value")
		m.Record.Headers = []entity.Header{
			{Key: "traceparent", Value: fmt.Appendf(nil, "00-%032x-%016x-01", n, n)}, {Key: "tracestate", Value: []byte("vendor=1")},
		}
	}
}

func TestWithTracing(t *testing.T) {
	t.Parallel()

	t.Run("ARecordWithinItsRequest", func(t *testing.T) {
		t.Parallel()
		spans, l := tracestest.Record(), newLogs()
		r := newRepublisher(t, l)
		WithTracing(spans)(r)
		batch := claimed(t, r, message(inTrace(1)))
		ctx := spans.Begin(t.Context())
		r.Publish(ctx, batch)
		span := spans.Only(t, "send orders")
		if span.SpanKind() != oteltrace.SpanKindClient || span.Parent().SpanID() != oteltrace.SpanContextFromContext(ctx).SpanID() ||
			span.Status().Code != codes.Unset {
			t.Errorf("got kind %s, parent %s, status %v, want a client within the request", span.SpanKind(), span.Parent().SpanID(), span.Status())
		}
		tracestest.WantAttributes(t, span.Attributes(), map[attribute.Key]string{
			traces.System: "kafka", traces.Operation: "send", traces.OperationType: "send", traces.Topic: "orders",
			traces.PartitionID: "1", traces.Offset: "0", traces.BatchMessages: "", traces.ErrorType: "", traces.Failed: "",
			traces.MessageID: batch[0].Message.ID.String(), traces.AttemptID: batch[0].Message.Claim.ID.String(),
		})
		tracestest.WantNothingOf(t, span, "secret")
		check.True(t, len(span.Links()) == 1 && span.Links()[0].SpanContext.TraceID().String() == fmt.Sprintf("%032x", 1),
			"got the links %v, want one to the record's own trace", span.Links())
		want := batch[0].Message.Record.Headers
		for n, h := range l.records[part(1)][0].Headers[:len(want)] {
			check.True(t, h.Key == want[n].Key && string(h.Value) == string(want[n].Value),
				"sent the header %s: %s, want %s: %s", h.Key, h.Value, want[n].Key, want[n].Value)
		}
	})

	t.Run("APartitionsBatch", func(t *testing.T) {
		t.Parallel()
		spans, l := tracestest.Record(), newLogs()
		r := newRepublisher(t, l)
		WithTracing(spans)(r)
		malformed := message(inTrace(9), func(m *entity.Message) { m.Record.Headers[0].Value = []byte("00-secret") })
		batch := claimed(t, r, message(inTrace(1)), malformed, message(inTrace(2)))
		r.Publish(spans.Begin(t.Context()), batch)
		span := spans.Only(t, "send orders")
		tracestest.WantAttributes(t, span.Attributes(), map[attribute.Key]string{
			traces.BatchMessages: "3", traces.MessageID: "", traces.AttemptID: "", traces.Offset: "",
		})
		tracestest.WantNothingOf(t, span, "secret")
		check.Require(t, len(span.Links()) == 2, "got %d links, want 2", len(span.Links()))
		tracestest.WantAttributes(t, span.Links()[1].Attributes, map[attribute.Key]string{
			traces.Offset: "2", traces.MessageID: batch[2].Message.ID.String(), traces.AttemptID: batch[2].Message.Claim.ID.String(),
		})
	})

	t.Run("LinksToSoManyOnly", func(t *testing.T) {
		t.Parallel()
		spans := tracestest.Record()
		r := newRepublisher(t, newLogs())
		WithTracing(spans)(r)
		var messages []entity.Message
		for n := range 300 {
			messages = append(messages, message(inTrace(n+1)))
		}
		r.Publish(spans.Begin(t.Context()), claimed(t, r, messages...))
		check.Equal(t, len(spans.Only(t, "send orders").Links()), traces.MaxLinks, "links")
	})

	t.Run("ErrorsByTheirClass", func(t *testing.T) {
		t.Parallel()
		spans, l := tracestest.Record(), newLogs()
		r := newRepublisher(t, l)
		WithTracing(spans)(r)
		batch := claimed(t, r, message(inTrace(1)), message(inTrace(2)))
		l.fail = func(broker.TopicPartition, broker.Record) error {
			return &broker.ProduceError{Fate: broker.InDoubt, Class: broker.ClassNetworkTimeout, Err: fmt.Errorf("secret: %w", broker.ErrUnavailable)}
		}
		r.Publish(spans.Begin(t.Context()), batch)
		span := spans.Only(t, "send orders")
		if span.Status() != (sdktrace.Status{Code: codes.Error}) || len(span.Events()) != 0 || len(span.Links()) != 2 {
			t.Errorf("got status %v, events %v, %d links, want an error without a word and two links", span.Status(), span.Events(), len(span.Links()))
		}
		tracestest.WantAttributes(t, span.Attributes(), map[attribute.Key]string{traces.ErrorType: string(entity.NetworkTimeout), traces.Offset: ""})
		tracestest.WantNothingOf(t, span, "secret")
	})

	t.Run("NothingThatIsNotSent", func(t *testing.T) {
		t.Parallel()
		spans := tracestest.Record()
		r := newRepublisher(t, newLogs())
		WithTracing(spans)(r)
		ctx, cancel := context.WithCancel(spans.Begin(t.Context()))
		cancel()
		check.Equal(t, r.Publish(ctx, claimed(t, r, message(inTrace(1))))[0].Verdict, entity.GivenBack, "verdict")
		got := spans.Names()
		check.True(t, len(got) == 0, "got the spans %q, want none", got)
	})
}

func TestWithTracing_OffCostsNothing(t *testing.T) { //nolint:paralleltest // other tests allocate too
	r := newRepublisher(t, newLogs())
	WithTracing(nil)(r)
	ctx, batch := t.Context(), claimed(t, r, message(inTrace(1)))
	indices, deliveries := []int{0}, make([]entity.Delivery, 1)
	if n := testing.AllocsPerRun(100, func() {
		_, span := r.trace(ctx, part(1), 1)
		end(span, batch, indices, deliveries)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
