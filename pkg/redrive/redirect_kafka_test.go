package redrive_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/outcomes"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// TestRealServersRedirect: the messages of a deleted topic are sent to the target of its redirect, and are consumed there.
func TestRealServersRedirect(t *testing.T) {
	const n = 50
	s := newSystem(t)
	s.fill(n, 100)
	deleted := s.topic
	stacktest.DeleteTopic(t, deleted)
	s.createTopic() // the target of the redirect
	order := repository.NewRedrive{
		Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: deleted}}, Cause: entity.By("tester"),
	}
	check.Eventually(s, "a preview that says that the topic does not exist", func() bool {
		p, err := s.Preview(t.Context(), order)
		return err == nil && p.Sendable == 0 && len(p.Groups) == 1 && p.Groups[0].Missing
	})
	first, err := s.store.Search(t.Context(), repository.SearchQuery{Filter: entity.Filter{Topic: deleted}, Limit: 1})
	check.Require(t, err == nil && len(first.Messages) == 1, "Search = %+v, %v", first, err)
	id := first.Messages[0].ID
	check.As[*entity.RefusedError](t, check.Err(s.Retry(t.Context(), entity.RetryOrder{ID: id, Cause: entity.By("tester")})), "Retry without a redirect")

	check.Must(s.store.SaveRedirect(t.Context(), deleted, s.topic, nil, entity.By("tester")))(t)
	p := check.Must(s.Preview(t.Context(), order))(t)
	check.True(t, len(p.Groups) == 1 && p.Groups[0].Target == s.topic && len(p.Messages) == 3 && p.Messages[0].Target == s.topic,
		"the preview has the groups %+v and %d messages, want one group and 3 messages for %s", p.Groups, len(p.Messages), s.topic)
	r, err := s.finish(s.Service, check.Must(s.Begin(t.Context(), order))(t).ID)
	check.True(t, err == nil && r.Counts.Succeeded == n, "redrive = %+v, %v, want %d succeeded", r.Counts, err, n)
	check.Equal(t, len(s.values(s.topic)), n, "records of the target")
	history := check.Must(s.store.History(t.Context(), id))(t)
	check.True(t, len(history) == 1 && history[0].Topic == s.topic, "History = %+v, want one attempt to %s", history, s.topic)
	check.Equal(t, check.Must(s.store.Get(t.Context(), id, 0))(t).OriginalTopic, deleted, "original topic")

	group := "readers." + s.topic
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: stacktest.Kafka(t), GroupID: group, Topic: s.topic})
	defer reader.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range n {
		check.Must(reader.ReadMessage(ctx))(t) // the reader commits the offset
	}
	cfg := redrive.DefaultConfig()
	cfg.OutcomeInterval, cfg.ConsumerGroups = 100*time.Millisecond, []outcomes.Rule{{Topic: s.topic, Group: group}}
	following := redrive.New(cfg, stores.Fill[redrive.Stores](s.store), s.publisher, prometheus.NewRegistry(), zap.NewNop())
	go following.RunOutcomes(ctx, s.publisher.(redrive.Offsets))
	check.Eventually(s, "a consumed message", func() bool {
		m, err := s.store.Get(t.Context(), id, 0)
		return err == nil && m.Outcome == entity.Consumed && m.Consumption.Group == group
	})
}
