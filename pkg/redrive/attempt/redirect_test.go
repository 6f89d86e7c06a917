package attempt

import (
	"context"
	"testing"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

const moved = "orders.v2"

func (b *bench) redirect(topic, target string) {
	b.Helper()
	check.Must(b.Store.SaveRedirect(context.Background(), topic, target, nil, entity.By("alice")))(b)
}

func TestRedirectedRetry(t *testing.T) {
	t.Parallel()
	ctx := context.Background()

	t.Run("GoesToTheTargetAndOneStepOnly", scenario(func(b *bench) {
		b.redirect(orders, moved)
		b.redirect(moved, "orders.v3")
		id := b.Add(1)[0]
		got, err := b.Retry(ctx, entity.RetryOrder{ID: id, Cause: entity.By("alice")})
		check.True(b, err == nil && got.Topic == moved, "Retry = %+v, %v, want it sent to %s", got, err, moved)
		b.WantSent(moved, id)
		b.WantSent(orders)
		check.Equal(b, b.Get(id).OriginalTopic, orders, "original topic")
		history, _ := b.Store.History(ctx, id)
		check.True(b, len(history) == 1 && history[0].Topic == moved, "History = %+v, want one attempt to %s", history, moved)
	}))

	t.Run("TopicOfAnEditOverridesIt", scenario(func(b *bench) {
		b.redirect(orders, moved)
		id := b.Add(1)[0]
		check.Must(b.Retry(ctx, ordered(id, fix())))(b)
		b.WantRecords(fixed, "k=fixed")
		b.WantSent(moved)
	}))

	t.Run("AttemptOfADeadProcessIsFoundWhereItWent", scenario(func(b *bench) {
		b.redirect(orders, moved)
		id := b.Add(1)[0]
		b.crash(id, true)
		b.redirect(orders, "orders.v3")
		b.afterExpiry()
		b.wantFound(id)
		history, _ := b.Store.History(ctx, id)
		check.True(b, len(history) == 1 && history[0].Topic == moved, "History = %+v, want the attempt to %s", history, moved)
	}))

	t.Run("RefusalNamesTheRedirect", scenario(func(b *bench) {
		b.redirect(orders, moved)
		id := b.Add(1)[0]
		b.Kafka.PlanError = func(entity.Message) error {
			return &entity.RefusedError{Class: entity.UnknownTopic, Reason: "it does not exist", Missing: true}
		}
		refused := check.As[*entity.RefusedError](b, b.retry(id), "Retry")
		check.True(b, refused.Missing && refused.Reason == "it does not exist (orders is redirected to orders.v2)", "refused = %+v", refused)
		b.WantState(id, entity.Pending, 0, "")
	}))
}

type redirectsFunc func(topics []string) map[string]string

func (f redirectsFunc) RedirectTargets(_ context.Context, topics []string) (map[string]string, error) {
	return f(topics), nil
}

// TestRedirectsAreReadOncePerBatch: a batch of many messages costs one read of redirects, with each topic named once.
func TestRedirectsAreReadOncePerBatch(t *testing.T) {
	scenario(func(b *bench) {
		var reads [][]string
		b.planner.redirects = redirectsFunc(func(topics []string) map[string]string {
			reads = append(reads, topics)
			return map[string]string{orders: moved}
		})
		var batch []entity.Outgoing
		for range 500 {
			batch = append(batch, entity.Outgoing{Message: entity.Message{OriginalTopic: orders}})
		}
		batch = append(batch, entity.Outgoing{})
		targets := check.Must(b.planner.Plan(context.Background(), batch, PlanOptions{}))(b)
		check.True(b, len(reads) == 1 && len(reads[0]) == 1, "reads = %v, want one for %s", reads, orders)
		check.True(b, targets[499].Topic == moved && targets[500].Topic == "", "targets = %+v, %+v", targets[499], targets[500])
	})(t)
}
