package auto

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

type metrics struct {
	skipped *prometheus.CounterVec
	rate    prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	build := promauto.With(registry)
	return &metrics{
		skipped: build.NewCounterVec(prometheus.CounterOpts{
			Name: "dlq_redrive_auto_skipped_total",
			Help: "Messages that automatic retry could not send, by reason, counted on each try.",
		}, []string{"reason"}),
		rate: build.NewGauge(prometheus.GaugeOpts{
			Name: "dlq_redrive_auto_rate",
			Help: "Messages a second that automatic retry may send from this process: +Inf without a limit, 0 while it is off.",
		}),
	}
}

// spanAuto is the name of the span of a batch. The span begins a new trace, because no request causes the batch.
const spanAuto = "automatic retry"

// startSpan begins the span of an automatic batch.
func startSpan(ctx context.Context, tracer trace.Tracer, messages int) (context.Context, trace.Span) {
	if tracer == nil {
		return ctx, traces.None()
	}
	return traces.Start(ctx, tracer, spanAuto, trace.WithNewRoot(), trace.WithAttributes(traces.Messages.Int(messages)))
}

// endSpan ends the span of an automatic batch.
func endSpan(span trace.Span, attempts int, err error) {
	if span.IsRecording() {
		span.SetAttributes(traces.Attempts.Int(attempts))
		traces.Fail(span, traces.NotDone, err)
	}
	span.End()
}
