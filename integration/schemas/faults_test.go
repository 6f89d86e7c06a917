package schemas_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlq-manager/dlq-manager/integration/registry"
	"github.com/dlq-manager/dlq-manager/integration/registry/official"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

const eventSchema = `{"type": "record", "name": "Event", "fields": [{"name": "id", "type": "string"}]}`

// failing is a schema registry that fails in one way, which its name says. The messages whose schemas it has come from
// an original topic with this name.
type failing struct {
	name     string
	begin    func(r *registry.Registry)
	registry *registry.Registry
	url      string
	produced int
}

// While a registry fails, its messages are listed without payloads, the last message is found by its key, and no
// redirect is followed. When the registry answers again, all payloads are shown and found; only a long run checks this
// after the oversized answers.
func TestFaultSchemaRegistry(t *testing.T) {
	var strayed atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { strayed.Add(1) }))
	t.Cleanup(elsewhere.Close)
	all := []*failing{
		{name: "down", begin: func(r *registry.Registry) { r.Down(true) }},
		{name: "slow", begin: func(r *registry.Registry) { r.Delay(time.Hour) }},
		{name: "garbage", begin: func(r *registry.Registry) { r.Content("<html>") }},
		{name: "empty", begin: func(r *registry.Registry) { r.Content("{}") }},
		{name: "redirect", begin: func(r *registry.Registry) { r.RedirectTo(elsewhere.URL) }},
		{name: "unauthorized", begin: func(r *registry.Registry) { r.Status(http.StatusUnauthorized) }},
		{name: "oversized", begin: func(r *registry.Registry) { r.Huge(64 << 20) }},
	}
	var settings []string
	for _, f := range all {
		f.registry = registry.New(registry.Options{})
		server := httptest.NewServer(f.registry)
		t.Cleanup(server.Close)
		f.url = server.URL
		settings = append(settings, fmt.Sprintf("{name: %s, url: %q, topics: [%q]}", f.name, f.url, "*-"+f.name))
	}
	s := newSite(t, "", settings...)
	s.topic("all.dlq.v1")
	for _, f := range all {
		there := *s
		there.registryURL = f.url
		there.register(f.name+"-value", official.Avro, eventSchema, nil)
		f.registry.Reset()
		f.begin(f.registry)
	}
	s.start("ingester")
	s.start("api")
	for range 2 {
		for _, f := range all {
			s.failOne(f, 20)
		}
		for _, f := range all {
			s.wantUndecoded(f)
		}
	}
	for _, f := range all {
		check.True(t, f.registry.Count() > 0, "%s: the registry got no request", f.name)
		f.registry.Heal()
	}
	check.Equal(t, strayed.Load(), 0, "requests to the address of a redirect")
	for _, f := range all {
		if f.name == "oversized" && pick(0, 1) == 0 {
			continue // dlq-manager requests this schema again only after a minute: too long for a short run
		}
		s.wantDecoded(f)
	}
}

// failOne writes n more dead letters of the topic whose schemas the failing registry f has.
func (s *site) failOne(f *failing, n int) {
	s.t.Helper()
	var records []*kgo.Record
	for range n {
		records = append(records, s.event(1, s.prefix+"-"+f.name, fmt.Sprintf("%s-%d", f.name, f.produced)))
		f.produced++
	}
	s.produce(records...)
}

// event returns a dead letter whose value is encoded with the schema that has this id.
func (s *site) event(schema int, topic, id string) *kgo.Record {
	s.t.Helper()
	value := check.Must(check.Must(avro.Parse(eventSchema))(s.t).Encode(map[string]any{"id": id}))(s.t)
	return &kgo.Record{
		Topic: s.prefix + "-all.dlq.v1", Key: []byte("key-" + id), Value: framed(schema, value),
		Headers: []kgo.RecordHeader{
			{Key: "kafka_dlt-original-topic", Value: []byte(topic)},
			{Key: "kafka_dlt-exception-fqcn", Value: []byte("com.acme.Timeout")},
		},
	}
}

// wantUndecoded checks that the API lists all messages of the failing registry without decoded payloads, and that a
// search for the key of the last message finds this message.
func (s *site) wantUndecoded(f *failing) {
	s.t.Helper()
	topic := "/api/v1/messages?topic=" + s.prefix + "-" + f.name
	s.await(f.name+": all messages are listed", func() bool { return len(s.pages(topic, "messages")) == f.produced })
	for _, m := range s.pages(topic, "messages") {
		check.Equal(s.t, m["payload_omitted"], any("schema_unavailable"), f.name+": payload_omitted")
	}
	key := fmt.Sprintf("&key=key-%s-%d", f.name, f.produced-1)
	s.await(f.name+": the last message is found by its key", func() bool {
		return len(s.pages(topic+key, "messages")) == 1
	})
}

func (s *site) wantDecoded(f *failing) {
	s.t.Helper()
	topic := "/api/v1/messages?topic=" + s.prefix + "-" + f.name
	s.await(f.name+": all payloads are shown", func() bool {
		ids := map[any]bool{}
		for _, m := range s.pages(topic, "messages") {
			if payload, ok := m["payload"].(map[string]any); ok {
				ids[payload["id"]] = true
			}
		}
		return len(ids) == f.produced
	})
	for i := range f.produced {
		id := fmt.Sprintf("%s-%d", f.name, i)
		s.await(id+" is found by its payload", func() bool {
			return len(s.pages(topic+"&payload="+url.QueryEscape("$.id = "+id), "messages")) == 1
		})
	}
}

// await waits until ok returns true. It has a time limit only to end a test that hangs.
func (s *site) await(what string, ok func() bool) {
	s.t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for hung := time.After(30 * time.Minute); !ok(); {
		select {
		case <-ticker.C:
		case <-hung:
			s.t.Fatalf("never came: %s", what)
		}
	}
}
