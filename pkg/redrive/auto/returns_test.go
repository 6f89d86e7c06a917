package auto

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                  string
		limit                 float64
		sent, known, returned int
		room                  int
		excess                string
	}{
		{"NothingSent", 0.1, 0, 0, 0, 20, ""},
		{"NoOutcomeKnown", 0.1, 15, 0, 0, 5, ""},
		{"FirstSampleIsUnknown", 0.1, 20, 0, 0, 0, ""},
		{"KnownOutcomesMakeRoom", 0.1, 20, 15, 0, 15, ""},
		{"AsManyUnknownAsKnown", 0.1, 100, 60, 0, 20, ""},
		{"TooFewToTell", 0.1, 19, 19, 19, 1, ""},
		{"AtTheLimit", 0.1, 20, 20, 2, 20, ""},
		{"AboveTheLimit", 0.1, 40, 40, 18, 0, "18 of 40 messages that it sent failed again, more than 10 %"},
		{"AboveTheLimitWhateverTheOthersDo", 0.1, 40, 18, 18, 0, "18 of 40 messages that it sent failed again, more than 10 %"},
		{"OnlyTheKnownExceed", 0.5, 20, 5, 5, 0, ""},
		{"OnlyTheKnownOfMoreExceed", 0.5, 40, 15, 15, -20, ""},
		{"HighLimit", 0.95, 20, 20, 20, 0, "20 of 20 messages that it sent failed again, more than 95 %"},
		{"AllMayFail", 1, 20, 20, 20, 20, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			room, excess := judge(repository.AutoTopic{Sent: c.sent, Known: c.known, Returned: c.returned}, c.limit)
			check.True(t, room == c.room && excess == c.excess, "judge = %d, %q, want %d, %q", room, excess, c.room, c.excess)
		})
	}
}

// consume runs a consumer of the messages that were sent to their original topics, until the function that it returns is
// called. Once a second it makes the outcome of every published message known; fails says which messages come back.
func (b *bench) consume(fails func(m *entity.Message) bool) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			elapse(time.Second)
			check.NoError(b, b.Store.Step(context.Background(), "consume", func(time.Time) error {
				for _, r := range b.Store.Rows {
					if m := &r.Message; m.Status == entity.Resolved && m.Outcome == entity.Published && fails(m) {
						m.Outcome = entity.Returned
					}
				}
				return nil
			}))
			check.NoError(b, b.Store.SaveCommitted(context.Background(), []repository.Committed{{
				TopicGroup: repository.TopicGroup{Topic: orders, Group: "billing"}, TopicID: "id of " + orders, Offset: int64(len(b.Kafka.Sent(orders))),
			}}))
		}
	}()
	return func() { cancel(); <-done }
}

func all(*entity.Message) bool  { return true }
func none(*entity.Message) bool { return false }

func billed(m *entity.Message) { m.Failure.ConsumerGroup = "billing" }

// limited runs a test like automatic, with a limit on the share of returned messages.
func limited(limit float64, do func(b *bench)) func(t *testing.T) {
	return automatic(func(b *bench) { b.build(b.cfg, b.Store, b.Kafka); do(b) }, func(a *Config) { a.MaxReturnShare = limit })
}

func (b *bench) logged(text string) int { return b.Logs.FilterMessage(text).Len() }

