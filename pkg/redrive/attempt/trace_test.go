package attempt

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

func (b *bench) traced(provider trace.TracerProvider) *redrivetest.Asked {
	b.Settler.tracer = traces.Tracer(provider, "test")
	return b.Watch()
}

func TestWithTracing(t *testing.T) {
	t.Parallel()

	t.Run("ARetryIsPartOfItsRequest", scenario(func(b *bench) {
		spans := tracestest.Record()
		asked := b.traced(spans)
		ctx, request := spans.Tracer("test").Start(context.Background(), "request")
		_, err := b.Retry(ctx, entity.RetryOrder{ID: b.Add(1)[0], Cause: entity.By("tester")})
		request.End()
		check.NoError(b, err)
		asked.Want(b.T, spans.Only(b, "request"), "Get", "Claim", "Finish")
		got := spans.Names()
		check.True(b, len(got) == 1, "got the spans %q, want that of the request alone", got)
	}))

	t.Run("ClaimsThatAreSettled", scenario(func(b *bench) {
		spans := tracestest.Record()
		b.crash(b.Add(1)[0], true)
		asked := b.traced(spans)
		b.afterExpiry()
		span := spans.Only(b, spanSettle)
		tracestest.WantAttributes(b, span.Attributes(), map[attribute.Key]string{traces.Messages: "1", traces.Attempts: "1"})
		asked.Want(b.T, span, "Finish")
	}))

	t.Run("ClaimsThatARequestSettles", scenario(func(b *bench) {
		spans := tracestest.Record()
		id := b.Add(1)[0]
		b.crash(id, true)
		b.traced(spans)
		elapse(b.cfg.ClaimExpiry)
		ctx := spans.Begin(context.Background())
		check.Must(b.Retry(ctx, entity.RetryOrder{ID: id, Cause: entity.By("tester")}))(b)
		check.Equal(b, spans.Only(b, spanSettle).Parent().SpanID(), trace.SpanContextFromContext(ctx).SpanID(), "parent")
	}))

	t.Run("ClaimsThatCannotBeSettled", scenario(func(b *bench) {
		spans := tracestest.Record()
		b.crash(b.Add(1)[0], true)
		b.traced(spans)
		b.Kafka.Find = finding(inDoubt(entity.BrokerUnavailable))
		elapse(b.cfg.ClaimExpiry)
		err := b.Settle(context.Background())
		check.True(b, err != nil, "Settle = nil, want an error")
		span := spans.Only(b, spanSettle)
		check.True(b, span.Status() == (sdktrace.Status{Code: codes.Error}),
			"got status %v, want an error without a word", span.Status())
		tracestest.WantAttributes(b, span.Attributes(), map[attribute.Key]string{traces.ErrorType: notSettled, traces.Attempts: "0"})
	}))

	t.Run("ClaimsThatCannotBeSettledForLongAreToldOnce", scenario(func(b *bench) {
		spans := tracestest.Record()
		ids := b.Add(3)
		b.crash(ids[0], true)
		b.crash(ids[1], true)
		b.traced(spans)
		away := inDoubt(entity.BrokerUnavailable)
		b.Kafka.Find = func(entity.Claim) *entity.Delivery { return &away }
		turn := func() {
			elapse(b.cfg.ClaimExpiry)
			_ = b.Settle(context.Background())
		}
		wantSpans := func(when string, want int) {
			b.Helper()
			check.Equal(b, len(spans.Named(spanSettle)), want, "%s: spans", when)
		}
		for range 100 {
			turn()
		}
		wantSpans("away", 1)
		b.Kafka.Find = func(c entity.Claim) *entity.Delivery {
			if c.ID == b.Get(ids[0]).Claim.ID {
				return &away
			}
			return nil
		}
		turn()
		wantSpans("something was settled", 2)
		tracestest.WantAttributes(b, spans.Named(spanSettle)[1].Attributes(), map[attribute.Key]string{traces.ErrorType: notSettled, traces.Attempts: "1"})
		turn()
		wantSpans("the rest is still away", 2)
		b.Kafka.Find = nil
		turn()
		wantSpans("back", 3)
		b.crash(ids[2], true)
		b.Kafka.Find = func(entity.Claim) *entity.Delivery { return &away }
		turn()
		wantSpans("away again", 4)
	}))
}

func TestWithTracing_OffCostsNothing(t *testing.T) { //nolint:paralleltest // other tests allocate too
	b, ctx := newBench(t), t.Context()
	if n := testing.AllocsPerRun(100, func() {
		ctx := Batch{span: trace.SpanFromContext(ctx)}.within(ctx)
		_, settling := b.traceSettling(ctx, 1)
		settling.end(1, nil)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
