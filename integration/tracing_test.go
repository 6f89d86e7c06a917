package integration_test

import (
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// The trace context in the headers of the dead letter, and the trace context that the client sends with its retry
// request.
const (
	lettersTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	lettersParent = "00-" + lettersTrace + "-00f067aa0ba902b7-01"
	lettersState  = "shop=t61rcWkgMzE,other=1"
	clientsTrace  = "0af7651916cd43dd8448eb211c80319c"
	clientsSpan   = "b7ad6b7169203331"
)

// traceCollector accepts spans like an OpenTelemetry collector.
type traceCollector struct {
	url   string
	mu    sync.Mutex
	spans []span
}

// span is a received span, with the name of the program that sent it.
type span struct {
	*tracepb.Span
	service string
}

func newTraceCollector(t *testing.T) *traceCollector {
	t.Helper()
	c := &traceCollector{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var export collectorpb.ExportTraceServiceRequest
		body, err := gzip.NewReader(r.Body)
		if err == nil {
			var raw []byte
			if raw, err = io.ReadAll(body); err == nil {
				err = proto.Unmarshal(raw, &export)
			}
		}
		if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" {
			t.Errorf("got %s %s that is no export: %v", r.Method, r.URL, err)
		}
		c.take(&export)
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	c.url = server.URL
	return c
}

func (c *traceCollector) take(export *collectorpb.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range export.ResourceSpans {
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				c.spans = append(c.spans, span{s, textOf(r.Resource.Attributes, "service.name")})
			}
		}
	}
}

// all returns the spans received so far that satisfy the condition.
func (c *traceCollector) all(ok func(span) bool) []span {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []span
	for _, s := range c.spans {
		if ok(s) {
			found = append(found, s)
		}
	}
	return found
}

// await waits for a span that satisfies the condition.
func (c *traceCollector) await(t *testing.T, what string, ok func(span) bool) span {
	t.Helper()
	var found []span
	defer func() {
		if len(found) == 0 {
			for _, s := range c.all(func(span) bool { return true }) {
				t.Logf("came: %s %s %q in %x of %x", s.service, s.Kind, s.Name, s.TraceId, s.ParentSpanId)
			}
		}
	}()
	eventually(t, "the collector has "+what, func() bool {
		found = c.all(ok)
		return len(found) > 0
	})
	return found[0]
}

func (s span) in(trace string) bool  { return hex.EncodeToString(s.TraceId) == trace }
func (s span) under(above span) bool { return string(s.ParentSpanId) == string(above.SpanId) }
func (s span) text(key string) string {
	return textOf(s.Attributes, key)
}

func (s span) linkedTo(trace string) bool {
	return slices.ContainsFunc(s.Links, func(l *tracepb.Span_Link) bool { return hex.EncodeToString(l.TraceId) == trace })
}

// textOf returns an attribute's value as text, "" when it does not exist.
func textOf(attributes []*commonpb.KeyValue, key string) string {
	for _, a := range attributes {
		if a.Key != key {
			continue
		}
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			return v.StringValue
		case *commonpb.AnyValue_IntValue:
			return fmt.Sprint(v.IntValue)
		}
	}
	return ""
}

