package auto

import (
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
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
