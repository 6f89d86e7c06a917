package redrive_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/internal/test/stores"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/redrive"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/republisher"
)

// values returns the values of a topic's records, by key.
func (s *system) values(topic string) map[string]string {
	s.Helper()
	found := map[string]string{}
	for p := range int32(partitions) {
		tp := broker.TopicPartition{Topic: topic, Partition: p}
		ends := check.Must(s.cluster.EndOffsets(s.Context(), []broker.TopicPartition{tp}))(s)
		check.NoError(s, s.cluster.Scan(s.Context(), tp, 0, ends[tp], "", func(r broker.Record) bool {
			_, again := found[string(r.Key)]
			check.True(s, !again, "key %s is there twice", r.Key)
			found[string(r.Key)] = string(r.Value)
			return false
		}))
	}
	return found
}

func TestRealServersEdits(t *testing.T) {
	t.Run("SentFoundAfterACrashAndNeverIgnored", func(t *testing.T) {
		s := newSystem(t, func(c *republisher.Config) { c.RepublishAllow = []string{"redrive.*"} })
		original := s.topic
		s.fill(1, 100)
		id := s.first()
		s.createTopic() // sets s.topic to a new topic, to which the edit sends the record
		before := check.Must(s.store.Get(t.Context(), id, -1))(t)
		cfg := redrive.DefaultConfig()
		cfg.ClaimExpiry = 4 * time.Second // the record is sent only in the first half of it, also on a busy machine
		dying := redrive.New(cfg, stores.Fill[redrive.Stores](forgetful{s.store}), s.publisher, prometheus.NewRegistry(), zap.NewNop())
		order := entity.RetryOrder{ID: id, Cause: entity.By("tester"), Edit: &entity.Edit{
			Topic: s.topic, SetValue: true, Value: []byte("\xfe fixed"), SetHeaders: true, Headers: []entity.Header{{Key: "h", Value: []byte{0xff}}},
		}}
		check.Is(t, check.Err(dying.Retry(t.Context(), order)), entity.ErrUnavailable, "Retry")
		check.Eventually(s, "a settled claim", func() bool {
			check.NoError(t, s.Settle(t.Context()))
			m, err := s.store.Get(t.Context(), id, 0)
			return err == nil && m.Status == entity.Resolved
		})
		order.Edit.Value = []byte("another")
		check.Is(t, check.Err(s.Retry(t.Context(), order)), entity.ErrConflict, "Retry with a second edit")
		order.Edit.Value = []byte("\xfe fixed")
		check.Equal(t, s.values(s.topic), map[string]string{"0": "\xfe fixed"}, "records of the edit's topic")
		got := s.values(original)
		check.True(t, len(got) == 0, "the original topic has %q, want nothing", got)
		history, err := s.store.History(t.Context(), id)
		if err != nil || len(history) != 1 || history[0].Topic != s.topic || !reflect.DeepEqual(history[0].Edit, order.Edit) {
			t.Errorf("History = %+v, %v, want one attempt with the edit", history, err)
		}
		after, err := s.store.Get(t.Context(), id, -1)
		check.True(t, err == nil && reflect.DeepEqual(after.Record, before.Record) && after.OriginalTopic == original,
			"message = %+v, %v, want it as it was", after, err)
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
		r := check.Must(s.Begin(t.Context(), repository.NewRedrive{
			Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: s.topic}}, Cause: entity.By("tester"),
			Options: entity.RedriveOptions{Patch: []byte(`[{"op":"replace","path":"/state","value":"new"}]`)},
		}))(t)
		got, err := s.finish(s.Service, r.ID)
		check.True(t, err == nil && got.Counts.Succeeded == n*2/3 && got.Counts.Reasons["patch_failed"] == n/3,
			"redrive = %+v, %v, want %d patched and %d skipped", got.Counts, err, n*2/3, n/3)
		want := map[string]string{}
		for i := range n {
			if i%3 != 0 {
				want[fmt.Sprint(i)] = fmt.Sprintf(`{"state":"new","n":%d.50}`, i)
			}
		}
		check.Equal(t, s.values(s.topic), want, "records")
	})
}
