package ingest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// inQuarantine returns a quarantined record with the given offset of topic a.dlq.v1. The next try to store it is due in
// an hour.
func inQuarantine(offset int64) entity.Quarantined {
	return entity.Quarantined{
		ID:     entity.NewID(),
		Source: entity.Source{Topic: "a.dlq.v1", TopicID: 1, Incarnation: 1, Offset: offset, Timestamp: time.Now()},
		Record: entity.Record{Value: []byte(`{}`), Headers: []entity.Header{
			{Key: "kafka_dlt-original-topic", Value: []byte("orders")},
			{Key: "kafka_dlt-exception-message", Value: []byte("stock service is down")},
		}},
		RetryAt: time.Now().Add(time.Hour),
	}
}

// trying runs the loop that tries quarantined records; stop ends the loop.
func (w *world) trying() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { w.i.tryQuarantined(ctx) })
	return func() { cancel(); ended.Wait() }
}

// TestQuarantinedRecordIsReadAsIfItHadJustCome: a quarantined record is tried when the ingester starts, and later
// whenever it is due.
func TestQuarantinedRecordIsReadAsIfItHadJustCome(t *testing.T) {
	bubble(func(w *world) {
		first, second := inQuarantine(7), inQuarantine(8)
		w.store.Quarantine(first)
		stop := w.trying()
		defer stop()
		synctest.Wait()
		want := func(id uuid.UUID) {
			w.t.Helper()
			m, err := w.store.Get(w.t.Context(), id, -1)
			if err != nil || m.OriginalTopic != "orders" || m.ErrorMessage != "stock service is down" || m.Failure.Dialect == "" ||
				m.MaxRetries != w.i.cfg.MaxRetries || m.Status != entity.Pending {
				w.t.Errorf("Get = %+v, %v, want what the headers say", m, err)
			}
		}
		want(first.ID)
		w.store.Quarantine(second)
		pass(quarantineInterval)
		check.Equal(w.t, testutil.ToFloat64(w.i.metrics.quarantineRecords.WithLabelValues("a.dlq.v1")), 1, "dlq_quarantine_records")
		pass(time.Hour)
		want(second.ID)
		check.Equal(w.t, testutil.CollectAndCount(w.i.metrics.quarantineRecords), 0, "topics of dlq_quarantine_records")
		check.Equal(w.t, testutil.ToFloat64(w.i.metrics.stored.WithLabelValues("a.dlq.v1")), 2, "dlq_ingest_records_stored_total")
	})(t)
}

// TestTopicWithTooManyInQuarantineRests: a topic with too many records in quarantine is not read; other topics are
// still read.
func TestTopicWithTooManyInQuarantineRests(t *testing.T) {
	bubble(func(w *world) {
		a, b := part("a.dlq.v1", 0), part("b.dlq.v1", 0)
		for _, p := range []string{a.Topic, b.Topic} {
			w.cluster.topic(p, "id-"+p, 1)
		}
		var all []entity.Quarantined
		trying := w.trying()
		defer trying()
		synctest.Wait()
		for offset := range int64(3) {
			q := inQuarantine(100 + offset)
			all = append(all, q)
			w.store.Quarantine(q)
		}
		pass(quarantineInterval)
		check.Equal(w.t, testutil.ToFloat64(w.i.metrics.quarantinePaused.WithLabelValues(a.Topic)), 1, "dlq_quarantine_paused")
		_, stop := w.start(a, b)
		defer func() { _ = stop() }()
		w.cluster.produce(a, numbered(3)...)
		w.cluster.produce(b, numbered(3)...)
		pass(time.Minute)
		n, m := len(w.messages(a.Topic)), len(w.messages(b.Topic))
		check.True(w.t, n == 0 && m == 3, "%d and %d records are stored, want none of the topic that rests and 3", n, m)
		check.NoError(w.t, w.store.DeleteQuarantined(w.t.Context(), all[0].ID, entity.By("ana")))
		pass(time.Minute)
		check.Equal(w.t, len(w.messages(a.Topic)), 3, "records stored when there is room again")
	}, func(c *Config) { c.QuarantineMaxRows = 2 })(t)
}

// TestLargeRecordsPassQuarantineOneAtATime: a quarantined record is not loaded while a large batch is stored, because
// it may be large too.
func TestLargeRecordsPassQuarantineOneAtATime(t *testing.T) {
	bubble(func(w *world) {
		tp := part("a.dlq.v1", 0)
		w.cluster.topic(tp.Topic, "A", 1)
		large := inQuarantine(7)
		large.Record.Value = make([]byte, 2*batchBytes)
		w.store.Quarantine(large)
		storing, proceed := make(chan struct{}, 1), make(chan struct{})
		w.store.set(func() { w.store.before = func(repository.Batch) { storing <- struct{}{}; <-proceed } })
		_, stop := w.start(tp)
		w.cluster.produce(tp, broker.Record{Value: make([]byte, 2*batchBytes)})
		<-storing
		trying := w.trying()
		pass(time.Second)
		q, err := w.store.QuarantinedRecord(w.t.Context(), large.ID)
		check.True(w.t, err == nil && q.Tries == large.Tries, "tries = %d, %v, want none while a large batch is stored", q.Tries, err)
		close(proceed)
		pass(time.Second)
		check.Equal(w.t, len(w.messages(tp.Topic)), 2, "messages")
		trying()
		_ = stop()
		check.True(w.t, w.i.heavy.TryAcquire(1), "the slot for large batches is not free")
	})(t)
}
