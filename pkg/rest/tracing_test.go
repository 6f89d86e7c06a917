package rest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// traced records the spans of a server; change its options before open.
func traced(f *fixture, options ...sdktrace.TracerProviderOption) *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	p := sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(spans))...)
	f.options = append(f.options, WithTracing(p))
	return spans
}

func attributesOf(s sdktrace.ReadOnlySpan) map[string]any {
	all := map[string]any{}
	for _, a := range s.Attributes() {
		all[string(a.Key)] = a.Value.AsInterface()
	}
	return all
}

func TestTracing_SpanOfARequest(t *testing.T) {
	t.Parallel()
	f := newFixture(message(idA))
	spans := traced(f)
	path := "/api/v1/dlq/messages/" + idA.String()
	if w := f.open().do("GET", path, "", "Traceparent", traceparent, "Tracestate", "a=1"); w.Code != http.StatusOK {
		t.Fatalf("answer = %d %s", w.Code, w.Body)
	}
	ended := spans.Ended()
	if len(ended) != 1 {
		t.Fatalf("got %d spans, want 1", len(ended))
	}
	s := ended[0]
	if s.Name() != "GET /api/v1/dlq/messages/{id}" || s.SpanKind() != trace.SpanKindServer {
		t.Errorf("got %s %q, want a server's GET of the route", s.SpanKind(), s.Name())
	}
	if p := s.Parent(); p.TraceID().String() != clientTrace || !p.IsRemote() || p.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("parent = %+v, want the client's span", p)
	}
	if got := s.SpanContext().TraceState().String(); got != "" {
		t.Errorf("tracestate = %q, want nothing that a client may write into it", got)
	}
	want := map[string]any{
		"http.request.method": "GET", "http.route": "/api/v1/dlq/messages/{id}", "url.path": path, "url.scheme": "http",
		"dlq.request_id": testID, "http.response.status_code": int64(200),
	}
	got := attributesOf(s)
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s = %v, want %v", key, got[key], value)
		}
	}
	if len(got) != len(want) || s.Status().Code != codes.Unset {
		t.Errorf("attributes = %v, status = %v, want nothing else", got, s.Status())
	}
}

func TestTracing_WhatHasNoSpan(t *testing.T) {
	t.Parallel()
	f := newFixture()
	spans := traced(f)
	f.undescribed = true
	f.starting()
	f.server.Mount(http.MethodGet, "/static/{version}/{file}", http.NotFoundHandler())
	f.server.SetReady()
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.yaml", "/docs", "/static/1/a.css", "/nowhere", "/api/v1/nowhere"} {
		f.do("GET", path, "")
	}
	for _, s := range spans.Ended() {
		t.Errorf("got a span %q, want none", s.Name())
	}
}

// A malformed or doubled traceparent begins a new trace.
func TestTracing_BadParents(t *testing.T) {
	t.Parallel()
	f := newFixture()
	spans := traced(f)
	f.open()
	f.do("GET", "/api/v1/topics", "", "Traceparent", traceparent[:54])
	r := httptest.NewRequest(http.MethodGet, "/api/v1/topics", http.NoBody)
	r.Header["Traceparent"] = []string{traceparent, traceparent}
	f.send(r)
	ended := spans.Ended()
	if len(ended) != 2 || ended[0].Parent().IsValid() || ended[1].Parent().IsValid() {
		t.Errorf("got %d spans, want two of which none has a parent", len(ended))
	}
}

// The sender's decision holds, whatever the share of own traces.
func TestTracing_Sampling(t *testing.T) {
	t.Parallel()
	f := newFixture()
	spans := traced(f, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0))))
	f.open()
	f.do("GET", "/api/v1/topics", "")
	f.do("GET", "/api/v1/topics", "", "Traceparent", traceparent[:53]+"00")
	f.do("GET", "/api/v1/topics", "", "Traceparent", traceparent)
	if ended := spans.Ended(); len(ended) != 1 || ended[0].SpanContext().TraceID().String() != clientTrace {
		t.Errorf("got %d spans, want that of the recorded trace alone", len(ended))
	}
}

// What the server did wrong is an error, what the client did is none; the log and
// the span find each other.
func TestTracing_Errors(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zapcore.DebugLevel)
	f := newFixture()
	f.logger, f.store = zap.New(core), mutteringStore{Store: f.store}
	spans := traced(f)
	f.open()
	f.do("GET", "/api/v1/dlq/messages/"+idA.String(), "")
	f.do("GET", "/api/v1/dlq/messages/x", "")
	ended := spans.Ended()
	if len(ended) != 2 {
		t.Fatalf("got %d spans, want 2", len(ended))
	}
	if s := ended[0]; s.Status() != (sdktrace.Status{Code: codes.Error}) || attributesOf(s)["error.type"] != "500" || len(s.Events()) != 0 {
		t.Errorf("500: status = %+v, attributes %v, want an error that says no more than 500", s.Status(), attributesOf(s))
	}
	if s := ended[1]; s.Status().Code != codes.Unset || attributesOf(s)["http.response.status_code"] != int64(400) {
		t.Errorf("400: status = %+v, attributes %v, want no error", s.Status(), attributesOf(s))
	}
	at := ended[0].SpanContext()
	for _, line := range []string{"request failed", "request"} {
		found := logs.FilterMessage(line).FilterField(zap.Stringer("trace_id", at.TraceID())).FilterField(zap.Stringer("span_id", at.SpanID())).
			FilterField(zap.String("request_id", testID))
		if found.Len() != 1 {
			t.Errorf("got %d lines %q with the ids, want 1", found.Len(), line)
		}
	}
}

