package schemas_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/registry"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// paced is a schema registry that counts its requests, and remembers the times of the first and the last one.
type paced struct {
	*registry.Registry
	mu          sync.Mutex
	count       int
	first, last time.Time
}

func (p *paced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if p.count++; p.count == 1 {
		p.first = time.Now()
	}
	p.last = time.Now()
	p.mu.Unlock()
	p.Registry.ServeHTTP(w, r)
}

// wantFew checks that the registry got at least one request, and not more than about ten requests a second on average.
func (p *paced) wantFew(t *testing.T) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	most := 10*(p.last.Sub(p.first).Seconds()+1) + 10
	check.True(t, p.count > 0 && float64(p.count) <= most, "%d requests in %s", p.count, p.last.Sub(p.first))
	t.Logf("%d requests in %s", p.count, p.last.Sub(p.first))
}

// Anybody can write records that name schemas which do not exist. dlq-manager sends a registry at most about ten
// requests a second because of such records. It stores and lists all of them, and finds one of them by its key.
func TestFaultInventedSchemas(t *testing.T) {
	p := &paced{Registry: registry.New(registry.Options{})}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	s := newSite(t, "", fmt.Sprintf("{name: paced, url: %q, topics: [\"*-invented\"]}", server.URL))
	s.topic("all.dlq.v1")
	n := pick(5_000, 100_000)
	var records []*kgo.Record
	for i := range n {
		records = append(records, s.event(1_000+i, s.prefix+"-invented", fmt.Sprint(i)))
	}
	s.produce(records...)
	s.start("ingester")
	s.start("api")
	s.await("all messages are in the search index, without their payloads", func() bool {
		var found int
		check.NoError(t, s.database.Get(&found, `SELECT count(*) FROM dlq.undecoded_messages`))
		return found == n
	})
	topic := "/api/v1/messages?topic=" + s.prefix + "-invented"
	check.Equal(t, len(s.pages(topic+"&omit=payload", "messages")), n, "listed messages")
	check.Equal(t, len(s.pages(fmt.Sprintf("%s&key=key-%d", topic, n/2), "messages")), 1, "messages with a key")
	var page struct{ Messages []message }
	for range 5 {
		s.call(http.MethodGet, topic+"&limit=1000", nil, http.StatusOK, &page)
		for _, m := range page.Messages {
			check.Equal(t, *m.PayloadOmitted, "schema_unavailable", "payload_omitted")
		}
	}
	p.wantFew(t)
}