// TestTracesOfALetterAndItsRetry follows a dead letter whose headers contain a trace context through both programs. The
// ingester makes a trace of its own, and the retry belongs to the trace of the client's request; both have links to the
// dead letter's trace. The published record has the same trace headers as the dead letter.
func TestTracesOfALetterAndItsRetry(t *testing.T) {
	t.Parallel()
	c := newTraceCollector(t)
	l := newLetters(newSystem(t))
	letter := l.letter()
	letter.Headers = append(letter.Headers,
		kgo.RecordHeader{Key: "traceparent", Value: []byte(lettersParent)},
		kgo.RecordHeader{Key: "tracestate", Value: []byte(lettersState)})
	l.kafka.produce(letter)
	l.produce(1, nil) // another dead letter, whose headers contain no trace

	ingester := l.startReady("ingester", "DLQ_TRACING_ENDPOINT="+c.url)
	l.waitStored()
	stored := c.await(t, "the batch of the letter", func(s span) bool {
		return s.service == "dlq-manager-ingester" && s.Kind == tracepb.Span_SPAN_KIND_CONSUMER && s.linkedTo(lettersTrace)
	})
	if stored.in(lettersTrace) || len(stored.ParentSpanId) != 0 || stored.text("messaging.system") != "kafka" || stored.Name != "process "+l.source {
		t.Errorf("got the batch %v, want a trace of its own", stored)
	}
	c.await(t, "its statement", func(s span) bool {
		return s.under(stored) && s.Kind == tracepb.Span_SPAN_KIND_CLIENT && s.text("db.system.name") == "postgresql"
	})
	ingester.stop()

	api := l.startReady("api", "DLQ_TRACING_ENDPOINT="+c.url)
	id := l.traced(api)
	status, answer := api.try(http.MethodPost, "/api/v1/dlq/messages/"+id+"/retry", nil, "Traceparent", "00-"+clientsTrace+"-"+clientsSpan+"-01")
	check.Require(t, status == http.StatusOK, "retry = %d %s", status, answer)
	request := c.await(t, "the request", func(s span) bool {
		return s.in(clientsTrace) && s.Kind == tracepb.Span_SPAN_KIND_SERVER && s.Name == "POST /api/v1/dlq/messages/{id}/retry"
	})
	if hex.EncodeToString(request.ParentSpanId) != clientsSpan || request.text("http.response.status_code") != "200" {
		t.Errorf("got the request %v, want it under the client's span", request)
	}
	c.await(t, "a statement of the request", func(s span) bool {
		return s.in(clientsTrace) && s.text("db.system.name") == "postgresql"
	})
	sent := c.await(t, "the record that was sent", func(s span) bool {
		return s.in(clientsTrace) && s.Kind == tracepb.Span_SPAN_KIND_CLIENT && s.Name == "send "+l.target
	})
	if !sent.linkedTo(lettersTrace) || sent.text("messaging.destination.name") != l.target {
		t.Errorf("got %v, want its publish span, linked to the trace of the dead letter", sent)
	}
	if arrived := l.kafka.readAll(l.target); len(arrived) != 1 || header(arrived[0], "traceparent") != lettersParent || header(arrived[0], "tracestate") != lettersState {
		t.Errorf("got %d records in the original topic, want the one unchanged, with its trace", len(arrived))
	}
	wantLogged(t, api, request)
	wantExemplar(t, api, clientsTrace)

	shown, err := http.Get(api.url + "/messages/" + id)
	check.NoError(t, err)
	if shown.Body.Close(); shown.StatusCode != http.StatusOK {
		t.Fatalf("the page = %d", shown.StatusCode)
	}
	page := c.await(t, "the page", func(s span) bool { return s.Name == "GET /messages/{id}" })
	c.await(t, "what the page asked for", func(s span) bool { return s.under(page) && s.Name == "GET /api/v1/dlq/messages/{id}" })
	api.stop()
	wantNoNoise(t, c)
}

// traced returns the id of the message whose dead letter contains a trace context.
func (l *letters) traced(api *process) string {
	l.t.Helper()
	var ids []string
	check.NoError(l.t, l.db.Select(&ids, `SELECT id FROM dlq.dlq_messages ORDER BY id`))
	for _, id := range ids {
		if strings.Contains(string(api.call(http.MethodGet, "/api/v1/dlq/messages/"+id, http.StatusOK, nil)), lettersTrace) {
			return id
		}
	}
	l.t.Fatalf("none of %d messages shows its traceparent", len(ids))
	return ""
}

