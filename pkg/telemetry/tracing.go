package telemetry

import (
	"context"
	"fmt"
	"os"

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

// Tracing sends the spans of one program to a collector. Nobody waits for it: a
// span that cannot be kept or sent is dropped and counted. A nil Tracing is one that
// is off. It is safe for concurrent use.
type Tracing struct {
	provider *sdktrace.TracerProvider
	queue    *spanQueue
	exporter *countedExporter
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
	return newTracing(cfg, service, version, &hushed{exporter, client}, log, reg)
}

// newTracing sends to an exporter that is there already.
func newTracing(cfg TracingConfig, service, version string, to sdktrace.SpanExporter, log *zap.Logger, reg prometheus.Registerer) (*Tracing, error) {
	counts := newSpanCounts(reg)
	host, _ := os.Hostname() // in Kubernetes the pod's name
	queue := &spanQueue{room: cfg.Queue, counts: counts}
	exporter := newCountedExporter(to, queue, counts, log)
	// Its own queue has room for all that ours lets in, so that it never drops any.
	queue.next = sdktrace.NewBatchSpanProcessor(exporter,
		sdktrace.WithMaxQueueSize(cfg.Queue), sdktrace.WithMaxExportBatchSize(min(tracingBatch, cfg.Queue)),
		sdktrace.WithBatchTimeout(batchDelay), sdktrace.WithExportTimeout(cfg.Timeout))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithSpanProcessor(queue),
		sdktrace.WithSampler(newSampler(cfg)),
		sdktrace.WithRawSpanLimits(spanLimits),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.namespace", "dlq-manager"),
			attribute.String("service.name", "dlq-manager-"+service),
			attribute.String("service.version", version),
			attribute.String("service.instance.id", uuid.NewString()),
			attribute.String("host.name", host))))
	return &Tracing{provider: provider, queue: queue, exporter: exporter}, nil
}

// Provider returns what spans are made with, nil when there is no tracing: whoever
// takes a provider takes nil for making none, which costs nothing.
func (t *Tracing) Provider() trace.TracerProvider {
	if t == nil {
		return nil
	}
	return t.provider
}

// Stop sends what waits, for as long as ctx lets it; what is left then is dropped.
// It always ends with ctx. What begins later makes no spans.
func (t *Tracing) Stop(ctx context.Context) {
	if t == nil {
		return
	}
	if t.provider.Shutdown(ctx) != nil {
		t.exporter.cancel(errStopped)
	}
	t.queue.abandon()
}
