package ingest

import (
	"context"
	"testing"
	"time"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// keep makes the fake store return the mapping with the given version and rules, and the given error, from now on.
func (w *world) keep(version int64, err error, rules ...entity.TopicRule) {
	w.store.set(func() {
		w.store.mapping = func() (entity.Mapping, error) { return entity.Mapping{Version: version, Rules: rules}, err }
	})
}

func TestRules(t *testing.T) {
	t.Parallel()
	a := part("a.dlq.v1", 0)
	orders := entity.TopicRule{Pattern: "a.dlq.v1", Original: "orders"}
	payments := entity.TopicRule{Pattern: "*.dlq.v1", Original: "payments"}
	wantLast := func(w *world, topic string) {
		w.t.Helper()
		all := w.arrive(a, numbered(1)...)
		check.Equal(w.t, all[len(all)-1].OriginalTopic, topic, "original topic")
	}
	tests := map[string]func(w *world){
		"AreInForceFromTheStart": func(w *world) { wantLast(w, "orders") },
		"ThatChangeHoldForWhatComesThen": func(w *world) {
			wantLast(w, "orders")
			w.keep(2, nil, payments)
			pass(w.i.cfg.DiscoveryInterval)
			wantLast(w, "payments")
			w.keep(3, nil)
			pass(w.i.cfg.DiscoveryInterval)
			wantLast(w, "")
			got := w.messages(a.Topic)[0].OriginalTopic
			check.True(w.t, got == "orders", "the first message belongs to %q now, want orders still", got)
		},
		"StayWhileTheStoreDoesNotAnswer": func(w *world) {
			w.keep(0, errDown)
			pass(10 * w.i.cfg.DiscoveryInterval)
			wantLast(w, "orders")
			count := w.logged.FilterMessageSnippet("mapping cannot be read").Len()
			check.True(w.t, count == 1, "%d lines tell of it, want 1", count)
			w.keep(2, nil, payments)
			pass(w.i.cfg.DiscoveryInterval)
			wantLast(w, "payments")
			w.keep(0, errDown)
			pass(3 * w.i.cfg.DiscoveryInterval)
			n := w.logged.FilterMessageSnippet("mapping cannot be read").Len()
			check.True(w.t, n == 2, "%d lines tell of two outages, want 2", n)
		},
		"ThatCannotBeUsedAreSaidOnce": func(w *world) {
			w.keep(2, nil, entity.TopicRule{Pattern: "*", Original: "b.dlq.v1"})
			pass(10 * w.i.cfg.DiscoveryInterval)
			wantLast(w, "orders")
			n := w.logged.FilterMessageSnippet("mapping cannot be used").Len()
			check.True(w.t, n == 1, "%d lines tell of it, want 1", n)
		},
		"OfASilentStoreDoNotHoldDiscoveryUp": func(w *world) {
			hang, calls := make(chan struct{}), 0
			w.store.set(func() {
				w.store.mapping = func() (entity.Mapping, error) {
					calls++
					<-hang
					return entity.Mapping{Version: 2, Rules: []entity.TopicRule{payments}}, nil
				}
			})
			pass(10 * w.i.cfg.DiscoveryInterval)
			w.cluster.topic("b.dlq.v1", "B", 1)
			pass(3*w.i.cfg.DiscoveryInterval + rulesTimeout)
			check.True(w.t, w.i.exists("b.dlq.v1"), "a new topic is not seen while the store is silent")
			check.True(w.t, calls == 1, "%d calls wait for the silent store, want 1", calls)
			close(hang)
			pass(w.i.cfg.DiscoveryInterval)
			wantLast(w, "payments")
		},
	}
	for name, test := range tests {
		t.Run(name, bubble(func(w *world) {
			w.keep(1, nil, orders)
			w.cluster.topic(a.Topic, "A", 1)
			ctx, cancel := context.WithCancel(context.Background())
			current := check.Must(w.i.discover(ctx))(w.t)
			looking := make(chan struct{})
			go func() {
				defer close(looking)
				for ctx.Err() == nil {
					current = w.i.waitForChange(ctx, current)
				}
			}()
			_, stop := w.start(a)
			test(w)
			cancel()
			<-looking
			_ = stop()
			pass(time.Second)
		}))
	}
}
