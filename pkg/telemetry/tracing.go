package telemetry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
)

// batchDelay is the longest time that a span waits for others to be sent with it.
const batchDelay = 2 * time.Second

// spanLimits limit the size of a span. Events are dropped, because libraries put the texts of errors into events, and
// these texts may quote dead letters.
var spanLimits = sdktrace.SpanLimits{
	AttributeValueLengthLimit:  1024,
	AttributeCountLimit:        64,
	EventCountLimit:            0,
	LinkCountLimit:             128,
	AttributePerLinkCountLimit: 16,
}

// Tracing sends the spans of one program to a collector. The code that makes spans never waits for the collector:
// Tracing drops and counts spans that it cannot queue or send. A nil Tracing sends nothing. It is safe for concurrent
// use.
type Tracing struct {
	provider *sdktrace.TracerProvider
	counts   spanCounts
}

// NewTracing returns a Tracing for cfg, or nil when cfg names no collector. It opens no connection. It registers
// metrics with reg, and logs spans that the collector does not accept, at most once a minute.
func NewTracing(cfg TracingConfig, service, version string, log *zap.Logger, reg prometheus.Registerer) (*Tracing, error) {
	if cfg.Endpoint == "" {
		return nil, nil //nolint:nilnil // off is one of the two things that can be asked for
	}
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	client, err := newTracingClient(cfg)
	if err != nil {
		return nil, err
	}
	exporter, err := otlptrace.New(context.Background(), otlptracehttp.NewClient(client.options(cfg)...))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	return newTracing(cfg, service, version, exporter, client.rejectedSpans, log, reg), nil
}

// newTracing makes a Tracing as NewTracing does, but it sends spans to the given exporter.
func newTracing(
	cfg TracingConfig, service, version string, to sdktrace.SpanExporter, rejected func() int64, log *zap.Logger, reg prometheus.Registerer,
) *Tracing {
	counts := newSpanCounts(reg)
	host, _ := os.Hostname() // in Kubernetes the host name is the name of the pod
	limiter := &spanLimiter{room: int64(cfg.Queue), dropped: counts.dropped}
	limiter.SpanProcessor = sdktrace.NewBatchSpanProcessor(
		&countedExporter{SpanExporter: to, rejected: rejected, limiter: limiter, counts: counts, log: log},
		sdktrace.WithMaxQueueSize(cfg.Queue), sdktrace.WithMaxExportBatchSize(min(tracingBatch, cfg.Queue)),
		sdktrace.WithBatchTimeout(batchDelay), sdktrace.WithExportTimeout(cfg.Timeout))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(limiter),
		sdktrace.WithSampler(newSampler(cfg)),
		sdktrace.WithRawSpanLimits(spanLimits),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.namespace", "dlq-manager"),
			attribute.String("service.name", "dlq-manager-"+service),
			attribute.String("service.version", version),
			attribute.String("service.instance.id", uuid.NewString()),
			attribute.String("host.name", host))))
	return &Tracing{provider, counts}
}

// Provider returns the tracer provider, or nil when tracing is off; with a nil provider, traces.Tracer returns nil, and
// no spans are made.
func (t *Tracing) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// Stop sends the queued spans until ctx ends, and drops the rest. Spans that are made after the call of Stop are not
// recorded.
func (t *Tracing) Stop(ctx context.Context) {
	if t != nil {
		_ = t.provider.Shutdown(ctx) // the exporter logs and counts its errors
	}
}

// newSampler returns the sampler that decides which spans are recorded. A span with a parent in this program is
// recorded if its parent is. A span whose parent is in another program is not recorded if that program does not record
// its trace. If that program records the trace and cfg trusts it, the span is recorded. If cfg does not trust it, the
// ratio decides, as it does for new traces, because any client can write the header that requests recording.
func newSampler(cfg TracingConfig) sdktrace.Sampler {
	var options []sdktrace.ParentBasedSamplerOption
	if !cfg.TrustParent {
		options = append(options, sdktrace.WithRemoteParentSampled(randomSampler{cfg.SampleRatio}))
	}
	return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.SampleRatio), options...)
}

// randomSampler records a random share of spans. It ignores the trace id, which the sender chose.
type randomSampler struct{ ratio float64 }

// ShouldSample implements sdktrace.Sampler.
func (s randomSampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	decision := sdktrace.Drop
	if rand.Float64() < s.ratio {
		decision = sdktrace.RecordAndSample
	}
	return sdktrace.SamplingResult{Decision: decision, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
}

// Description implements sdktrace.Sampler.
func (randomSampler) Description() string { return "random" }
