package redrive

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/telemetry/telemetrytest"
)

func (b *bench) wantMetric(what string, metric prometheus.Collector, want float64) {
	b.Helper()
	telemetrytest.Want(b.T, what, metric, want)
}

func (b *bench) wantObserved(what string, histogram prometheus.Collector, count uint64, sum float64) {
	b.Helper()
	if gotCount, gotSum := telemetrytest.Observed(b.T, histogram); gotCount != count || gotSum != sum {
		b.Errorf("%s has %d values of %v together, want %d of %v", what, gotCount, gotSum, count, sum)
	}
}

// Alerts, objectives and the dashboard depend on these values.
func TestMetrics(t *testing.T) {
	t.Parallel()

	t.Run("OfAnAttemptThatSucceeds", scenario(func(b *bench) {
		ids := b.add(1)
		b.kafka.deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			b.wantMetric("dlq_redrive_inflight during the attempt", b.metrics.inflight, 1)
			elapse(2 * time.Second)
			return true, acknowledged
		}
		stored := b.get(ids[0]).CreatedAt
		check.Equal(b, b.retry(ids[0]), nil, "retry")
		b.wantMetric("dlq_redrive_inflight", b.metrics.inflight, 0)
		b.wantMetric("claimed", b.metrics.dequeues.WithLabelValues("claimed"), 1)
		b.wantMetric("acknowledged", b.metrics.sends.WithLabelValues(orders, "acknowledged"), 1)
		b.wantObserved("dlq_redrive_duration_seconds", b.metrics.duration, 1, 2)
		b.wantObserved("dlq_redrive_retry_count", b.metrics.retryCount, 1, 1)
		b.wantObserved("dlq_redrive_lag_seconds", b.metrics.lag, 1, time.Since(stored).Seconds())
		b.wantMetric("dlq_redrive_dead_total", b.metrics.dead, 0)
	}))

	t.Run("OfAttemptsThatFail", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.kafka.deliver = always(failure(entity.NetworkTimeout), false)
		for range entity.DefaultMaxRetries {
			err := b.retry(id)
			check.True(b, err != nil, "retry succeeded, want an error")
		}
		b.wantMetric("failed", b.metrics.sends.WithLabelValues(orders, "failed"), 3)
		b.wantMetric("dlq_redrive_dead_total", b.metrics.dead, 1)
		b.wantObserved("dlq_redrive_retry_count", b.metrics.retryCount, 3, 1+2+3)
		b.wantObserved("dlq_redrive_lag_seconds", b.metrics.lag, 0, 0)
	}))

	t.Run("OfAMessageThatAnotherAttemptHas", scenario(func(b *bench) {
		planned, err := b.planOne(context.Background(), entity.RetryOrder{ID: b.add(1)[0], Cause: entity.By("tester")})
		for range 2 {
			if err == nil {
				_, err = b.claim(context.Background(), []entity.Outgoing{planned}, claiming{cause: entity.By("tester")})
			}
		}
		check.NoError(b, err)
		b.wantMetric("claimed", b.metrics.dequeues.WithLabelValues("claimed"), 1)
		b.wantMetric("lost", b.metrics.dequeues.WithLabelValues("lost"), 1)
	}))

	t.Run("OfARedrive", scenario(func(b *bench) {
		b.add(3)
		check.Must(b.retryAll())(b)
		b.wantMetric("finished", b.metrics.redrives.WithLabelValues("retry", "finished"), 1)
		b.wantMetric("claimed", b.metrics.dequeues.WithLabelValues("claimed"), 3)
	}))

	t.Run("OfClaimsThatCannotBeSettled", scenario(func(b *bench) {
		id := b.add(1)[0]
		b.crash(id, false)
		b.kafka.find = func(entity.Claim) *entity.Delivery { d := inDoubt(entity.NetworkTimeout); return &d }
		defer b.carry()()
		b.within(time.Hour, "a stuck claim", func() bool { return testutil.ToFloat64(b.metrics.stuck) == 1 })
		b.kafka.mu.Lock()
		b.kafka.find = nil
		b.kafka.mu.Unlock()
		b.within(time.Hour, "none", func() bool { return testutil.ToFloat64(b.metrics.stuck) == 0 })
		b.wantMetric("settled", b.metrics.sends.WithLabelValues(orders, "settled_rescued"), 1)
	}))

	t.Run("NameTopicsAsTheyAreTold", scenario(func(b *bench) {
		WithTopicLabels(func(string) string { return "other" })(b.Service)
		check.Equal(b, b.retry(b.add(1)[0]), nil, "retry")
		b.wantMetric("acknowledged", b.metrics.sends.WithLabelValues("other", "acknowledged"), 1)
	}))
}
