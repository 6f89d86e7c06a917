package redrive_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/republisher"
)

// values returns what each record of a topic has as its value, by key.
func (s *system) values(topic string) map[string]string {
	s.Helper()
	found := map[string]string{}
	for p := range int32(partitions) {
		tp := broker.TopicPartition{Topic: topic, Partition: p}
		ends, err := s.cluster.EndOffsets(s.Context(), []broker.TopicPartition{tp})
		if err != nil {
			s.Fatalf("EndOffsets: %v", err)
		}
		err = s.cluster.Scan(s.Context(), tp, 0, ends[tp], "", func(r broker.Record) bool {
			if _, again := found[string(r.Key)]; again {
				s.Errorf("key %s is there twice", r.Key)
			}
			found[string(r.Key)] = string(r.Value)
			return false
		})
		if err != nil {
			s.Fatalf("Scan: %v", err)
		}
	}
	return found
}

func TestRealServersEdits(t *testing.T) {
	t.Run("SentFoundAfterACrashAndNeverIgnored", func(t *testing.T) {
		s := newSystem(t, func(c *republisher.Config) { c.RepublishAllow = []string{"redrive.*"} })
		original := s.topic
		s.fill(1, 100)
		id := s.first()
		s.createTopic() // the other one
		before, err := s.store.Get(t.Context(), id, -1)
		if err != nil {
			t.Fatal(err)
		}
		cfg := redrive.DefaultConfig()
		cfg.ClaimExpiry = 300 * time.Millisecond
		dying := redrive.New(cfg, forgetful{s.store}, s.publisher, prometheus.NewRegistry(), zap.NewNop())
		order := entity.RetryOrder{ID: id, Cause: entity.By("tester"), Edit: &entity.Edit{
			Topic: s.topic, SetValue: true, Value: []byte("\xfe fixed"), SetHeaders: true, Headers: []entity.Header{{Key: "h", Value: []byte{0xff}}},
		}}
		if _, err := dying.Retry(t.Context(), order); !errors.Is(err, entity.ErrUnavailable) {
			t.Fatalf("Retry = %v, want unavailable", err)
		}
		s.eventually("a settled claim", func() bool {
			if err := s.Settle(t.Context()); err != nil {
				t.Fatalf("Settle = %v, want nil", err)
			}
			m, err := s.store.Get(t.Context(), id, 0)
			return err == nil && m.Status == entity.Resolved
		})
		order.Edit.Value = []byte("another")
		if _, err := s.Retry(t.Context(), order); !errors.Is(err, entity.ErrConflict) {
			t.Errorf("Retry with a second edit = %v, want a conflict", err)
		}
		order.Edit.Value = []byte("\xfe fixed")
		if got := s.values(s.topic); !reflect.DeepEqual(got, map[string]string{"0": "\xfe fixed"}) {
			t.Errorf("the edit's topic has %q, want the edit once", got)
		}
		if got := s.values(original); len(got) != 0 {
			t.Errorf("the original topic has %q, want nothing", got)
		}
		history, err := s.store.History(t.Context(), id)
		if err != nil || len(history) != 1 || history[0].Topic != s.topic || !reflect.DeepEqual(history[0].Edit, order.Edit) {
			t.Errorf("History = %+v, %v, want one attempt with the edit", history, err)
		}
		after, err := s.store.Get(t.Context(), id, -1)
		if err != nil || !reflect.DeepEqual(after.Record, before.Record) || after.OriginalTopic != original {
			t.Errorf("message = %+v, %v, want it as it was", after, err)
		}
	})

	t.Run("PatchOverARedrive", func(t *testing.T) {
		const n = 1203
		s := newSystem(t)
		s.fillWith(n, func(i int) []byte {
			if i%3 == 0 {
				return fmt.Appendf(nil, "no JSON %d", i)
			}
			return fmt.Appendf(nil, `{"state":"old","n":%d.50}`, i)
		})
		r, err := s.Begin(t.Context(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: s.topic}}, Cause: entity.By("tester"),
			Options: entity.RedriveOptions{Patch: []byte(`[{"op":"replace","path":"/state","value":"new"}]`)},
		})
		if err != nil {
			t.Fatalf("Begin: %v", err)
		}
		got, err := s.finish(s.Service, r.ID)
		if err != nil || got.Counts.Succeeded != n*2/3 || got.Counts.Reasons["patch_failed"] != n/3 {
			t.Errorf("redrive = %+v, %v, want %d patched and %d skipped", got.Counts, err, n*2/3, n/3)
		}
		want := map[string]string{}
		for i := range n {
			if i%3 != 0 {
				want[fmt.Sprint(i)] = fmt.Sprintf(`{"state":"new","n":%d.50}`, i)
			}
		}
		if sent := s.values(s.topic); !reflect.DeepEqual(sent, want) {
			t.Errorf("sent %d records, of them %q, want %d, of them %q", len(sent), sent["1"], len(want), want["1"])
		}
	})
}
