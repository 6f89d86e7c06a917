package rest

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// staticPath is the prefix of the paths of static files.
const staticPath = "/static/"

// tracer starts the spans of requests.
type tracer struct{ trace.Tracer } // nil: no spans

// traced starts the span of a request whose route is known; observe ends it. An inner request of a console page is a
// child of the page's span.
func (t tracer) traced(r *http.Request) *http.Request {
	if t.Tracer == nil {
		return r
	}
	x, ctx, kind := exchangeOf(r), r.Context(), trace.SpanKindInternal
	if !trace.SpanContextFromContext(ctx).IsValid() {
		kind = trace.SpanKindServer
		if from := parentOf(r.Header); from.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, from)
		}
	}
	ctx, x.span = t.Start(ctx, r.Method+" "+x.route, trace.WithSpanKind(kind)) //nolint:spancheck // observe ends it
	x.info.TraceID = traceID(r.Header, x.spanContext())
	if x.span.IsRecording() {
		// Without the query, because users may search for secrets.
		x.span.SetAttributes(
			attribute.String("http.request.method", r.Method),
			attribute.String("http.route", x.route),
			attribute.String("url.path", r.URL.EscapedPath()),
			attribute.String("url.scheme", scheme(r)),
			attribute.String("dlq.request_id", x.info.ID))
	}
	return r.WithContext(ctx) //nolint:spancheck // observe ends it
}

func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	return "http"
}
