package redrive

import (
	"context"
	"fmt"
	"maps"
	"slices"
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

// asked records the spans of calls to the store, by method.
type asked struct {
	mu    sync.Mutex
	spans map[string]map[trace.SpanID]bool
}

func (b *bench) traced(provider trace.TracerProvider) *asked {
	WithTracing(provider)(b.Service)
	a := &asked{spans: map[string]map[trace.SpanID]bool{}}
	b.store.asked = func(ctx context.Context, method string) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.spans[method] == nil {
			a.spans[method] = map[trace.SpanID]bool{}
		}
		a.spans[method][trace.SpanContextFromContext(ctx).SpanID()] = true
	}
	return a
}

// want checks that methods were called within the span and in no other.
func (a *asked) want(b *bench, span sdktrace.ReadOnlySpan, methods ...string) {
	b.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, method := range methods {
		want := []trace.SpanID{span.SpanContext().SpanID()}
		got := slices.Collect(maps.Keys(a.spans[method]))
		check.True(b, slices.Equal(got, want), "%s was asked within the spans %s, want %s alone", method, got, want)
	}
}

func TestWithTracing(t *testing.T) {
	t.Parallel()

	t.Run("ABatchOfARedrive", scenario(func(b *bench) {
		spans := tracestest.Record()
		asked := b.traced(spans)
		ids := b.add(3)
		b.kafka.deliver = except(failure(entity.BrokerUnavailable), ids[1])
		r := check.Must(b.retryAll(func(n *repository.NewRedrive) { n.Cause.TraceID = "4bf92f3577b34da6a3ce929d0e0e4736" }))(b)
		span := spans.Only(b, spanBatch)
		check.True(b, !span.Parent().IsValid() && span.SpanKind() == trace.SpanKindInternal && span.Status().Code == codes.Unset,
			"got parent %v, kind %s, status %v, want a root without one", span.Parent(), span.SpanKind(), span.Status())
		tracestest.WantAttributes(b, span.Attributes(), map[attribute.Key]string{
			traces.RedriveID: r.ID.String(), traces.RedriveBatch: "0", traces.Messages: "3", traces.Failed: "1",
			spanSucceeded: "2", spanSkipped: "0", traces.RequestTraceID: "4bf92f3577b34da6a3ce929d0e0e4736",
		})
		asked.want(b, span, "Load", "Claim", "Finish", "SaveBatch")
		tracestest.WantNothingOf(b, span, errBroken.Error())
	}))

	t.Run("ARetryIsPartOfItsRequest", scenario(func(b *bench) {
		spans := tracestest.Record()
		asked := b.traced(spans)
		ctx, request := spans.Tracer("test").Start(context.Background(), "request")
		_, err := b.Retry(ctx, entity.RetryOrder{ID: b.add(1)[0], Cause: entity.By("tester")})
		request.End()
		check.NoError(b, err)
		asked.want(b, spans.Only(b, "request"), "Get", "Claim", "Finish")
		got := spans.Names()
		check.True(b, len(got) == 1, "got the spans %q, want that of the request alone", got)
	}))

	t.Run("AutomaticRetry", automatic(func(b *bench) {
		spans := tracestest.Record()
		asked := b.traced(spans)
		b.add(2)
		b.autoFor(time.Minute)
		span := spans.Only(b, spanAuto)
		tracestest.WantAttributes(b, span.Attributes(), map[attribute.Key]string{traces.Messages: "2", spanAttempts: "2", traces.ErrorType: ""})
		asked.want(b, span, "Load", "Claim", "Finish")
	}))

	t.Run("ClaimsThatAreSettled", scenario(func(b *bench) {
		spans := tracestest.Record()
		b.crash(b.add(1)[0], true)
		asked := b.traced(spans)
		b.afterExpiry()
		span := spans.Only(b, spanSettle)
		tracestest.WantAttributes(b, span.Attributes(), map[attribute.Key]string{traces.Messages: "1", spanAttempts: "1"})
		asked.want(b, span, "Finish")
	}))

	t.Run("ClaimsThatARequestSettles", scenario(func(b *bench) {
		spans := tracestest.Record()
		id := b.add(1)[0]
		b.crash(id, true)
		b.traced(spans)
		elapse(b.cfg.ClaimExpiry)
		ctx := spans.Begin(context.Background())
		check.Must(b.Retry(ctx, entity.RetryOrder{ID: id, Cause: entity.By("tester")}))(b)
		check.Equal(b, spans.Only(b, spanSettle).Parent().SpanID(), trace.SpanContextFromContext(ctx).SpanID(), "parent")
	}))

	t.Run("ClaimsThatCannotBeSettled", scenario(func(b *bench) {
		spans := tracestest.Record()
		b.crash(b.add(1)[0], true)
		b.traced(spans)
		b.kafka.find = finding(inDoubt(entity.BrokerUnavailable))
		elapse(b.cfg.ClaimExpiry)
		err := b.Settle(context.Background())
		check.True(b, err != nil, "Settle = nil, want an error")
		span := spans.Only(b, spanSettle)
		check.True(b, span.Status() == (sdktrace.Status{Code: codes.Error}),
			"got status %v, want an error without a word", span.Status())
		tracestest.WantAttributes(b, span.Attributes(), map[attribute.Key]string{traces.ErrorType: notSettled, spanAttempts: "0"})
	}))

	t.Run("ClaimsThatCannotBeSettledForLongAreToldOnce", scenario(func(b *bench) {
		spans := tracestest.Record()
		ids := b.add(3)
		b.crash(ids[0], true)
		b.crash(ids[1], true)
		b.traced(spans)
		away := inDoubt(entity.BrokerUnavailable)
		b.kafka.find = func(entity.Claim) *entity.Delivery { return &away }
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
		b.kafka.find = func(c entity.Claim) *entity.Delivery {
			if c.ID == b.get(ids[0]).Claim.ID {
				return &away
			}
			return nil
		}
		turn()
		wantSpans("something was settled", 2)
		tracestest.WantAttributes(b, spans.Named(spanSettle)[1].Attributes(), map[attribute.Key]string{traces.ErrorType: notSettled, spanAttempts: "1"})
		turn()
		wantSpans("the rest is still away", 2)
		b.kafka.find = nil
		turn()
		wantSpans("back", 3)
		b.crash(ids[2], true)
		b.kafka.find = func(entity.Claim) *entity.Delivery { return &away }
		turn()
		wantSpans("away again", 4)
	}))

	t.Run("ABatchThatFails", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			breaks func(b *bench)
			want   string
		}{
			"AllOfIt": {func(b *bench) {
				b.kafka.deliver = always(failure(entity.BrokerUnavailable), false)
			}, allFailed},
			"ToBeSaved":  {func(b *bench) { b.store.saving = func() (bool, error) { return false, errBroken } }, notDone},
			"ForAnother": {func(b *bench) { b.store.saving = func() (bool, error) { return false, nil } }, takenOver},
			"InDoubt": {func(b *bench) {
				b.kafka.deliver = always(inDoubt(entity.NetworkTimeout), false)
				b.kafka.find = finding(inDoubt(entity.BrokerUnavailable))
			}, unknownEnd},
			"ToBeLoaded":    {func(b *bench) { b.store.hang = "Load" }, notDone},
			"ToBeTakenOver": {func(b *bench) { b.store.known = func() error { return errBroken } }, notDone},
		} {
			t.Run(name, scenario(func(b *bench) {
				spans := tracestest.Record()
				b.add(2)
				r := b.begin()
				b.traced(spans)
				if name == "ToBeTakenOver" {
					check.Must(b.store.LeaseBatch(context.Background(), r.ID, entity.NewID(), b.cfg.ClaimExpiry))(b)
					elapse(b.cfg.ClaimExpiry)
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
		b.add(2)
		b.kafka.deliver = always(inDoubt(entity.NetworkTimeout), false)
		b.kafka.find = finding(inDoubt(entity.BrokerUnavailable))
		b.traced(spans)
		asked, recorded := 0, 0
		b.store.asked = func(ctx context.Context, method string) {
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
		if got := len(spans.Ended()); got != 2 { // the batch, and the settler's first failure
			b.Errorf("got the spans %q, want two", spans.Names())
		}
	}))

	t.Run("WhoTakesOverWaitsLikewise", scenario(func(b *bench) {
		spans := tracestest.Record()
		b.add(2)
		r := b.begin()
		dead := b.another()
		dead.kafka.deliver = always(inDoubt(entity.NetworkTimeout), false)
		stop := dead.carry()
		elapse(time.Second)
		stop()
		b.kafka.find = finding(inDoubt(entity.BrokerUnavailable))
		b.traced(spans)
		ctx, cancel := context.WithCancel(context.Background())
		var carrying sync.WaitGroup
		carrying.Go(func() { b.RunRedrives(ctx) })
		elapse(time.Hour)
		cancel()
		carrying.Wait()
		span := spans.Only(b, spanBatch)
		tracestest.WantAttributes(b, span.Attributes(), map[attribute.Key]string{traces.RedriveID: r.ID.String(), traces.ErrorType: notDone})
		got := len(spans.Ended())
		check.True(b, got <= 1+3, "got %d spans, want the batch and at most three settlings", got)
	}))

	t.Run("ALineOfADeadMessageHasItsBatch", scenario(func(b *bench) {
		spans := tracestest.Record()
		b.traced(spans)
		b.add(1)
		b.kafka.deliver = always(rejected, false)
		check.Must(b.retryAll())(b)
		line, span := b.logs.FilterMessage("message is dead").All()[0].ContextMap(), spans.Only(b, spanBatch).SpanContext()
		check.True(b, line["trace_id"] == span.TraceID().String() && line["span_id"] == span.SpanID().String(),
			"got %v, want the ids of %s and %s", line, span.TraceID(), span.SpanID())
	}))

	t.Run("IsSilentWhenIdle", automatic(func(b *bench) {
		spans := tracestest.Record()
		asked := b.traced(spans)
		ctx, cancel := context.WithCancel(context.Background())
		var loops sync.WaitGroup
		for _, loop := range []func(context.Context){b.RunAuto, b.RunRedrives, b.RunSettler} {
			loops.Go(func() { loop(ctx) })
		}
		elapse(10 * time.Minute)
		cancel()
		loops.Wait()
		check.Equal(b, len(spans.Names()), 0, "spans")
		check.Equal(b, asked.spans["Expired"], map[trace.SpanID]bool{{}: true}, "spans within which expired claims were looked for")
	}))

	t.Run("WhatIsNotSampledHasNoSpansWithin", scenario(func(b *bench) {
		spans := tracestest.RecordSampled(sdktrace.ParentBased(sdktrace.NeverSample()))
		b.traced(spans)
		b.store.asked = func(ctx context.Context, method string) {
			if span := trace.SpanContextFromContext(ctx); method != "Expired" && (!span.IsValid() || span.IsSampled()) {
				b.Errorf("%s was asked within the span %v, want one that is not sampled", method, span)
			}
		}
		b.add(2)
		check.Must(b.retryAll())(b)
	}))

	t.Run("OffPassesNothingOn", scenario(func(b *bench) {
		asked := b.traced(nil)
		b.add(2)
		check.Must(b.retryAll())(b)
		for method, within := range asked.spans {
			check.True(b, fmt.Sprint(within) == fmt.Sprint(map[trace.SpanID]bool{{}: true}),
				"%s was asked within the spans %v, want none", method, within)
		}
	}))
}

func TestWithTracing_OffCostsNothing(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	s := newBench(t).Service
	p := &pass{run: newRun(s, entity.NewID())}
	d, ctx, batch := &dispatcher{Service: s}, t.Context(), &repository.RedriveBatch{}
	l := &lease{p: p} // every lease is on the heap
	if n := testing.AllocsPerRun(100, func() {
		l.span = p.traceBatch(batch)
		ctx := l.within(ctx)
		ctx = attempts{span: trace.SpanFromContext(ctx)}.within(ctx)
		ctx, auto := d.traceAuto(ctx, 1)
		endAuto(auto, 1, nil)
		_, settling := s.traceSettling(ctx, 1)
		settling.end(1, nil)
		l.endTrace()
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
