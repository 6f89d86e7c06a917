package bulk

import (
	"context"
	"slices"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

const moved = "orders.v2"

func TestRedirectedRedrive(t *testing.T) {
	t.Parallel()
	t.Run("GoesToTheTarget", scenario(func(b *bench) {
		check.Must(b.Store.SaveRedirect(context.Background(), orders, moved, nil, entity.By("alice")))(b)
		ids, others := b.Add(2*batchMessages), b.Add(3, to("payments"))
		defer b.carry()()
		r := b.begin()
		b.wantEnd(r.ID, counted{Selected: len(ids) + len(others), Succeeded: len(ids) + len(others)})
		check.Equal(b, len(b.Kafka.Sent(moved)), len(ids), "records of the target")
		check.Equal(b, len(b.Kafka.Sent("payments")), len(others), "records of another topic")
		check.Equal(b, len(b.Kafka.Sent(orders)), 0, "records of the original topic")
		items := check.Must(b.Store.RedriveItems(context.Background(), r.ID, repository.ItemQuery{Limit: 1}))(b)
		check.Equal(b, items[0].Topic, moved, "topic of an item")
	}))

	t.Run("PreviewOfARedirectDoesNotUseTheStoredOnes", scenario(func(b *bench) {
		ctx := context.Background()
		check.Must(b.Store.SaveRedirect(ctx, orders, "gone", nil, entity.By("alice")))(b)
		b.Add(3)
		var targets []string
		b.Kafka.PlanOf = func(topic string) error {
			targets = append(targets, topic)
			if topic == "gone" {
				return &entity.RefusedError{Class: entity.UnknownTopic, Missing: true}
			}
			return nil
		}
		order := repository.NewRedrive{Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: orders}}}
		stored := check.Must(b.Preview(ctx, order))(b)
		other := check.Must(b.PreviewRedirected(ctx, order, map[string]string{orders: moved}))(b)
		none := check.Must(b.PreviewRedirected(ctx, order, map[string]string{}))(b)
		check.Equal(b, slices.Compact(targets), []string{"gone", moved, orders}, "planned topics")
		check.True(b, stored.Sendable == 0 && stored.Groups[0].Missing && other.Sendable == 3 && none.Sendable == 3,
			"previews = %+v, %+v, %+v", stored, other, none)
	}))
}
