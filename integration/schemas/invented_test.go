package schemas_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/registry"
	"github.com/dlq-manager/dlq-manager/integration/registry/official"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// firstInvented is the first id of the schemas that a registry of type paced does not have.
const firstInvented = 1_000

// paced is a schema registry that counts its requests, and remembers the times of the first and the last one. It answers
// with one of the statuses for ids from firstInvented on, and fails the test when it is asked for an id that no registry
// can have.
type paced struct {
	*registry.Registry
	t           *testing.T
	statuses    []int
	mu          sync.Mutex
	count       int
	first, last time.Time
}

func (p *paced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet { // the test itself registers schemas
		p.mu.Lock()
		if p.count++; p.count == 1 {
			p.first = time.Now()
		}
		p.last = time.Now()
		p.mu.Unlock()
	}
	var id int
	if n, _ := fmt.Sscanf(r.URL.Path, "/schemas/ids/%d", &id); n == 1 && id >= firstInvented {
		check.True(p.t, id < 1<<31, "the registry is asked for the id %d", id)
		w.WriteHeader(p.statuses[id%len(p.statuses)])
		return
	}
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

// Anybody can write records that name schemas which do not exist, or which the registry refuses or fails at.
// dlq-manager sends a registry at most about ten requests a second because of such records. It stores and lists all of
// them, and finds one of them by its key. Meanwhile the messages of another topic, whose schemas are in the same
// registry, are shown and found with their payloads.
func TestFaultInventedSchemas(t *testing.T) {
	statuses := []int{http.StatusNotFound, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusBadGateway}
	p := &paced{Registry: registry.New(registry.Options{}), t: t, statuses: statuses}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	s := newSite(t, "", fmt.Sprintf("{name: paced, url: %q, topics: [\"*-invented\", \"*-others\"]}", server.URL))
	s.topic("all.dlq.v1")
	s.topic("others.dlq.v1")
	there := *s
	there.registryURL = server.URL
	const others = 20
	n := pick(5_000, 100_000)
	var records []*kgo.Record
	for i := range n {
		id := firstInvented + i
		if i%10 == 9 {
			id = 1<<31 + i
		}
		records = append(records, s.event(id, s.prefix+"-invented", fmt.Sprint(i)))
	}
	s.produce(records...)
	s.start("ingester")
	s.start("api")
	undecoded := func() (found int) {
		check.NoError(t, s.database.Get(&found, `SELECT count(*) FROM dlq.undecoded_messages`))
		return found
	}
	s.await("some messages are in the search index, without their payloads", func() bool { return undecoded() > 0 })
	stop := s.poll("/api/v1/messages?limit=100&topic=" + s.prefix + "-invented")
	defer stop()
	began := time.Now()
	for i := range others {
		schema := fmt.Sprintf(`{"type": "record", "name": "Event%d", "fields": [{"name": "id", "type": "string"}]}`, i)
		there.register(fmt.Sprintf("other%d-value", i), official.Avro, schema, nil)
		record := s.event(i+1, s.prefix+"-others", fmt.Sprintf("other-%d", i))
		record.Topic = s.prefix + "-others.dlq.v1"
		s.produce(record)
	}
	other := "/api/v1/messages?topic=" + s.prefix + "-others"
	s.await("all payloads of the other topic are shown", func() bool {
		shown := 0
		for _, m := range s.pages(other, "messages") {
			if m["payload"] != nil {
				shown++
			}
		}
		return shown == others
	})
	t.Logf("the other topic's payloads are shown after %s", time.Since(began))
	check.True(t, time.Since(began) < time.Minute, "the other topic's payloads are shown after %s", time.Since(began))
	stop()
	s.await("all messages are in the search index, those with invented schemas without their payloads", func() bool { return undecoded() == n })
	for i := range others {
		s.await("a payload of the other topic is found", func() bool {
			return len(s.pages(fmt.Sprintf("%s&payload=%s", other, url.QueryEscape(fmt.Sprintf("$.id = other-%d", i))), "messages")) == 1
		})
	}
	t.Logf("the other topic's payloads are found after %s", time.Since(began))
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

// poll reads a page all the time, as an open console does, until the function stop is called.
func (s *site) poll(path string) (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.api+path, http.NoBody)
			if err != nil {
				return
			}
			if res, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
		}
	}()
	return func() { cancel(); <-done }
}
