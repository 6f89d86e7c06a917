package ingest

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/broker"
)

// hungFetch is a Kafka whose answers to fetches never come, nor end with their
// context: what no timeout of a client is meant to allow.
type hungFetch struct {
	*fakeCluster
	release chan struct{}
}

func (c hungFetch) Fetch(context.Context, broker.FetchRequest) (broker.FetchResponse, error) {
	<-c.release
	return broker.FetchResponse{}, broker.ErrUnavailable
}

func TestAlive(t *testing.T) {
	t.Parallel()
	part0 := part("orders.dlq.v1", 0)

	t.Run("NotWhileAFetchHangs", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.cluster.topic("orders.dlq.v1", "a", 1)
			hung := hungFetch{w.cluster, make(chan struct{})}
			w.i.cluster = hung
			_, stop := w.start(part0)
			<-time.After(stallLimit - time.Second)
			if err := w.i.Alive(); err != nil {
				t.Errorf("got %v within the limit, want nil", err)
			}
			<-time.After(5 * time.Second)
			if err := w.i.Alive(); err == nil || !strings.Contains(err.Error(), "fetch from broker") {
				t.Errorf("got %v, want the fetcher named", err)
			}
			close(hung.release)
			if err := stop(); err != nil {
				t.Error(err)
			}
			if err := w.i.Alive(); err != nil {
				t.Errorf("got %v after the end, want nil", err)
			}
		})
	})

	// A full buffer and a store that takes nothing are waited out: a restart would
	// only read the same records again.
	t.Run("WhileTheStoreIsAway", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.BufferBytes = 1 << 20 })
			w.cluster.topic("orders.dlq.v1", "a", 1)
			w.cluster.produce(part0, numbered(5000)...)
			w.store.set(func() { w.store.fail = func() error { return context.DeadlineExceeded } })
			_, stop := w.start(part0)
			<-time.After(10 * stallLimit)
			if w.store.called() == 0 {
				t.Fatal("the store was never asked")
			}
			if err := w.i.Alive(); err != nil {
				t.Errorf("got %v, want nil", err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	})

	t.Run("WhileNothingComes", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.cluster.topic("orders.dlq.v1", "a", 1)
			_, stop := w.start(part0)
			<-time.After(10 * stallLimit)
			if err := w.i.Alive(); err != nil {
				t.Errorf("got %v, want nil", err)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	})
}
