package bulk

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

func TestWithTracing(t *testing.T) {
	t.Parallel()

	t.Run("ABatchOfARedrive", scenario(func(b *bench) {
		spans := tracestest.Record()
		asked := b.traced(spans)
		ids := b.Add(3)
		b.Kafka.Deliver = except(failure(entity.BrokerUnavailable), ids[1])
		r := check.Must(b.retryAll(func(n *repository.NewRedrive) { n.Cause.TraceID = "4bf92f3577b34da6a3ce929d0e0e4736" }))(b)
		span := spans.Only(b, spanBatch)
		check.True(b, !span.Parent().IsValid() && span.SpanKind() == trace.SpanKindInternal && span.Status().Code == codes.Unset,
			"got parent %v, kind %s, status %v, want a root without one", span.Parent(), span.SpanKind(), span.Status())
		tracestest.WantAttributes(b, span.Attributes(), map[attribute.Key]string{
			traces.RedriveID: r.ID.String(), traces.RedriveBatch: "0", traces.Messages: "3", traces.Failed: "1",
			spanSucceeded: "2", spanSkipped: "0", traces.RequestTraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
		})
		asked.Want(b.T, span, "Load", "Claim", "Finish", "SaveBatch")
		tracestest.WantNothingOf(b, span, errBroken.Error())
	}))

	t.Run("ABatchThatFails", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			breaks func(b *bench)
			want   string
		}{
			"AllOfIt": {func(b *bench) {
				b.Kafka.Deliver = always(failure(entity.BrokerUnavailable), false)
			}, allFailed},
			"ToBeSaved":  {func(b *bench) { b.Store.OnSaveBatch = func() (bool, error) { return false, errBroken } }, traces.NotDone},
			"ForAnother": {func(b *bench) { b.Store.OnSaveBatch = func() (bool, error) { return false, nil } }, takenOver},
			"InDoubt": {func(b *bench) {
				b.Kafka.Deliver = always(inDoubt(entity.NetworkTimeout), false)
				b.Kafka.Find = finding(inDoubt(entity.BrokerUnavailable))
			}, unknownEnd},
			"ToBeLoaded":    {func(b *bench) { b.Store.Hang = "Load" }, traces.NotDone},
			"ToBeTakenOver": {func(b *bench) { b.Store.OnAttemptsOf = func() error { return errBroken } }, traces.NotDone},
		} {
			t.Run(name, scenario(func(b *bench) {
				spans := tracestest.Record()
				b.Add(2)
				r := b.begin()
				b.traced(spans)
				if name == "ToBeTakenOver" {
					check.Must(b.Store.LeaseBatch(context.Background(), r.ID, entity.NewID(), b.deps.cfg.ClaimExpiry))(b)
					elapse(b.deps.cfg.ClaimExpiry)
				}
				c.breaks(b)
				stop := b.carry()
				elapse(silence + time.Second)
				stop()
				found := spans.Named(spanBatch)
				check.Require(b, len(found) != 0 && found[0].Status() == (sdktrace.Status{Code: codes.Error}),
					"got the spans %v, want one with an error without a word", found)
				tracestest.WantAttributes(b, found[0].Attributes(), map[attribute.Key]string{traces.ErrorType: c.want})
			}))
		}
	})

	t.Run("WaitingIsRecordedForTheFirstTriesAlone", scenario(func(b *bench) {
		spans := tracestest.Record()
		b.Add(2)
		b.Kafka.Deliver = always(inDoubt(entity.NetworkTimeout), false)
		b.Kafka.Find = finding(inDoubt(entity.BrokerUnavailable))
		b.traced(spans)
		asked, recorded := 0, 0
		b.Store.Asked = func(ctx context.Context, method string) {
			if method == "AttemptsOf" {
				asked++
				if trace.SpanContextFromContext(ctx).IsSampled() {
					recorded++
				}
			}
		}
		b.begin()
		stop := b.carry()
		elapse(time.Hour)
		stop()
		check.True(b, asked >= 1000 && recorded == 3, "%d of %d looks are recorded, want 3 of thousands", recorded, asked)
		tracestest.WantAttributes(b, spans.Only(b, spanBatch).Attributes(), map[attribute.Key]string{traces.Tries: fmt.Sprint(asked)})
		if got := len(spans.Ended()); got != 2 { // the span of the batch, and the span of the settler's first failure
			b.Errorf("got the spans %q, want two", spans.Names())
		}
	}))

	t.Run("WhoTakesOverWaitsLikewise", scenario(func(b *bench) {
		spans := tracestest.Record()
		b.Add(2)
		r := b.begin()
		dead := b.another()
		dead.Kafka.Deliver = always(inDoubt(entity.NetworkTimeout), false)
		stop := dead.carry()
		elapse(time.Second)
		stop()
		b.Kafka.Find = finding(inDoubt(entity.BrokerUnavailable))
		b.traced(spans)
		ctx, cancel := context.WithCancel(context.Background())
		var carrying sync.WaitGroup
		carrying.Go(func() { b.runner.Run(ctx) })
		elapse(time.Hour)
		cancel()
		carrying.Wait()
		span := spans.Only(b, spanBatch)
		tracestest.WantAttributes(b, span.Attributes(), map[attribute.Key]string{traces.RedriveID: r.ID.String(), traces.ErrorType: traces.NotDone})
		got := len(spans.Ended())
		check.True(b, got <= 1+3, "got %d spans, want the batch and at most three settlings", got)
	}))

	t.Run("ALineOfADeadMessageHasItsBatch", scenario(func(b *bench) {
		spans := tracestest.Record()
		b.traced(spans)
		b.Add(1)
		b.Kafka.Deliver = always(rejected, false)
		check.Must(b.retryAll())(b)
		line, span := b.Logs.FilterMessage("message is dead").All()[0].ContextMap(), spans.Only(b, spanBatch).SpanContext()
		check.True(b, line["trace_id"] == span.TraceID().String() && line["span_id"] == span.SpanID().String(),
			"got %v, want the ids of %s and %s", line, span.TraceID(), span.SpanID())
	}))

	t.Run("WhatIsNotSampledHasNoSpansWithin", scenario(func(b *bench) {
		spans := tracestest.RecordSampled(sdktrace.ParentBased(sdktrace.NeverSample()))
		b.traced(spans)
		b.Store.Asked = func(ctx context.Context, method string) {
			if span := trace.SpanContextFromContext(ctx); method != "Expired" && (!span.IsValid() || span.IsSampled()) {
				b.Errorf("%s was asked within the span %v, want one that is not sampled", method, span)
			}
		}
		b.Add(2)
		check.Must(b.retryAll())(b)
	}))

	t.Run("OffPassesNothingOn", scenario(func(b *bench) {
		asked := b.traced(nil)
		b.Add(2)
		check.Must(b.retryAll())(b)
		for method, within := range asked.Spans {
			check.True(b, fmt.Sprint(within) == fmt.Sprint(map[trace.SpanID]bool{{}: true}),
				"%s was asked within the spans %v, want none", method, within)
		}
	}))
}

func TestWithTracing_OffCostsNothing(t *testing.T) { //nolint:paralleltest // other tests allocate too
	p := newPass(newRun(newBench(t).runner, entity.NewID()), entity.Redrive{})
	ctx, batch, of := t.Context(), &repository.RedriveBatch{}, &items{}
	l := &lease{} // in the product the lease is on the heap too, so its own allocation is not counted
	if n := testing.AllocsPerRun(100, func() {
		l.span.span = startSpan(p.ctx, p.deps.tracer, p.redrive, batch)
		_ = l.span.within(ctx)
		l.span.end(of, nil)
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
