package program

import (
	"context"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/telemetry"
)

// lastSpans is how long the end of a program waits for a collector to take its last
// spans: it comes behind a drain that may have taken most of the 25 seconds there are.
const lastSpans = 1500 * time.Millisecond

// WithTracing is the base of a program that makes spans, where the configuration
// names a collector. What it returns must be stopped when everything else has ended.
func (b Base) WithTracing(service string) (Base, error) {
	var err error
	b.Tracing, err = telemetry.NewTracing(b.Config.Tracing, service, telemetry.Version(), b.Log, b.Registry)
	return b, err
}

// StopTracing sends what spans there still are, and waits no longer for it than the
// program can afford.
func (b Base) StopTracing() {
	ctx, cancel := context.WithTimeout(context.Background(), lastSpans)
	defer cancel()
	b.Tracing.Stop(ctx)
}
