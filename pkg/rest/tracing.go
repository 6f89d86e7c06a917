package rest

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// staticPath is the prefix of the paths of static files.
const staticPath = "/static/"

// WithTracing creates a span for every request to a route, except probes, documents and static files. It continues
// the request's trace. A nil provider creates no spans.
func WithTracing(p trace.TracerProvider) Option {
	return func(s *Server) { s.tracer = traces.Of(p, "github.com/dlq-manager/dlq-manager/pkg/rest") }
}

// traced starts the span of a request whose route is known; observe ends it. An inner request of a console page is a
// child of the page's span.
func (s *Server) traced(r *http.Request) *http.Request {
	if s.tracer == nil {
		return r
	}
	x, ctx, kind := exchangeOf(r), r.Context(), trace.SpanKindInternal
	if !trace.SpanContextFromContext(ctx).IsValid() {
		kind = trace.SpanKindServer
		if from := parentOf(r.Header); from.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, from)
		}
	}
	ctx, x.span = s.tracer.Start(ctx, r.Method+" "+x.route, trace.WithSpanKind(kind)) //nolint:spancheck // observe ends it
	if x.span.IsRecording() {
		// Without the query, because users may search for secrets.
		x.span.SetAttributes(
			attribute.String("http.request.method", r.Method),
			attribute.String("http.route", x.route),
			attribute.String("url.path", r.URL.EscapedPath()),
			attribute.String("url.scheme", scheme(r)),
			attribute.String("dlq.request_id", x.id))
	}
	return r.WithContext(ctx) //nolint:spancheck // observe ends it
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}

// parentOf returns the trace context that a request carries; none when it has two. The tracestate is left out.
func parentOf(header http.Header) trace.SpanContext {
	values := header.Values("Traceparent")
	if len(values) != 1 {
		return trace.SpanContext{}
	}
	return traces.Parse(values[0])
}

// traceID returns the id of the trace that the request carries, else of the one that starts here if it is recorded;
// "" for none.
func traceID(r *http.Request) string {
	if from := parentOf(r.Header); from.IsValid() {
		return from.TraceID().String()
	}
	if at := exchangeOf(r).spanContext(); at.IsSampled() {
		return at.TraceID().String()
	}
	return ""
}

// spanContext returns an invalid context when the exchange has no span.
func (x *exchange) spanContext() trace.SpanContext {
	if x.span == nil {
		return trace.SpanContext{}
	}
	return x.span.SpanContext()
}

// endSpan sets the status and ends the span. An error of the client does not make the span an error.
func (x *exchange) endSpan() {
	if x.span == nil {
		return
	}
	if x.status != 0 {
		x.span.SetAttributes(attribute.Int("http.response.status_code", x.status))
	}
	if x.broken || x.status >= http.StatusInternalServerError {
		kind := strconv.Itoa(x.status)
		if x.broken {
			kind = "aborted"
		}
		x.span.SetStatus(codes.Error, "")
		x.span.SetAttributes(traces.ErrorType.String(kind))
	}
	x.span.End()
}

// ids returns the ids for a log line about the exchange, followed by the line's own fields. Without spans they are
// those of the request's trace.
func (x *exchange) ids(more ...zap.Field) []zap.Field {
	fields := append(make([]zap.Field, 0, len(more)+3), zap.String("request_id", x.id))
	if at := x.spanContext(); at.IsValid() {
		fields = append(fields, zap.Stringer("trace_id", at.TraceID()), zap.Stringer("span_id", at.SpanID()))
	} else if from := parentOf(x.asked); from.IsValid() {
		fields = append(fields, zap.Stringer("trace_id", from.TraceID()))
	}
	return append(fields, more...)
}