// Without spans the log has the trace that a request came with, as the audit trail has.
func TestTracing_LogWithoutSpans(t *testing.T) {
	t.Parallel()
	for parent, want := range map[string]bool{traceparent: true, traceparent[:54]: false, "": false} {
		core, logs := observer.New(zapcore.DebugLevel)
		f := newFixture()
		f.logger, f.undescribed = zap.New(core), true
		f.open().do("GET", "/api/v1/topics", "", "Traceparent", parent)
		line := logs.FilterMessage("request")
		if line.Len() != 1 {
			t.Fatalf("got %d lines, want one", line.Len())
		}
		fields := line.All()[0].ContextMap()
		if got := fields["trace_id"] == clientTrace; got != want {
			t.Errorf("traceparent %q: got %v, want the client's trace: %t", parent, fields, want)
		}
		if _, has := fields["span_id"]; has {
			t.Error("got a span_id, want none: there is no span")
		}
	}
}

type mutteringStore struct{ Store }

func (mutteringStore) Get(context.Context, uuid.UUID, int64) (entity.Message, error) {
	return entity.Message{}, errors.New("secret-of-the-store")
}

// An answer that is cut in the middle is an error, though its head said 200.
func TestTracing_AbortedAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.undescribed = true
	spans := traced(f)
	f.starting()
	f.server.Mount(http.MethodGet, "/cut", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		panic(http.ErrAbortHandler)
	}))
	func() {
		defer func() { _ = recover() }()
		f.do("GET", "/cut", "")
	}()
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Status().Code != codes.Error || attributesOf(ended[0])["error.type"] != "aborted" {
		t.Errorf("got %d spans, want one that says aborted", len(ended))
	}
}

// What a page asks the API within the process is a part of the page's span, also when
// it passes on the header that the page came with.
func TestTracing_RequestsWithin(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.undescribed = true
	spans := traced(f)
	f.starting()
	f.server.Mount(http.MethodGet, "/page/{id}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := httptest.NewRequest(http.MethodGet, "/api/v1/topics", http.NoBody).WithContext(r.Context())
		inner.Header.Set("Traceparent", r.Header.Get("Traceparent"))
		f.server.Handler().ServeHTTP(httptest.NewRecorder(), inner)
		w.WriteHeader(http.StatusOK)
	}))
	f.server.SetReady()
	f.do("GET", "/page/1", "", "Traceparent", traceparent)
	ended := spans.Ended()
	if len(ended) != 2 {
		t.Fatalf("got %d spans, want those of the page and of its request", len(ended))
	}
	inner, page := ended[0], ended[1]
	if page.Name() != "GET /page/{id}" || inner.Name() != "GET /api/v1/topics" || inner.SpanKind() != trace.SpanKindInternal ||
		inner.Parent().SpanID() != page.SpanContext().SpanID() || page.Parent().TraceID().String() != clientTrace {
		t.Errorf("got %q in %q, want the request within the page", inner.Name(), page.Name())
	}
}

// The audit trail names the trace that began here, but none that nobody recorded.
func TestTracing_AuditTrail(t *testing.T) {
	t.Parallel()
	for _, ratio := range []float64{0, 1} {
		f := newFixture(message(idA))
		spans := traced(f, sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))))
		if w := f.open().do("POST", "/api/v1/dlq/messages/"+idA.String()+"/dead", "{}"); w.Code != http.StatusOK {
			t.Fatalf("answer = %d %s", w.Code, w.Body)
		}
		want := ""
		for _, s := range spans.Ended() {
			want = s.SpanContext().TraceID().String()
		}
		entries, err := f.memory.Trail(t.Context(), repository.TrailQuery{Action: entity.ActionDead, Limit: 1})
		if err != nil || len(entries) != 1 || entries[0].Cause.TraceID != want || (want == "") != (ratio == 0) {
			t.Errorf("ratio %g: trail = %+v, %v, want the trace %q", ratio, entries, err, want)
		}
	}
}

// A recorded request is the exemplar of its duration, for those who ask for a format
// that has exemplars.
func TestTracing_Exemplars(t *testing.T) {
	t.Parallel()
	f := newFixture()
	f.undescribed = true
	spans := traced(f)
	f.open()
	f.do("GET", "/api/v1/topics", "")
	f.do("GET", "/api/v1/groups", "", "Traceparent", traceparent[:53]+"00")
	exemplar := `# {trace_id="` + spans.Ended()[0].SpanContext().TraceID().String() + `"}`
	w := f.do("GET", "/metrics", "", "Accept", "application/openmetrics-text;version=1.0.0")
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(w.Body.String(), "# EOF\n") {
		t.Errorf("got %s, want OpenMetrics", w.Header().Get("Content-Type"))
	}
	for line := range strings.Lines(w.Body.String()) {
		if has := strings.Contains(line, "trace_id="); has && !(strings.Contains(line, exemplar) && strings.Contains(line, "/topics")) {
			t.Errorf("got the exemplar %s want only %s", line, exemplar)
		}
	}
	if !strings.Contains(w.Body.String(), exemplar) {
		t.Errorf("got no %s", exemplar)
	}
	if w = f.do("GET", "/metrics", ""); strings.Contains(w.Body.String(), "trace_id") || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("plain text: got %s, want no exemplars", w.Header().Get("Content-Type"))
	}
}

// A server without a tracer makes no context, no span and no attribute.
func TestTracing_OffCostsNothing(t *testing.T) { //nolint:paralleltest // others' allocations would be counted
	r := requestWith()
	off := newFixture().open().server
	if n := testing.AllocsPerRun(100, func() {
		if off.traced(r) != r {
			t.Error("got another request, want the same")
		}
		exchangeOf(r).endSpan()
	}); n != 0 {
		t.Errorf("got %g allocations, want none", n)
	}
}
