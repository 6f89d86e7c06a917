package rest

import (
	"context"
	"errors"
	"maps"
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

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
)

// traced records the spans of a server; call it before open.
func (f *fixture) traced(options ...sdktrace.TracerProviderOption) *tracetest.SpanRecorder {
	spans := tracetest.NewSpanRecorder()
	f.with(WithTracing(sdktrace.NewTracerProvider(append(options, sdktrace.WithSpanProcessor(spans))...)))
	return spans
}

// sampling records the given share of the traces that start in this server.
func sampling(share float64) sdktrace.TracerProviderOption {
	return sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share)))
}

// wantSpans checks how many spans have ended, and returns them.
func wantSpans(t *testing.T, spans *tracetest.SpanRecorder, n int) []sdktrace.ReadOnlySpan {
	t.Helper()
	ended := spans.Ended()
	if len(ended) != n {
		t.Fatalf("got %d spans, want %d", len(ended), n)
	}
	return ended
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
	spans := f.traced()
	wantStatus(t, f.open().do("GET", oneA, "", "Traceparent", traceparent, "Tracestate", "a=1"), http.StatusOK)
	s := wantSpans(t, spans, 1)[0]
	if s.Name() != "GET /api/v1/dlq/messages/{id}" || s.SpanKind() != trace.SpanKindServer || s.Status().Code != codes.Unset {
		t.Errorf("got %s %q, %v, want a server's GET of the route", s.SpanKind(), s.Name(), s.Status())
	}
	if p := s.Parent(); p.TraceID().String() != clientTrace || !p.IsRemote() || p.SpanID().String() != "b7ad6b7169203331" {
		t.Errorf("parent = %+v, want the client's span", p)
	}
	if got := s.SpanContext().TraceState().String(); got != "" {
		t.Errorf("tracestate = %q, want it without values that a client can set", got)
	}
	want := map[string]any{
		"http.request.method": "GET", "http.route": "/api/v1/dlq/messages/{id}", "url.path": oneA, "url.scheme": "http",
		"dlq.request_id": testID, "http.response.status_code": int64(200),
	}
	if got := attributesOf(s); !maps.Equal(got, want) {
		t.Errorf("attributes = %v, want %v", got, want)
	}
}

func TestTracing_WhatHasNoSpan(t *testing.T) {
	t.Parallel()
	f := newFixture().undocumented()
	spans := f.traced()
	f.open().server.Mount(http.MethodGet, "/static/{version}/{file}", http.NotFoundHandler())
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.yaml", "/docs", "/static/1/a.css", "/nowhere", "/api/v1/nowhere"} {
		f.do("GET", path, "")
	}
	wantSpans(t, spans, 0)
}

// A malformed or doubled traceparent begins a new trace.
func TestTracing_BadParents(t *testing.T) {
	t.Parallel()
	f := newFixture()
	spans := f.traced()
	f.open().do("GET", "/api/v1/topics", "", "Traceparent", traceparent[:54])
	r := httptest.NewRequest(http.MethodGet, "/api/v1/topics", http.NoBody)
	r.Header["Traceparent"] = []string{traceparent, traceparent}
	f.send(r)
	for _, s := range wantSpans(t, spans, 2) {
		if s.Parent().IsValid() {
			t.Errorf("got the parent %+v, want none", s.Parent())
		}
	}
}

// When a request carries a sampling decision, this decision applies. The share of traces that the server records
// concerns only traces that start in the server.
func TestTracing_Sampling(t *testing.T) {
	t.Parallel()
	f := newFixture()
	spans := f.traced(sampling(0))
	f.open().do("GET", "/api/v1/topics", "")
	f.do("GET", "/api/v1/topics", "", "Traceparent", traceparent[:53]+"00")
	f.do("GET", "/api/v1/topics", "", "Traceparent", traceparent)
	if got := wantSpans(t, spans, 1)[0].SpanContext().TraceID().String(); got != clientTrace {
		t.Errorf("got the trace %s, want the recorded one", got)
	}
}

