package ingest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/deadletter"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// failing returns a dead letter as a Spring application with the consumer group billing writes it.
func failing(key, value string, headers ...entity.Header) broker.Record {
	return broker.Record{Key: []byte(key), Value: []byte(value), Headers: append([]entity.Header{
		{Key: "kafka_dlt-original-topic", Value: []byte("orders")},
		{Key: "kafka_dlt-original-consumer-group", Value: []byte("billing")},
		{Key: "kafka_dlt-exception-message", Value: []byte("boom")},
	}, headers...)}
}

// oursOn returns the headers that dlq-manager adds to a replay, except the time of the replay.
func oursOn(message, attempt uuid.UUID, count string) []entity.Header {
	return []entity.Header{
		{Key: deadletter.HeaderMessageID, Value: []byte(message.String())},
		{Key: deadletter.HeaderRootID, Value: []byte(message.String())},
		{Key: deadletter.HeaderRetryCount, Value: []byte(count)},
		{Key: deadletter.HeaderRedriveID, Value: []byte(attempt.String())},
	}
}

// replay makes and stores an acknowledged attempt that sent the message m to topic orders, and returns the attempt's
// id.
func (w *world) replay(m entity.Message) (attempt uuid.UUID) {
	w.t.Helper()
	c := repository.Claim{MessageID: m.ID, ID: uuid.New(), Topic: "orders"}
	taken, err := w.store.Claim(context.Background(), []repository.Claim{c}, repository.Claiming{Expiry: time.Minute, Cause: entity.By("a")})
	check.Require(w.t, err == nil && len(taken) == 1, "Claim = %d, %v, want 1", len(taken), err)
	check.Must(w.store.Finish(context.Background(), []repository.Result{
		{MessageID: m.ID, ClaimID: c.ID, Verdict: entity.Acknowledged},
	}, entity.By("a")))(w.t)
	return c.ID
}

// arrive produces records to the partition tp, lets the ingester store them, and returns all stored messages of the
// topic of tp.
func (w *world) arrive(tp broker.TopicPartition, records ...broker.Record) []entity.Message {
	w.t.Helper()
	w.cluster.produce(tp, records...)
	pass(2 * time.Second)
	return w.messages(tp.Topic)
}

func (w *world) wantReturns(headers, content, stopped float64) {
	w.t.Helper()
	m := w.i.metrics
	for name, c := range map[string]struct{ got, want float64 }{
		"returns by headers": {testutil.ToFloat64(m.returns.WithLabelValues("orders", "headers")), headers},
		"returns by content": {testutil.ToFloat64(m.returns.WithLabelValues("orders", "content")), content},
		"loops stopped":      {testutil.ToFloat64(m.loopsStopped.WithLabelValues("orders")), stopped},
	} {
		check.Equal(w.t, c.got, c.want, "%s", name)
	}
}

func (w *world) wantForeign(m entity.Message) {
	w.t.Helper()
	check.True(w.t, m.Parent == uuid.Nil && m.RetryCount == 0 && m.Status == entity.Pending,
		"message has parent %s, %d attempts, is %s, want none, 0, PENDING", m.Parent, m.RetryCount, m.Status)
}