func TestAutoReturns(t *testing.T) {
	t.Parallel()
	const pauses = "automatic retry pauses a topic"

	for _, limit := range []float64{0.01, 0.1, 0.5, 0.9} {
		t.Run(fmt.Sprintf("PausesWhenAllFailAgain/%g", limit), limited(limit, func(b *bench) {
			b.Add(400, billed)
			bills := b.Add(5, to("bills"))
			defer b.consume(all)()
			b.autoFor(returnsPause)
			sent := len(b.Kafka.Sent(orders))
			check.True(b, sent >= minSample && sent <= 2*minSample, "sent %d messages, want %d to %d", sent, minSample, 2*minSample)
			check.Equal(b, b.logged(pauses), 1, "log lines about the pause")
			check.Equal(b, b.States(bills)[entity.Resolved], 5, "sent messages of another topic")
			topic := check.Must(b.Store.TopicSummaries(context.Background(), repository.TopicQuery{}))(b)[1]
			check.True(b, topic.Topic == orders && topic.AutoPause.Reason != "", "TopicSummaries = %+v, want a pause of %s", topic, orders)
			check.True(b, testutil.ToFloat64(b.metrics.skipped.WithLabelValues(skippedReturns)) > 0, "the metric does not tell of the pause")
		}))
	}

	t.Run("JudgesAnewAfterThePause", limited(0.1, func(b *bench) {
		ids := b.Add(400, billed)
		failing := b.consume(all)
		stop := b.auto()
		b.Within(time.Minute, "a pause", func() bool { return b.logged(pauses) == 1 })
		failing()
		before := len(b.Kafka.Sent(orders))
		defer b.consume(none)()
		elapse(returnsPause - time.Minute)
		check.Equal(b, len(b.Kafka.Sent(orders)), before, "sent during the pause")
		b.Within(5*time.Minute, "sending the rest", func() bool { return b.States(ids)[entity.Resolved] == 400 })
		stop()
		check.Equal(b, b.logged(pauses), 1, "log lines about a pause")
	}))

	t.Run("GoesOnWhileFewFailAgain", limited(0.1, func(b *bench) {
		ids := b.Add(1000, billed)
		seen := map[uuid.UUID]bool{}
		defer b.consume(func(m *entity.Message) bool {
			known := seen[m.ID]
			seen[m.ID] = true
			return !known && len(seen)%20 == 0
		})()
		stop := b.auto()
		b.Within(10*time.Minute, "sending", func() bool { return b.States(ids)[entity.Resolved] == 1000 })
		stop()
		check.Equal(b, b.logged(pauses), 0, "log lines about a pause")
	}))

	t.Run("SilenceMakesRoomWhereNoGroupIsKnown", limited(0.1, func(b *bench) {
		ids := b.Add(100)
		stop := b.auto()
		elapse(entity.DefaultCanaryWait - time.Second)
		check.Equal(b, len(b.Kafka.Sent(orders)), minSample, "sent while nothing is known")
		check.True(b, testutil.ToFloat64(b.metrics.skipped.WithLabelValues(skippedUnknown)) > 0, "the metric does not tell of the wait")
		b.Within(10*time.Minute, "sending", func() bool { return b.States(ids)[entity.Resolved] == 100 })
		stop()
	}))

	t.Run("ProcessesHaveOneLimit", limited(0.1, func(b *bench) {
		b.Add(400, billed)
		stop, stopOther := b.auto(), b.another().auto()
		elapse(entity.DefaultCanaryWait / 2)
		check.Equal(b, len(b.Kafka.Sent(orders)), minSample, "sent by two processes while nothing is known")
		defer b.consume(all)()
		elapse(time.Minute)
		stop()
		stopOther()
		sent := len(b.Kafka.Sent(orders))
		check.True(b, sent <= 2*minSample, "two processes sent %d messages, want at most %d", sent, 2*minSample)
		check.Equal(b, b.logged(pauses), 1, "log lines about the pause")
	}))

	t.Run("WhatCannotBeStoredIsNotSent", automatic(func(b *bench) {
		ids := b.Add(5)
		b.build(b.cfg, forgetful{b.Store}, b.Kafka)
		b.autoFor(time.Minute)
		b.WantSent(orders)
		b.WantStates(ids, map[entity.Status]int{entity.Pending: 5})
		check.Equal(b, b.logged("automatic retry waits for the store") > 0, true, "it tells of the store")
	}, func(a *Config) { a.MaxReturnShare = 0.1 }))

	t.Run("IsOffByDefault", automatic(func(b *bench) {
		ids := b.Add(400, billed)
		defer b.consume(all)()
		b.autoFor(time.Minute)
		b.WantStates(ids, map[entity.Status]int{entity.Resolved: 400})
	}))

	t.Run("StoreWithoutOutcomesIsSaid", automatic(func(b *bench) {
		ids := b.Add(400)
		b.Retrier = New(b.cfg, b.Store, nil, b.parts, prometheus.NewRegistry(), b.Logger, nil)
		b.autoFor(time.Minute)
		b.WantStates(ids, map[entity.Status]int{entity.Resolved: 400})
		check.Equal(b, b.logged("redrive.auto.max_return_share needs a database: automatic retry does not watch whether messages fail again"), 1, "log lines")
	}, func(a *Config) { a.MaxReturnShare = 0.1 }))
}

// forgetful is a store that cannot keep what automatic retry sends.
type forgetful struct{ store }

func (forgetful) SaveAutoSends(context.Context, []entity.Message) error { return entity.ErrUnavailable }
