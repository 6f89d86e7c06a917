package telemetry

import (
	"math/rand/v2"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// newSampler decides which traces are recorded. What is within a span goes with it, and
// what its sender does not record is not recorded here. What it does is, or else the
// share of it that is recorded of traces that begin here: anybody can send a request.
func newSampler(cfg TracingConfig) sdktrace.Sampler {
	var options []sdktrace.ParentBasedSamplerOption
	if !cfg.TrustParent {
		options = append(options, sdktrace.WithRemoteParentSampled(drawn{cfg.SampleRatio}))
	}
	return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(cfg.SampleRatio), options...)
}

// drawn records a share of spans, by lot: the ids are the sender's, who could choose
// those that an order by ids records.
type drawn struct{ ratio float64 }

// ShouldSample implements sdktrace.Sampler.
func (d drawn) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	decision := sdktrace.Drop
	if rand.Float64() < d.ratio {
		decision = sdktrace.RecordAndSample
	}
	return sdktrace.SamplingResult{Decision: decision, Tracestate: trace.SpanContextFromContext(p.ParentContext).TraceState()}
}

// Description implements sdktrace.Sampler.
func (d drawn) Description() string { return "by lot" }
