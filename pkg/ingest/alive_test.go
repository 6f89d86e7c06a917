package ingest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/broker"
	"github.com/dlq-manager/dlq-manager/pkg/ingest/internal/health"
)

// hungFetch is a cluster whose fetches return only after release is closed, even if their context has ended. The
// timeouts of a real client should prevent endless fetches.
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

	t.Run("NotWhileAFetchHangs", bubble(func(w *world) {
		w.cluster.topic("orders.dlq.v1", "a", 1)
		hung := hungFetch{w.cluster, make(chan struct{})}
		w.i.cluster = hung
		_, stop := w.start(part0)
		<-time.After(health.StallLimit - time.Second)
		check.Equal(w.t, w.i.Alive(), nil, "Alive within the limit")
		<-time.After(5 * time.Second)
		err := w.i.Alive()
		check.True(w.t, err != nil && strings.Contains(err.Error(), "fetch from broker"), "got %v, want the fetcher named", err)
		close(hung.release)
		check.NoError(w.t, stop())
		check.Equal(w.t, w.i.Alive(), nil, "Alive after the end")
	}))

	// A full buffer, or a store that accepts nothing, is not a reason to restart: after a restart the ingester would
	// only read the same records again.
	t.Run("WhileTheStoreIsAway", bubble(func(w *world) {
		w.cluster.topic("orders.dlq.v1", "a", 1)
		w.cluster.produce(part0, numbered(5000)...)
		w.store.set(func() { w.store.fail = func() error { return context.DeadlineExceeded } })
		_, stop := w.start(part0)
		<-time.After(10 * health.StallLimit)
		check.Require(w.t, w.store.called() != 0, "the store was never asked")
		check.Equal(w.t, w.i.Alive(), nil, "Alive")
		check.NoError(w.t, stop())
	}, func(c *Config) { c.BufferBytes = 1 << 20 }))

	t.Run("WhileNothingComes", bubble(func(w *world) {
		w.cluster.topic("orders.dlq.v1", "a", 1)
		_, stop := w.start(part0)
		<-time.After(10 * health.StallLimit)
		check.Equal(w.t, w.i.Alive(), nil, "Alive")
		check.NoError(w.t, stop())
	}))
}
