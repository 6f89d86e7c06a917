package ingest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// keep has the store hold a mapping from now on.
func (w *world) keep(version int64, err error, rules ...entity.TopicRule) {
	w.store.set(func() {
		w.store.mapping = func() (entity.Mapping, error) {
			return entity.Mapping{Version: version, Rules: rules}, err
		}
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
		if got := all[len(all)-1].OriginalTopic; got != topic {
			w.t.Errorf("original topic = %q, want %q", got, topic)
		}
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
			if got := w.messages(a.Topic)[0].OriginalTopic; got != "orders" {
				w.t.Errorf("the first message belongs to %q now, want orders still", got)
			}
		},
		"StayWhileTheStoreDoesNotAnswer": func(w *world) {
			w.keep(0, errDown)
			pass(10 * w.i.cfg.DiscoveryInterval)
			wantLast(w, "orders")
			if n := w.logged.FilterMessageSnippet("mapping cannot be read").Len(); n != 1 {
				w.t.Errorf("%d lines tell of it, want 1", n)
			}
			w.keep(2, nil, payments)
			pass(w.i.cfg.DiscoveryInterval)
			wantLast(w, "payments")
			w.keep(0, errDown)
			pass(3 * w.i.cfg.DiscoveryInterval)
			if n := w.logged.FilterMessageSnippet("mapping cannot be read").Len(); n != 2 {
				w.t.Errorf("%d lines tell of two outages, want 2", n)
			}
		},
		"ThatCannotBeUsedAreSaidOnce": func(w *world) {
			w.keep(2, nil, entity.TopicRule{Pattern: "*", Original: "b.dlq.v1"})
			pass(10 * w.i.cfg.DiscoveryInterval)
			wantLast(w, "orders")
			if n := w.logged.FilterMessageSnippet("mapping cannot be used").Len(); n != 1 {
				w.t.Errorf("%d lines tell of it, want 1", n)
			}
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
			if !w.i.exists("b.dlq.v1") {
				w.t.Error("a new topic is not seen while the store is silent")
			}
			if calls != 1 {
				w.t.Errorf("%d calls wait for the silent store, want 1", calls)
			}
			close(hang)
			pass(w.i.cfg.DiscoveryInterval)
			wantLast(w, "payments")
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.keep(1, nil, orders)
				w.cluster.topic(a.Topic, "A", 1)
				ctx, cancel := context.WithCancel(context.Background())
				current, err := w.i.discover(ctx)
				if err != nil {
					t.Fatal(err)
				}
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
			})
		})
	}
}
