package redrive

import (
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

func TestWithTracing(t *testing.T) {
	t.Parallel()
	spans := tracestest.Record()
	t.Run("IsSilentWhenIdle", scenario(func(b *bench) {
		asked := b.Watch()
		stop := start(b.RunAuto, b.RunRedrives, b.RunSettler)
		elapse(10 * time.Minute)
		stop()
		check.Equal(b, len(spans.Names()), 0, "spans")
		check.Equal(b, asked.Spans["Expired"], map[trace.SpanID]bool{{}: true}, "spans within which expired claims were looked for")
	}, WithTracing(spans)))
}
