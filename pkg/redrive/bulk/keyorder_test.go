package bulk

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// A message whose origin is refused may falsely name a topic and a key of another team. It does not block later
// messages with that topic and key, neither in the run that refuses it nor in a later run of the redrive.
func TestRefusedOriginsBlockNoKey(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		trust string
		rules []deadletter.OriginRule
		scope []string
		patch bool
		want  string
	}{
		"Undeclared":   {deadletter.TrustHeader, []deadletter.OriginRule{redrivetest.ByConvention}, nil, false, "UNDECLARED"},
		"NotPermitted": {deadletter.TrustHeader, nil, []string{redrivetest.BetaTopic, redrivetest.BetaDLQ}, false, attempt.SkippedNotPermitted},
		"Misfit":       {deadletter.TrustHeader, []deadletter.OriginRule{redrivetest.ByConvention}, nil, true, "UNDECLARED"},
	} {
		t.Run(name, scenario(func(b *bench) {
			ctx := context.Background()
			b.Declare(c.trust, c.rules...)
			key := keyed("customer-1")
			b.Add(1, redrivetest.ClaimingTopic(redrivetest.GammaDLQ, redrivetest.BetaTopic), key, value(`{"other":1}`))
			honest := b.Add(2, redrivetest.ClaimingTopic(redrivetest.BetaDLQ, redrivetest.BetaTopic), key, value(`{"state":"old"}`))
			r := b.begin(options(func(o *entity.RedriveOptions) {
				o.KeepKeyOrder = true
				if c.patch {
					o.Patch = []byte(patchText)
				}
			}), func(n *repository.NewRedrive) {
				n.Selection = entity.Selection{Filter: entity.Filter{Topic: redrivetest.BetaTopic}}
				if c.scope != nil {
					n.Selection.Visible = redrivetest.ScopeOf(b.T, c.scope...)
				}
			})
			stop := b.carry()
			b.wantEnd(r.ID, counted{Selected: 3, Succeeded: 2, Skipped: 1, Reasons: reasons{c.want: 1}})
			stop()
			for _, id := range honest {
				b.WantState(id, entity.Resolved, 1, "")
			}
			known := map[uuid.UUID]entity.RedriveItem{}
			items, err := b.Store.RedriveItems(ctx, r.ID, repository.ItemQuery{Limit: 10})
			for _, item := range items {
				known[item.MessageID] = item
			}
			keys, blockErr := loadKeyOrder(ctx, b.deps, r.ID, known)
			check.True(b, err == nil && blockErr == nil && len(keys.blocked) == 0,
				"a run that goes on has %d blocked keys, %v, %v, want none", len(keys.blocked), err, blockErr)
		}))
	}
}
