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

// Tracing sends the spans of one program to a collector. Callers never wait for the collector: spans that cannot be
// queued or sent are dropped and counted. A nil Tracing is off. It is safe for concurrent use.
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

// newTracing does the same as NewTracing, but sends spans to the given exporter.
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

// Stop sends the queued spans until ctx ends; spans that are still queued then are dropped. Spans that begin later are
// not recorded.
func (t *Tracing) Stop(ctx context.Context) {
	if t != nil {
		_ = t.provider.Shutdown(ctx) // the exporter logs and counts its errors
	}
}

// newSampler decides which traces are recorded. A child span is recorded if its parent is. A trace that comes from
// another program is not recorded if its sender does not record it. If its sender records it, cfg decides whether the
// sender is trusted: then the trace is recorded here too. Otherwise the ratio decides, as for traces that begin here,
// because any client can write the header that requests recording.
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