// When the server is at fault, the span of the request is an error; when the client is at fault, it is not. The log
// line of the request has the same trace id and span id as the span.
func TestTracing_Errors(t *testing.T) {
	t.Parallel()
	f := newFixture()
	logs, spans, store := f.logs(zapcore.DebugLevel), f.traced(), hook(f.memory)
	store.get = func(context.Context, uuid.UUID, int64) (entity.Message, error) {
		return entity.Message{}, errors.New("secret-of-the-store")
	}
	f.over(store).open().do("GET", oneA, "")
	f.do("GET", "/api/v1/dlq/messages/x", "")
	ended := wantSpans(t, spans, 2)
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

// When the server creates no spans, the log contains the trace id that the request carries.
func TestTracing_LogWithoutSpans(t *testing.T) {
	t.Parallel()
	for parent, want := range map[string]bool{traceparent: true, traceparent[:54]: false, "": false} {
		f := newFixture().undocumented()
		logs := f.logs(zapcore.DebugLevel)
		f.open().do("GET", "/api/v1/topics", "", "Traceparent", parent)
		line := logs.FilterMessage("request")
		if line.Len() != 1 {
			t.Fatalf("got %d lines, want one", line.Len())
		}
		fields := line.All()[0].ContextMap()
		if _, span := fields["span_id"]; span || (fields["trace_id"] == clientTrace) != want {
			t.Errorf("traceparent %q: got %v, want the client's trace: %t, and no span", parent, fields, want)
		}
	}
}

// An answer that is cut in the middle is an error, although its status was 200.
func TestTracing_AbortedAnswer(t *testing.T) {
	t.Parallel()
	f := newFixture().undocumented()
	spans := f.traced()
	f.starting().server.Mount(http.MethodGet, "/cut", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusOK)
		panic(http.ErrAbortHandler)
	}))
	func() {
		defer func() { _ = recover() }()
		f.do("GET", "/cut", "")
	}()
	if s := wantSpans(t, spans, 1)[0]; s.Status().Code != codes.Error || attributesOf(s)["error.type"] != "aborted" {
		t.Errorf("got %+v, %v, want one that says aborted", s.Status(), attributesOf(s))
	}
}

// When a console page calls the API within the process, the span of the call is a child of the page's span. This holds
// even if the page passes on the traceparent header of its own request.
func TestTracing_RequestsWithin(t *testing.T) {
	t.Parallel()
	f := newFixture().undocumented()
	spans := f.traced()
	f.open().server.Mount(http.MethodGet, "/page/{id}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := httptest.NewRequest(http.MethodGet, "/api/v1/topics", http.NoBody).WithContext(r.Context())
		inner.Header.Set("Traceparent", r.Header.Get("Traceparent"))
		f.send(inner)
		w.WriteHeader(http.StatusOK)
	}))
	f.do("GET", "/page/1", "", "Traceparent", traceparent)
	ended := wantSpans(t, spans, 2)
	inner, page := ended[0], ended[1]
	if page.Name() != "GET /page/{id}" || inner.Name() != "GET /api/v1/topics" || inner.SpanKind() != trace.SpanKindInternal ||
		inner.Parent().SpanID() != page.SpanContext().SpanID() || page.Parent().TraceID().String() != clientTrace {
		t.Errorf("got %q in %q, want the request within the page", inner.Name(), page.Name())
	}
}

// An audit entry names the trace that started with its request, but only if this trace was recorded.
func TestTracing_AuditTrail(t *testing.T) {
	t.Parallel()
	for share := range 2 {
		f := newFixture(message(idA))
		spans := f.traced(sampling(float64(share)))
		wantStatus(t, f.open().do("POST", oneA+"/dead", "{}"), http.StatusOK)
		want := ""
		for _, s := range wantSpans(t, spans, share) {
			want = s.SpanContext().TraceID().String()
		}
		if entries := f.trail(t, repository.TrailQuery{Action: entity.ActionDead}); len(entries) != 1 || entries[0].Cause.TraceID != want {
			t.Errorf("share %d: trail = %+v, want the trace %q", share, entries, want)
		}
	}
}

// The metric of a recorded request's duration has the trace id as its exemplar, in the formats of metrics that support
// exemplars.
func TestTracing_Exemplars(t *testing.T) {
	t.Parallel()
	f := newFixture().undocumented()
	spans := f.traced()
	f.open().do("GET", "/api/v1/topics", "")
	f.do("GET", "/api/v1/groups", "", "Traceparent", traceparent[:53]+"00")
	exemplar := `# {trace_id="` + spans.Ended()[0].SpanContext().TraceID().String() + `"}`
	w := f.do("GET", "/metrics", "", "Accept", "application/openmetrics-text;version=1.0.0")
	text := wantStatus(t, w, 200, exemplar)
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("got %s, want OpenMetrics", w.Header().Get("Content-Type"))
	}
	for line := range strings.Lines(text) {
		if has := strings.Contains(line, "trace_id="); has && !(strings.Contains(line, exemplar) && strings.Contains(line, "/topics")) {
			t.Errorf("got the exemplar %s want only %s", line, exemplar)
		}
	}
	w = f.do("GET", "/metrics", "")
	wantWithout(t, w, "trace_id")
	if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
		t.Errorf("got %s, want plain text", w.Header().Get("Content-Type"))
	}
}

// A server without a tracer allocates nothing for the span of a request.
func TestTracing_OffCostsNothing(t *testing.T) { //nolint:paralleltest // other tests allocate too
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r = r.WithContext(context.WithValue(r.Context(), exchangeKey{}, &exchange{}))
	off := newFixture().open().server.tracer
	if n := testing.AllocsPerRun(100, func() {
		if off.traced(r) != r {
			t.Error("got another request, want the same")
		}
		exchangeOf(r).endSpan()
	}); n != 0 {
		t.Errorf("got %g allocations, want none", n)
	}
}
