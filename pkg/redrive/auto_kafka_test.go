package redrive_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/redrive/outcomes"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// pending returns the number of messages of the test's topic that are neither RESOLVED nor DEAD.
func (s *system) pending() (n int64) {
	s.Helper()
	counts := check.Must(s.store.Counts(s.Context()))(s)
	for _, c := range counts {
		if c.OriginalTopic == s.topic && !c.Status.Final() {
			n += c.Messages
		}
	}
	return n
}

func TestRealServersAuto(t *testing.T) {
	const n = 3000
	s := newSystem(t)
	s.fill(n, 100)
	cfg := redrive.DefaultConfig()
	cfg.Auto.Topics = []string{"redrive.*"}
	ctx, cancel := context.WithCancel(t.Context())
	var both sync.WaitGroup
	for range 2 { // number of processes
		service := redrive.New(cfg, stores.Fill[redrive.Stores](s.store), s.publisher, prometheus.NewRegistry(), zap.NewNop())
		both.Go(func() { service.RunAuto(ctx) })
	}
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	began := time.Now()
	for s.pending() > 0 && time.Since(began) < time.Minute {
		<-look.C
	}
	t.Logf("%d messages in %s", n, time.Since(began).Round(time.Millisecond))
	cancel()
	both.Wait()
	counts, err := s.store.Counts(t.Context())
	check.True(t, err == nil && len(counts) == 1 && counts[0].Status == entity.Resolved && counts[0].Messages == n,
		"counts = %+v, %v, want %d messages, all of them RESOLVED", counts, err, n)
	sent := map[string]int{}
	for p := range int32(partitions) {
		for _, key := range s.log(p) {
			sent[key]++
		}
	}
	for key, times := range sent {
		check.True(t, times == 1, "record %s was sent %d times, want once", key, times)
	}
	check.True(t, len(sent) == n, "%d records were sent, want %d", len(sent), n)
}

// failing consumes the replays of the test's topic in a consumer group until ctx ends. Of each every replays, the last
// fails again: its dead letter comes back.
func (s *system) failing(ctx context.Context, group string, every int) {
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: stacktest.Kafka(s), GroupID: group, Topic: s.topic})
	defer reader.Close()
	name := s.topic + ".dlq.v1"
	refs := check.Must(s.store.OpenTopics(ctx, []repository.Topic{{Name: name, Incarnation: "1"}}))(s)
	source := repository.Partition{Incarnation: refs[0].Incarnation, Partition: 1}
	check.Must(s.store.OpenPosition(ctx, []repository.Position{{Partition: source}}))(s)
	for read, back := 1, int64(0); ; read++ {
		record, err := reader.ReadMessage(ctx) // commits the offset
		if ctx.Err() != nil {
			return
		}
		check.NoError(s, err)
		if read%every > 0 {
			continue
		}
		m := entity.NewMessage(s.topic, "boom", time.Now())
		m.Source = entity.Source{Topic: name, TopicID: refs[0].TopicID, Incarnation: refs[0].Incarnation, Partition: 1, Offset: back}
		m.Record = entity.Record{Key: record.Key, Value: record.Value, Size: int64(len(record.Value))}
		m.Failure.ConsumerGroup, m.Origin.Confidence, m.Return = group, entity.FromHeader, &entity.Return{}
		for _, h := range record.Headers {
			switch h.Key {
			case deadletter.HeaderMessageID:
				m.Return.Parent = check.Must(uuid.Parse(string(h.Value)))(s)
			case deadletter.HeaderRedriveID:
				m.Return.Attempt = check.Must(uuid.Parse(string(h.Value)))(s)
			}
		}
		batch := repository.Batch{
			Ranges: []repository.Range{{Partition: source, From: back, To: back + 1}}, Messages: []entity.Message{m},
			Declared: func(*entity.Message) bool { return true },
		}
		if _, err = s.store.Store(ctx, batch); ctx.Err() == nil {
			check.NoError(s, err)
		}
		back++
	}
}

// TestRealServersAutoReturns: two processes of automatic retry with a limit on the share of messages that fail again.
func TestRealServersAutoReturns(t *testing.T) {
	const n = 400
	// start runs everything, with a consumer of which every last of so many replays fails again, until the test ends.
	start := func(s *system, every int, limit float64) *observer.ObservedLogs {
		s.fill(n, 100)
		group := "readers." + s.topic
		core, logs := observer.New(zap.InfoLevel)
		cfg := redrive.DefaultConfig()
		cfg.Auto.Topics, cfg.Auto.MaxReturnShare = []string{"redrive.*"}, limit
		cfg.OutcomeInterval, cfg.ConsumerGroups = 100*time.Millisecond, []outcomes.Rule{{Topic: s.topic, Group: group}}
		ctx, cancel := context.WithCancel(s.Context())
		var running sync.WaitGroup
		running.Go(func() { s.failing(ctx, group, every) })
		for range 2 { // number of processes
			service := redrive.New(cfg, stores.Fill[redrive.Stores](s.store), s.publisher, prometheus.NewRegistry(), zap.New(core))
			running.Go(func() { service.RunAuto(ctx) })
			running.Go(func() { service.RunOutcomes(ctx, s.publisher.(redrive.Offsets)) })
		}
		s.Cleanup(func() { cancel(); running.Wait() })
		return logs.FilterMessage("automatic retry pauses a topic")
	}
	summary := func(s *system) repository.TopicSummary {
		all := check.Must(s.store.TopicSummaries(s.Context(), repository.TopicQuery{}))(s)
		check.Require(s, len(all) == 1, "TopicSummaries = %+v, want one topic", all)
		return all[0]
	}

	for _, limit := range []float64{0.1, 0.8} {
		t.Run(fmt.Sprintf("StopsWhereAllFailAgain/%g", limit), func(t *testing.T) {
			t.Parallel()
			s := newSystem(t)
			start(s, 1, limit)
			check.Eventually(s, "a pause", func() bool { return summary(s).AutoPause.Reason != "" })
			got := summary(s)
			sent := got.Counts[entity.Resolved]
			check.True(t, sent >= 20 && sent <= 40, "sent %d messages, want 20 to 40", sent)
			check.True(t, time.Until(got.AutoPause.Until) > 8*time.Minute && strings.Contains(got.AutoPause.Reason, "failed again"),
				"pause = %+v, want one of 10 minutes that says that messages failed again", got.AutoPause)
		})
	}

	t.Run("GoesOnWhereFewFailAgain", func(t *testing.T) {
		t.Parallel()
		s := newSystem(t)
		logs := start(s, 40, 0.1)
		check.Eventually(s, "all messages sent", func() bool { return s.pending() == 0 })
		check.Equal(t, logs.Len(), 0, "pauses")
	})
}