// wantLogged checks that the program's log contains a line about the request with its trace id, its span id and its
// request id.
func wantLogged(t *testing.T, p *process, request span) {
	t.Helper()
	log, err := os.ReadFile(p.log)
	check.NoError(t, err)
	for line := range strings.Lines(string(log)) {
		var l struct {
			Msg       string
			TraceID   string `json:"trace_id"`
			SpanID    string `json:"span_id"`
			RequestID string `json:"request_id"`
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "request" && l.TraceID == clientsTrace {
			if l.SpanID != hex.EncodeToString(request.SpanId) || l.RequestID == "" || l.RequestID != request.text("dlq.request_id") {
				t.Errorf("got the line %s, want the ids of the span %v", line, request)
			}
			return
		}
	}
	t.Errorf("no line of the log has the trace %s", clientsTrace)
}

// wantExemplar checks that the metric of request durations has an exemplar with the id of this trace.
func wantExemplar(t *testing.T, p *process, trace string) {
	t.Helper()
	_, text := p.try(http.MethodGet, "/metrics", nil, "Accept", "application/openmetrics-text;version=1.0.0")
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "dlq_http_request_duration_seconds_bucket") && strings.Contains(line, `# {trace_id="`+trace+`"}`) {
			return
		}
	}
	t.Errorf("no bucket has the exemplar %s", trace)
}

// wantNoNoise checks that the programs make no spans for probes, and none for requests to servers that belong to no
// other span.
func wantNoNoise(t *testing.T, c *traceCollector) {
	t.Helper()
	for _, s := range c.all(func(s span) bool {
		root := len(s.ParentSpanId) == 0
		return root && s.Kind == tracepb.Span_SPAN_KIND_CLIENT || strings.Contains(s.Name, "/readyz") || strings.Contains(s.Name, "/metrics")
	}) {
		t.Errorf("got the span %q of %s, want none", s.Name, s.service)
	}
}

// TestFaultCollectorHangs: with a collector that accepts connections and stays silent, or that does not exist, programs
// work as they do without a collector, log the failure at most once a minute, and exit in time. The API counts spans as
// dropped or failed, and none as exported.
func TestFaultCollectorHangs(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	_ = gone.Close()
	for name, c := range map[string]struct {
		at     net.Addr
		result string // value of the label result, in the metric that counts the spans of a program
	}{
		"Hangs":   {silent.Addr(), "dropped"},
		"Refuses": {gone.Addr(), "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLetters(newSystem(t))
			environ := []string{"DLQ_TRACING_ENDPOINT=http://" + c.at.String(), "DLQ_TRACING_QUEUE=20"}
			l.produce(100, nil)
			began := time.Now()
			ingester, api := l.startReady("ingester", environ...), l.startReady("api", environ...)
			l.waitStored()
			for range 100 {
				api.call(http.MethodGet, "/api/v1/dlq/"+l.source, http.StatusOK, nil)
			}
			api.call(http.MethodPost, "/api/v1/dlq/"+l.source+"/retry-all", http.StatusOK, nil)
			l.wantResolvedOnce()
			eventually(t, "spans are "+c.result, func() bool { return spansOf(api, c.result) > 0 })
			if n := spansOf(api, "exported"); n != 0 {
				t.Errorf("%g spans were exported, want none", n)
			}
			api.stop()
			ingester.stop()
			for _, p := range []*process{api, ingester} {
				log, err := os.ReadFile(p.log)
				check.NoError(t, err)
				lines := strings.Count(string(log), "traces are not taken by the collector")
				if most := 1 + int(time.Since(began)/time.Minute); lines > most {
					t.Errorf("%s logs %d times that traces are not accepted, want at most %d", p.name, lines, most)
				}
				if strings.Contains(string(log), "still working") {
					t.Errorf("%s did not stop by itself", p.name)
				}
			}
		})
	}
}

// spansOf returns the number of the program's spans with this result, according to the metric.
func spansOf(p *process, result string) (n float64) {
	p.t.Helper()
	_, text := p.try(http.MethodGet, "/metrics", nil)
	for line := range strings.Lines(string(text)) {
		if _, err := fmt.Sscanf(line, `dlq_trace_spans_total{result="`+result+`"} %g`, &n); err == nil {
			return n
		}
	}
	p.t.Fatalf("%s has no dlq_trace_spans_total of %s", p.name, result)
	return 0
}
