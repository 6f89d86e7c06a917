package rest

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// exchange is the state of one request and its answer, for the log and the metrics. Only one goroutine at a time
// changes it: the request's own, or the handler's while the handler answers.
type exchange struct {
	http.ResponseWriter
	info    request.Info
	route   string // the template that matched, or unmatched
	status  int    // 0 until the answer began
	bytes   int64
	pace    *pace           // of the connection; an inner call uses the outer exchange's
	inner   bool            // an inner call: the outer exchange writes to the connection
	slow    bool            // the client read the answer too slowly
	address netip.Addr      // of the client; the zero Addr when it has none
	client  context.Context // ends when the client leaves
	span    trace.Span      // nil: not traced
	asked   http.Header     // of the request
	broken  bool            // the connection is cut, because the answer is incomplete
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange {
	return r.Context().Value(exchangeKey{}).(*exchange) //nolint:forcetypeassert // observe put it there
}

// WriteHeader records the status and starts the time in which the client must read the answer. Interim answers (1xx)
// pass unchanged.
func (x *exchange) WriteHeader(status int) {
	if status >= http.StatusOK && x.status == 0 {
		x.status = status
		if !x.inner {
			x.pace.begin()
		}
	}
	x.ResponseWriter.WriteHeader(status)
}

func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	write := x.ResponseWriter.Write
	if !x.inner {
		write = func(b []byte) (int, error) { return x.pace.write(x.ResponseWriter, b) }
	}
	n, err := write(b)
	x.bytes += int64(n)
	x.slow = x.slow || !x.inner && errors.Is(err, os.ErrDeadlineExceeded)
	return n, err
}

func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

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
func traceID(header http.Header, at trace.SpanContext) string {
	if from := parentOf(header); from.IsValid() {
		return from.TraceID().String()
	}
	if at.IsSampled() {
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
	fields := append(make([]zap.Field, 0, len(more)+3), zap.String("request_id", x.info.ID))
	if at := x.spanContext(); at.IsValid() {
		fields = append(fields, zap.Stringer("trace_id", at.TraceID()), zap.Stringer("span_id", at.SpanID()))
	} else if from := parentOf(x.asked); from.IsValid() {
		fields = append(fields, zap.Stringer("trace_id", from.TraceID()))
	}
	return append(fields, more...)
}
