package ingest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// inQuarantine is a record of a.dlq.v1 that is tried again in an hour.
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

// trying runs what tries quarantined records; stop ends it.
func (w *world) trying() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() { w.i.tryQuarantined(ctx) })
	return func() { cancel(); ended.Wait() }
}

// TestQuarantinedRecordIsReadAsIfItHadJustCome: at the start, and later when it is due.
func TestQuarantinedRecordIsReadAsIfItHadJustCome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first, second := inQuarantine(7), inQuarantine(8)
		w.store.Quarantine(first)
		stop := w.trying()
		defer stop()
		synctest.Wait()
		want := func(id uuid.UUID) {
			t.Helper()
			m, err := w.store.Get(t.Context(), id, -1)
			if err != nil || m.OriginalTopic != "orders" || m.ErrorMessage != "stock service is down" || m.Failure.Dialect == "" ||
				m.MaxRetries != w.i.cfg.MaxRetries || m.Status != entity.Pending {
				t.Errorf("Get = %+v, %v, want what the headers say", m, err)
			}
		}
		want(first.ID)
		w.store.Quarantine(second)
		pass(quarantineInterval)
		if got := testutil.ToFloat64(w.i.metrics.quarantineRecords.WithLabelValues("a.dlq.v1")); got != 1 {
			t.Errorf("dlq_quarantine_records = %v, want 1", got)
		}
		pass(time.Hour)
		want(second.ID)
		if n := testutil.CollectAndCount(w.i.metrics.quarantineRecords); n != 0 {
			t.Errorf("dlq_quarantine_records has %d topics, want none", n)
		}
		if got := testutil.ToFloat64(w.i.metrics.stored.WithLabelValues("a.dlq.v1")); got != 2 {
			t.Errorf("dlq_ingest_records_stored_total = %v, want 2", got)
		}
	})
}

// TestTopicWithTooManyInQuarantineRests: the others are read.
func TestTopicWithTooManyInQuarantineRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *Config) { c.QuarantineMaxRows = 2 })
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
		if got := testutil.ToFloat64(w.i.metrics.quarantinePaused.WithLabelValues(a.Topic)); got != 1 {
			t.Errorf("dlq_quarantine_paused = %v, want 1", got)
		}
		_, stop := w.start(a, b)
		defer func() { _ = stop() }()
		w.cluster.produce(a, numbered(3)...)
		w.cluster.produce(b, numbered(3)...)
		pass(time.Minute)
		if n, m := len(w.messages(a.Topic)), len(w.messages(b.Topic)); n != 0 || m != 3 {
			t.Errorf("%d and %d records are stored, want none of the topic that rests and 3", n, m)
		}
		if err := w.store.DeleteQuarantined(t.Context(), all[0].ID, entity.By("ana")); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if n := len(w.messages(a.Topic)); n != 3 {
			t.Errorf("%d records are stored, want 3: there is room again", n)
		}
	})
}

// TestLargeRecordsPassQuarantineOneAtATime: a quarantined record, which may be as large as
// any, is not read while a large batch is stored.
func TestLargeRecordsPassQuarantineOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tp := part("a.dlq.v1", 0)
		w.cluster.topic(tp.Topic, "A", 1)
		large := inQuarantine(7)
		large.Record.Value = make([]byte, 2*batchBytes)
		w.store.Quarantine(large)
		storing, proceed := make(chan struct{}, 1), make(chan struct{})
		w.store.set(func() {
			w.store.before = func(repository.Batch) { storing <- struct{}{}; <-proceed }
		})
		_, stop := w.start(tp)
		w.cluster.produce(tp, broker.Record{Value: make([]byte, 2*batchBytes)})
		<-storing
		trying := w.trying()
		pass(time.Second)
		if q, err := w.store.QuarantinedRecord(t.Context(), large.ID); err != nil || q.Tries != large.Tries {
			t.Errorf("tries = %d, %v, want none while a large batch is stored", q.Tries, err)
		}
		close(proceed)
		pass(time.Second)
		if got := len(w.messages(tp.Topic)); got != 2 {
			t.Errorf("messages = %d, want both", got)
		}
		trying()
		_ = stop()
		if !w.i.heavy.TryAcquire(1) {
			t.Error("the slot for large batches is not free")
		}
	})
}
