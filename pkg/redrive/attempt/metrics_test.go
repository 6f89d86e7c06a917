package attempt

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// Alerts, service level objectives and the dashboard depend on the values of these metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()

	t.Run("OfAnAttemptThatSucceeds", scenario(func(b *bench) {
		ids := b.Add(1)
		b.Kafka.Deliver = func(entity.Outgoing) (bool, entity.Delivery) {
			b.WantMetric("dlq_redrive_inflight during the attempt", b.metrics.inflight, 1)
			elapse(2 * time.Second)
			return true, acknowledged
		}
		stored := b.Get(ids[0]).CreatedAt
		check.Equal(b, b.retry(ids[0]), nil, "retry")
		b.WantMetric("dlq_redrive_inflight", b.metrics.inflight, 0)
		b.WantMetric("claimed", b.metrics.dequeues.WithLabelValues("claimed"), 1)
		b.WantMetric("acknowledged", b.metrics.sends.WithLabelValues(orders, "acknowledged"), 1)
		b.WantObserved("dlq_redrive_duration_seconds", b.metrics.duration, 1, 2)
		b.WantObserved("dlq_redrive_retry_count", b.metrics.retryCount, 1, 1)
		b.WantObserved("dlq_redrive_lag_seconds", b.metrics.lag, 1, time.Since(stored).Seconds())
		b.WantMetric("dlq_redrive_dead_total", b.metrics.dead, 0)
	}))

	t.Run("OfAttemptsThatFail", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.Kafka.Deliver = always(failure(entity.NetworkTimeout), false)
		for range entity.DefaultMaxRetries {
			err := b.retry(id)
			check.True(b, err != nil, "retry succeeded, want an error")
		}
		b.WantMetric("failed", b.metrics.sends.WithLabelValues(orders, "failed"), 3)
		b.WantMetric("dlq_redrive_dead_total", b.metrics.dead, 1)
		b.WantObserved("dlq_redrive_retry_count", b.metrics.retryCount, 3, 1+2+3)
		b.WantObserved("dlq_redrive_lag_seconds", b.metrics.lag, 0, 0)
	}))

	t.Run("OfAMessageThatAnotherAttemptHas", scenario(func(b *bench) {
		planned, err := b.planOne(context.Background(), entity.RetryOrder{ID: b.Add(1)[0], Cause: entity.By("tester")})
		for range 2 {
			if err == nil {
				_, err = b.Claim(context.Background(), []entity.Outgoing{planned}, ClaimOptions{Cause: entity.By("tester")})
			}
		}
		check.NoError(b, err)
		b.WantMetric("claimed", b.metrics.dequeues.WithLabelValues("claimed"), 1)
		b.WantMetric("lost", b.metrics.dequeues.WithLabelValues("lost"), 1)
	}))

	t.Run("OfClaimsThatCannotBeSettled", scenario(func(b *bench) {
		id := b.Add(1)[0]
		b.crash(id, false)
		b.Kafka.Find = func(entity.Claim) *entity.Delivery { d := inDoubt(entity.NetworkTimeout); return &d }
		defer b.settler()()
		b.Within(time.Hour, "a stuck claim", func() bool { return testutil.ToFloat64(b.metrics.stuck) == 1 })
		b.Kafka.Set(func() { b.Kafka.Find = nil })
		b.Within(time.Hour, "none", func() bool { return testutil.ToFloat64(b.metrics.stuck) == 0 })
		b.WantMetric("settled", b.metrics.sends.WithLabelValues(orders, "settled_rescued"), 1)
	}))

	t.Run("NameTopicsAsTheyAreTold", scenario(func(b *bench) {
		b.metrics.label = func(string) string { return "other" }
		check.Equal(b, b.retry(b.Add(1)[0]), nil, "retry")
		b.WantMetric("acknowledged", b.metrics.sends.WithLabelValues("other", "acknowledged"), 1)
	}))
}
