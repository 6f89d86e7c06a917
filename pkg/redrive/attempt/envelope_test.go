package attempt

import (
	"context"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
)

// TestEnvelopesAreAcceptedForTheOwnTopicsOnly: a redrive accepts envelopes of the dead-letter topics on which its creator
// has the role.
func TestEnvelopesAreAcceptedForTheOwnTopicsOnly(t *testing.T) { //nolint:paralleltest // scenario calls Parallel
	scenario(func(b *bench) {
		scope := redrivetest.ScopeOf(t, "orders*", "beta.dlq.*")
		for name, c := range map[string]struct {
			how      PlanOptions
			dlq      string
			accepted bool
		}{
			"Unasked":           {PlanOptions{}, redrivetest.BetaDLQ, false},
			"Alone":             {PlanOptions{AcceptEnvelope: true}, redrivetest.GammaDLQ, true},
			"RedriveOfAll":      {PlanOptions{Bulk: true, AcceptEnvelope: true}, redrivetest.GammaDLQ, true},
			"RedriveOfOwn":      {PlanOptions{Bulk: true, AcceptEnvelope: true, Visible: scope}, redrivetest.BetaDLQ, true},
			"RedriveOfForeign":  {PlanOptions{Bulk: true, AcceptEnvelope: true, Visible: scope}, redrivetest.GammaDLQ, false},
			"RedriveNotAsked":   {PlanOptions{Bulk: true, Visible: scope}, redrivetest.BetaDLQ, false},
			"AutomaticNotAsked": {PlanOptions{Bulk: true, Auto: true}, redrivetest.BetaDLQ, false},
		} {
			m := entity.Message{OriginalTopic: orders, Source: entity.Source{Topic: c.dlq}}
			m.Origin.Confidence = entity.FromMapping
			batch := []entity.Outgoing{{Message: m}}
			check.Must(b.planner.Plan(context.Background(), batch, c.how))(b)
			check.Equal(b, batch[0].AcceptEnvelope, c.accepted, "%s: AcceptEnvelope", name)
		}
	})(t)
}