func TestReturns(t *testing.T) {
	t.Parallel()
	a := part("a.dlq.v1", 0)
	tests := map[string]func(w *world){
		"KnownByHeadersIsCountedAndTold": func(w *world) {
			first := w.arrive(a, failing("k", "v"))[0]
			attempt := w.replay(first)
			child := w.arrive(a, failing("k", "v", oursOn(first.ID, attempt, "1")...))[1]
			check.True(w.t, child.Parent == first.ID && child.RetryCount == 1,
				"child has parent %s, %d attempts, want %s, 1", child.Parent, child.RetryCount, first.ID)
			w.wantReturns(1, 0, 0)
			check.Equal(w.t, w.logged.FilterMessageSnippet("came back").Len(), 1, "lines about returns")
		},
		"KnownByContentWhereHeadersWereDropped": func(w *world) {
			first := w.arrive(a, failing("k", "v"))[0]
			w.replay(first)
			child := w.arrive(a, failing("k", "v"))[1]
			check.True(w.t, child.Parent == first.ID && child.RetryCount == 1,
				"child has parent %s, %d attempts, want %s, 1", child.Parent, child.RetryCount, first.ID)
			w.wantForeign(w.arrive(a, failing("k", "v"))[2])
			w.wantReturns(0, 1, 0)
		},
		"StoppedLoopIsCountedAndWarnedOf": func(w *world) {
			w.i.cfg.MaxRetries = 1
			first := w.arrive(a, failing("k", "v"))[0]
			w.replay(first)
			child := w.arrive(a, failing("k", "v"))[1]
			check.True(w.t, child.Status == entity.Dead, "child is %s, want DEAD", child.Status)
			w.wantReturns(0, 1, 1)
			lines := w.logged.FilterMessageSnippet("loop was stopped").All()
			check.Require(w.t, len(lines) == 1, "%d lines warn of loops, want 1", len(lines))
			said := lines[0].ContextMap()
			want := map[string]any{
				"message_id": child.ID.String(), "parent_id": first.ID.String(), "root_id": first.ID.String(),
				"topic": "orders", "retry_count": int64(1), "max_retries": int64(1),
			}
			for key, value := range want {
				check.Equal(w.t, said[key], value, "the line has %s", key)
			}
		},
		"OfAReadBatchOnceOnly": func(w *world) {
			first := w.arrive(a, failing("k", "v"))[0]
			w.replay(first)
			lost := false
			w.store.set(func() {
				w.store.lose = func() error {
					if !lost {
						lost = true
						return errDown
					}
					return nil
				}
			})
			all := w.arrive(a, failing("k", "v"), failing("k", "v"))
			children := slices.DeleteFunc(all, func(m entity.Message) bool { return m.Parent == uuid.Nil })
			check.True(w.t, len(children) == 1, "%d messages are returns of one attempt, want 1", len(children))
		},
		// The test's application copies all headers of the records that it reads, also the dlq- headers, to different records
		// that it writes to other topics.
		"ForeignHeadersAreShownNeverCountedAndNeverKill": func(w *world) {
			w.i.cfg.MaxRetries = 1
			first := w.arrive(a, failing("k", "v"))[0]
			attempt := w.replay(first)
			copied := oursOn(first.ID, attempt, "1")
			var records []broker.Record
			for range 5 {
				r := failing("k", "v", copied...)
				r.Headers[0].Value = []byte("orders-enriched")
				records = append(records, r)
			}
			records = append(records, failing("k", "v", oursOn(first.ID, uuid.New(), "1000")...))
			for _, m := range w.arrive(a, records...)[1:] {
				w.wantForeign(m)
				shown := slices.ContainsFunc(m.Record.Headers, func(h entity.Header) bool {
					return h.Key == deadletter.HeaderMessageID && string(h.Value) == first.ID.String()
				})
				check.True(w.t, shown, "headers are %v, want them as they came", m.Record.Headers)
			}
			w.wantReturns(0, 0, 0)
			if got, err := w.store.Get(context.Background(), first.ID, 0); err != nil || got.Outcome != entity.Published {
				w.t.Errorf("outcome is %q, %v, want published: nothing came back", got.Outcome, err)
			}
		},
		"WindowOfZeroLooksForNothing": func(w *world) {
			w.i.cfg.ReturnWindow = 0
			w.replay(w.arrive(a, failing("k", "v"))[0])
			w.wantForeign(w.arrive(a, failing("k", "v"))[1])
			w.wantReturns(0, 0, 0)
		},
	}
	for name, test := range tests {
		t.Run(name, bubble(func(w *world) {
			w.cluster.topic("a.dlq.v1", "A", 1)
			w.start(a)
			test(w)
		}))
	}
}

func TestGroups(t *testing.T) {
	t.Parallel()
	a := part("a.dlq.v1", 0)
	billing := repository.TopicGroup{Topic: "orders", Group: "billing"}

	t.Run("AreNotedOnceAndBeforeTheirMessages", bubble(func(w *world) {
		w.cluster.topic("a.dlq.v1", "A", 1)
		var noted []repository.TopicGroup
		w.store.set(func() {
			w.store.noting = func(groups []repository.TopicGroup) error {
				noted = append(noted, groups...)
				check.Equal(w.t, len(w.messages("a.dlq.v1")), 0, "messages stored before their group is noted")
				return nil
			}
		})
		_, stop := w.start(a)
		for range 3 {
			w.arrive(a, failing("k", "v"), failing("l", "v"), broker.Record{Value: []byte("says nothing")})
		}
		_ = stop()
		check.True(w.t, slices.Equal(noted, []repository.TopicGroup{billing}), "noted %+v, want %+v", noted, billing)
	}))

	t.Run("ThatCannotBeNotedHoldNothingUp", bubble(func(w *world) {
		w.cluster.topic("a.dlq.v1", "A", 1)
		tries := 0
		w.store.set(func() {
			w.store.noting = func([]repository.TopicGroup) error {
				if tries++; tries < 3 {
					return errDown
				}
				return nil
			}
		})
		_, stop := w.start(a)
		for n := range 4 {
			check.Equal(w.t, len(w.arrive(a, failing("k", "v"))), n+1, "messages stored")
		}
		_ = stop()
		check.True(w.t, tries == 3, "noting was tried %d times, want 3: until it is done", tries)
	}))
}
