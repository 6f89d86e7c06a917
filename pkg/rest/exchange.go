package rest

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/rest/internal/request"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// exchange is the state of one request and its answer, for the log and the metrics. Only one goroutine changes it at a
// time: that of the request or, while the handler answers, that of the handler.
type exchange struct {
	http.ResponseWriter
	info    request.Info
	route   string // the path template of the matching route, or the text "unmatched"
	status  int    // status of the answer; 0 until the answer begins
	bytes   int64
	pace    *pace           // limits how slowly the client may read; a console page and its API calls share one pace
	inner   bool            // true for an API call that a console page makes within the process; only the page's exchange writes to the connection
	slow    bool            // the client read the answer too slowly
	address netip.Addr      // address of the client; the zero Addr when the client has none
	client  context.Context // ends when the client disconnects
	span    trace.Span      // nil: the request is not traced
	asked   http.Header     // headers of the request
	broken  bool            // the server cuts the connection, because the answer is incomplete

	// changing, if it is set, adds a mark to the headers of an answer to a change. It is called before the answer
	// begins, if mayHaveChanged accepts the status.
	changing func(http.Header)
}

type exchangeKey struct{}

func exchangeOf(r *http.Request) *exchange {
	return r.Context().Value(exchangeKey{}).(*exchange) //nolint:forcetypeassert // observe has put the exchange there
}

// WriteHeader records the status and starts the time in which the client must read the answer. Interim answers (1xx)
// pass unchanged.
func (x *exchange) WriteHeader(status int) {
	if status >= http.StatusOK && x.status == 0 {
		x.status = status
		if x.changing != nil && mayHaveChanged(status) {
			x.changing(x.Header())
		}
		if !x.inner {
			x.pace.begin()
		}
	}
	x.ResponseWriter.WriteHeader(status)
}

// mayHaveChanged reports whether the answer to a change needs a mark, because a change with this status may have taken
// effect. After a 503 the change may have taken effect as well, but the database, which makes the mark, does not
// answer.
func mayHaveChanged(status int) bool {
	return status < http.StatusBadRequest || status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable
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

// parentOf returns the trace context that a request carries; the zero context when it carries none, several or a bad
// one. The tracestate is left out.
func parentOf(header http.Header) trace.SpanContext {
	values := header.Values("Traceparent")
	if len(values) != 1 {
		return trace.SpanContext{}
	}
	return traces.Parse(values[0])
}

// traceID returns the id of the trace that the request carries. If it carries none, traceID returns the id of the trace
// that starts with this request, or "" if that trace is not recorded.
func traceID(header http.Header, at trace.SpanContext) string {
	if from := parentOf(header); from.IsValid() {
		return from.TraceID().String()
	}
	if at.IsSampled() {
		return at.TraceID().String()
	}
	return ""
}

// spanContext returns the trace id and span id of the exchange's span. When the exchange has no span, the result is not
// valid.
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

// ids returns the fields of a log line about the exchange: the request id, the trace id and span id, and then the given
// fields. Without a span, it takes the trace id that the request carries.
func (x *exchange) ids(more ...zap.Field) []zap.Field {
	fields := append(make([]zap.Field, 0, len(more)+3), zap.String("request_id", x.info.ID))
	if at := x.spanContext(); at.IsValid() {
		fields = append(fields, zap.Stringer("trace_id", at.TraceID()), zap.Stringer("span_id", at.SpanID()))
	} else if from := parentOf(x.asked); from.IsValid() {
		fields = append(fields, zap.Stringer("trace_id", from.TraceID()))
	}
	return append(fields, more...)
}

// staticPath is the prefix of the paths of static files.
const staticPath = "/static/"

// tracer starts the spans of requests.
type tracer struct{ trace.Tracer } // nil: no spans

// traced starts the span of a request whose route is known; observe ends it. When a console page calls the API within
// the process, the span of the call is a child of the page's span.
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
		// The span does not contain the query of the URL, because users may search for secrets.
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

const (
	// writeGrace is by how much time a client may fall behind the minimum rate.
	writeGrace = 10 * time.Second

	// writeStep is the maximum number of bytes that are written at a time, each time with a new deadline.
	writeStep = 32 << 10
)

// pace disconnects clients that read an answer too slowly, by write deadlines that move on as bytes are sent. Only the
// time that the server waits for the client counts. It belongs to one request and is not safe for concurrent use.
type pace struct {
	control *http.ResponseController // sets the deadlines; without effect in tests, which have no connection
	rate    int64                    // minimum rate, in bytes a second
	whole   time.Duration            // time in which the client must read the whole answer, unless endAt sets another limit
	until   time.Time                // end of the client's time for the answer; zero: the answer has not started, or endAt has cleared it
	late    time.Duration            // by how much the client is behind the minimum rate
}

func newPace(w http.ResponseWriter, rate int64, whole time.Duration) *pace {
	p := &pace{control: http.NewResponseController(w), rate: rate, whole: whole}
	_ = p.control.SetWriteDeadline(time.Time{}) // removes the deadline that the previous answer on this connection left
	return p
}

// begin starts the time in which the client must read the answer.
func (p *pace) begin() {
	if p.until.IsZero() {
		p.until = time.Now().Add(p.whole)
	}
	p.allow(writeStep)
}

// endAt sets the deadline of the whole answer; the zero time clears it.
func (p *pace) endAt(at time.Time) { p.until = at }

// allow sets the write deadline for n more bytes, by the minimum rate and the grace that the client has left. It
// returns the time that n bytes take at the minimum rate.
func (p *pace) allow(n int) time.Duration {
	cost := time.Duration(n) * time.Second / time.Duration(p.rate)
	at := time.Now().Add(writeGrace - p.late + cost)
	if !p.until.IsZero() && p.until.Before(at) {
		at = p.until
	}
	_ = p.control.SetWriteDeadline(at)
	return cost
}

func (p *pace) write(w http.ResponseWriter, b []byte) (written int, err error) {
	for {
		part := b[written:min(written+writeStep, len(b))]
		cost, began := p.allow(len(part)), time.Now()
		n, err := w.Write(part)
		p.late = max(0, p.late+time.Since(began)-cost)
		if written += n; err != nil || written == len(b) {
			return written, err
		}
	}
}
