package outcomes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/attempt"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/redrivetest"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// groups is a fake Kafka that only returns committed offsets.
type groups struct {
	mu        sync.Mutex
	committed map[string][]repository.Committed // committed offsets, by consumer group
	asked     map[string]int
	err       map[string]error
}

func (g *groups) Committed(_ context.Context, group string, topics []string) ([]repository.Committed, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked[group]++
	found := slices.DeleteFunc(slices.Clone(g.committed[group]), func(c repository.Committed) bool { return !slices.Contains(topics, c.Topic) })
	return found, g.err[group]
}

const orders = redrivetest.Orders

// bench has a Retrier on a memory store, and the configuration of a Tracker.
type bench struct {
	*redrivetest.Bench
	retrier *attempt.Retrier
	cfg     Config
}

// scenario runs a test with a new bench in a synctest bubble, whose clock is fake.
func scenario(do func(b *bench)) func(t *testing.T) {
	return func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			b := &bench{Bench: redrivetest.NewBench(t), cfg: Config{Interval: 5 * time.Second}}
			b.retrier = attempt.New(attempt.Config{ClaimExpiry: 30 * time.Second}, b.Store, b.Kafka,
				prometheus.NewRegistry(), b.Logger, attempt.Options{Redirects: b.Store}).Retrier
			do(b)
		})
	}
}

func (b *bench) retry(id uuid.UUID) error {
	_, err := b.retrier.Retry(context.Background(), entity.RetryOrder{ID: id, Cause: entity.By("tester")})
	return err
}

// TestRunOutcomes: the store learns the outcome of messages from the committed offsets that the Tracker reads.
func TestRunOutcomes(t *testing.T) {
	t.Parallel()

	t.Run("ConsumedOnceTheGroupHasPassedTheRecord", scenario(func(b *bench) {
		ids := b.Add(2, func(m *entity.Message) { m.Failure.ConsumerGroup = "billing" })
		check.NoError(b, b.Store.SaveConsumerGroups(context.Background(), []repository.TopicGroup{{Topic: orders, Group: "billing"}}))
		for _, id := range ids {
			check.NoError(b, b.retry(id))
		}
		kafka := b.follow()
		// the first record has offset 0 and the second has offset 1, so the group has consumed only the first
		kafka.commit("billing", 1)
		redrivetest.Elapse(2 * b.cfg.Interval)
		b.wantOutcome(ids[0], entity.Consumed)
		b.wantOutcome(ids[1], entity.Published)
		got := b.Get(ids[0]).Consumption
		check.True(b, got != nil && got.Group == "billing" && got.Offset == 1, "consumption = %+v, want billing at 1", got)
		kafka.commit("billing", 0) // a consumer group that goes back to an earlier offset does not undo the outcome
		redrivetest.Elapse(2 * b.cfg.Interval)
		b.wantOutcome(ids[0], entity.Consumed)
	}))

	t.Run("ConfiguredGroupTellsOfTopicsThatNameNone", scenario(func(b *bench) {
		b.cfg.Rules = []Rule{{Topic: "nothing*", Group: "nobody"}, {Topic: "ord*", Group: "billing"}}
		id := b.Add(1)[0]
		check.NoError(b, b.retry(id))
		b.follow().commit("billing", 7)
		redrivetest.Elapse(2 * b.cfg.Interval)
		b.wantOutcome(id, entity.Consumed)
	}))

	t.Run("ConfiguredGroupIsShownBeforeAnythingIsSent", scenario(func(b *bench) {
		b.cfg.Rules = []Rule{{Topic: "ord*", Group: "billing"}}
		b.Add(1)
		b.follow()
		redrivetest.Elapse(2 * b.cfg.Interval)
		topics := check.Must(b.Store.TopicSummaries(context.Background(), repository.TopicQuery{}))(b)
		check.Equal(b, fmt.Sprint(topics[0].ConsumerGroups), "[billing]", "consumer groups")
	}))

	t.Run("GroupsOfARedirectedTopicTellOfItsTarget", scenario(func(b *bench) {
		b.cfg.Rules = []Rule{{Topic: "orders.v2", Group: "shipping"}}
		named := b.Add(1, func(m *entity.Message) { m.Failure.ConsumerGroup = "billing" })[0]
		nameless := b.Add(1)[0]
		check.NoError(b, b.Store.SaveConsumerGroups(context.Background(), []repository.TopicGroup{{Topic: orders, Group: "billing"}}))
		check.Must(b.Store.SaveRedirect(context.Background(), orders, "orders.v2", nil, entity.By("alice")))(b)
		check.NoError(b, b.retry(named))
		check.NoError(b, b.retry(nameless))
		kafka := b.follow()
		kafka.commitIn("orders.v2", "billing", 1)
		kafka.commitIn("orders.v2", "shipping", 7)
		redrivetest.Elapse(2 * b.cfg.Interval)
		b.wantOutcome(named, entity.Consumed)
		b.wantOutcome(nameless, entity.Consumed)
	}))

	t.Run("GroupThatCannotBeAskedDoesNotHideTheOthers", scenario(func(b *bench) {
		ids := b.Add(1, func(m *entity.Message) { m.Failure.ConsumerGroup = "billing" })
		b.Add(1, func(m *entity.Message) { m.Failure.ConsumerGroup = "closed" })
		noted := []repository.TopicGroup{{Topic: orders, Group: "billing"}, {Topic: orders, Group: "closed"}}
		check.NoError(b, b.Store.SaveConsumerGroups(context.Background(), noted))
		check.NoError(b, b.retry(ids[0]))
		kafka := b.follow()
		kafka.err["closed"] = redrivetest.ErrBroken
		kafka.commit("billing", 7)
		redrivetest.Elapse(2 * b.cfg.Interval)
		b.wantOutcome(ids[0], entity.Consumed)
		warned := b.Logs.FilterMessage("cannot update outcomes").All()
		check.Require(b, len(warned) == 1, "%d warnings, want one", len(warned))
		text, _ := warned[0].ContextMap()["error"].(string)
		if strings.Contains(text, "closed") || !strings.Contains(text, orders) {
			b.Errorf("warned of %q, want the topic without the group, whose header may be masked", text)
		}
	}))
}

// follow runs a Tracker until the test ends, and returns the Tracker's fake Kafka.
func (b *bench) follow() *groups {
	kafka := &groups{committed: map[string][]repository.Committed{}, asked: map[string]int{}, err: map[string]error{}}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		New(b.cfg, b.Store, b.Logger).Run(ctx, kafka)
		close(over)
	}()
	b.Cleanup(func() { stop(); <-over })
	return kafka
}

func (g *groups) commit(group string, offset int64) { g.commitIn(orders, group, offset) }

func (g *groups) commitIn(topic, group string, offset int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.committed[group] = []repository.Committed{{
		TopicGroup: repository.TopicGroup{Topic: topic, Group: group}, TopicID: "id of " + topic, Offset: offset,
	}}
}

func (b *bench) wantOutcome(id [16]byte, want entity.Outcome) {
	b.Helper()
	check.Equal(b, b.Get(id).Outcome, want, "outcome")
}
