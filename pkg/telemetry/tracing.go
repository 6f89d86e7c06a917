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

// batchDelay is the longest time that a span waits for others.
const batchDelay = 2 * time.Second

// spanLimits bound the size of a span. No events are kept: libraries put the texts of
// errors into them, which may quote from dead letters.
var spanLimits = sdktrace.SpanLimits{
	AttributeValueLengthLimit:  1024,
	AttributeCountLimit:        64,
	EventCountLimit:            0,
	LinkCountLimit:             128,
	AttributePerLinkCountLimit: 16,
}

// Tracing sends the spans of one program to a collector. No span waits for it: one
// that cannot be kept or sent is dropped and counted. A nil Tracing is one that
// is off. It is safe for concurrent use.
type Tracing struct {
	provider *sdktrace.TracerProvider
	counts   spanCounts
}

// NewTracing returns what cfg asks for, nil when it names no collector. Nothing is
// dialled. Metrics are registered with reg, and what the collector does not take is
// logged, at most once a minute.
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

// newTracing sends to an exporter that exists already.
func newTracing(
	cfg TracingConfig, service, version string, to sdktrace.SpanExporter, rejected func() int64, log *zap.Logger, reg prometheus.Registerer,
) *Tracing {
	counts := newSpanCounts(reg)
	host, _ := os.Hostname() // in Kubernetes the pod's name
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

// Provider returns what spans are made with. It is nil when tracing is off; code that
// takes a provider makes no spans with a nil one, which costs nothing.
func (t *Tracing) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// Stop sends the spans that wait, until ctx ends; the rest is dropped. Spans that
// begin later are not recorded.
func (t *Tracing) Stop(ctx context.Context) {
	if t != nil {
		_ = t.provider.Shutdown(ctx) // the exporter logs and counts its errors
	}
}

// newSampler decides which traces are recorded. A span within another follows it, and
// a trace that its sender does not record is not recorded here. One that its sender
// records is recorded if cfg trusts senders; otherwise the ratio decides, as it does
// for traces that begin here: the header can be written by everyone.
func newSampler(cfg TracingConfig) sdktrace.Sampler {
	var options []sdktrace.ParentBasedSamplerOption
	if !cfg.TrustParent {
		options = append(options, sdktrace.WithRemoteParentSampled(randomSampler{cfg.SampleRatio}))
	}
	return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.SampleRatio), options...)
}

// randomSampler records a random share of spans. It does not look at the trace's id,
// which the sender chose.
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
