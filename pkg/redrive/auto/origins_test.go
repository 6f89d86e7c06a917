package auto

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
)

// Dead letters that falsely name an original topic of another team do not delay automatic retry of messages with
// declared origins, even if there are many and they are older.
func TestForgedClaimsHoldNothingUp(t *testing.T) {
	t.Parallel()
	t.Run("AutomaticRetry", automatic(func(b *bench) {
		b.Declare(deadletter.TrustDeclared, redrivetest.ByConvention)
		b.Add(heldMax+500, redrivetest.ClaimingTopic(redrivetest.GammaDLQ, redrivetest.BetaTopic))
		own := b.Add(3, redrivetest.ClaimingTopic(redrivetest.BetaDLQ, redrivetest.BetaTopic))
		defer b.auto()()
		elapse(10 * time.Second)
		b.WantSent(redrivetest.BetaTopic, own...)
		later := b.Add(1, redrivetest.ClaimingTopic(redrivetest.BetaDLQ, redrivetest.BetaTopic))
		elapse(10 * time.Second)
		b.WantSent(redrivetest.BetaTopic, append(own, later...)...)
	}))
}

// TestEnvelopesHoldNothingUp: more envelopes than automatic retry holds back one by one do not stop other messages of
// their original topic, and each is planned again only after a while.
func TestEnvelopesHoldNothingUp(t *testing.T) {
	t.Parallel()
	t.Run("AutomaticRetry", automatic(func(b *bench) {
		planned := 0
		b.Kafka.PlanError = func(m entity.Message) error {
			if m.Source.Topic != redrivetest.GammaDLQ {
				return nil
			}
			planned++
			return &entity.RefusedError{Class: entity.Envelope, Reason: "it looks like an envelope"}
		}
		b.Add(heldMax+500, redrivetest.ClaimingTopic(redrivetest.GammaDLQ, redrivetest.BetaTopic))
		own := b.Add(3, redrivetest.ClaimingTopic(redrivetest.BetaDLQ, redrivetest.BetaTopic))
		defer b.auto()()
		elapse(10 * time.Second)
		b.WantSent(redrivetest.BetaTopic, own...)
		later := b.Add(1, redrivetest.ClaimingTopic(redrivetest.BetaDLQ, redrivetest.BetaTopic))
		elapse(refusedPause - 15*time.Second)
		b.WantSent(redrivetest.BetaTopic, append(own, later...)...)
		check.True(b, planned <= heldMax+500, "%d plans of %d envelopes", planned, heldMax+500)
	}))
}
