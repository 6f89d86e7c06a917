package notify

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// TestReplicas runs two notifiers on one database, and stops the first one while both send notifications. Every
// notification is sent, and none more than twice.
func TestReplicas(t *testing.T) {
	t.Parallel()
	const topics = 20
	db := postgrestest.Open(t)
	store := postgres.New(db)
	came := make(chan string, 10*topics)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { came <- r.Header.Get(headerID) }))
	t.Cleanup(server.Close)

	cfg := DefaultConfig()
	cfg.Interval, cfg.Window = 100*time.Millisecond, 0
	cfg.Sinks = []SinkConfig{{Name: "ops", Type: TypeWebhook, URL: server.URL, PerMinute: maxPerMinute}}
	replica := func() *Notifier {
		n, err := New(cfg, store, prometheus.NewRegistry(), zap.NewNop())
		check.NoError(t, err)
		return n
	}
	first, second := replica(), replica()
	if _, err := first.collect(t.Context(), false); err != nil { // the first call only stores the beginning
		t.Fatal(err)
	}
	for i := range topics {
		id := uuid.New()
		db.MustExec(`INSERT INTO dlq.dlq_messages (id, original_topic, error_message) VALUES ($1, $2, 'boom')`, id, fmt.Sprintf("topic-%d", i))
		if _, err := store.MarkDead(t.Context(), id, entity.By("alice")); err != nil {
			t.Fatal(err)
		}
	}

	var both sync.WaitGroup
	run := func(n *Notifier) context.CancelFunc {
		ctx, stop := context.WithCancel(t.Context())
		both.Go(func() { n.Run(ctx) })
		return stop
	}
	stopFirst, stopSecond := run(first), run(second)
	defer both.Wait()
	defer stopSecond()
	defer stopFirst()
	told := map[string]int{}
	for len(told) < topics {
		select {
		case id := <-came:
			told[id]++
		case <-time.After(time.Minute):
			t.Fatalf("got %d notifications, want %d", len(told), topics)
		}
		if len(told) == topics/4 {
			stopFirst()
		}
	}
	for id, n := range told {
		if n > 2 { // twice is allowed: a process that is stopped after a request may not have stored the success
			t.Errorf("%s was sent %d times, want once", id, n)
		}
	}
	var kept int
	if err := db.Get(&kept, `SELECT count(*) FROM dlq.notifications`); err != nil || kept != topics {
		t.Errorf("%d notifications were kept, %v, want %d", kept, err, topics)
	}
}
