package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"runtime"
	"strings"
	"unicode"

	"github.com/lib/pq"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// OpenOption changes what Open returns.
type OpenOption func(*connector)

// WithTracing makes a span of every statement that is sent for the sake of a span
// which is recorded, and of connections that are opened for one. There are none of
// their own: what polls the database while nothing happens leaves no trace. Spans
// say which method of the Store asked and how it went, and end when the first row is
// there. Neither SQL nor what the server says of an error is on them, for both may
// quote from dead letters.
func WithTracing(provider trace.TracerProvider) OpenOption {
	return func(c *connector) {
		if tracer := traces.Of(provider, "github.com/dlq-manager/dlq-manager/pkg/repository/postgres"); tracer != nil {
			c.traces = &statementTraces{tracer: tracer, database: c.cfg.Name}
		}
	}
}

// statementTraces makes the spans; nil makes none. They are made here rather than
// around the connector because a session knows whether an error ends it, and because
// whatever stands between database/sql and a connection has to pass on all that
// either asks of the other.
type statementTraces struct {
	tracer   trace.Tracer
	database string
}

// statementSpan is the span of one statement; zero is that of none.
type statementSpan struct{ span trace.Span }

// Attributes of the conventions for databases.
const (
	dbSystem    = attribute.Key("db.system.name")
	dbNamespace = attribute.Key("db.namespace")
	dbOperation = attribute.Key("db.operation.name")
	dbStatus    = attribute.Key("db.response.status_code")
)

// statement begins the span of a statement. The settings of a transaction have none:
// what they are for follows.
func (t *statementTraces) statement(ctx context.Context, query string) statementSpan {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() || strings.HasPrefix(query, "SET ") {
		return statementSpan{}
	}
	return t.begin(ctx, storeOperation())
}

// connect begins the span of a connection's opening.
func (t *statementTraces) connect(ctx context.Context) statementSpan {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return statementSpan{}
	}
	return t.begin(ctx, "connect")
}

func (t *statementTraces) begin(ctx context.Context, operation string) statementSpan {
	_, span := traces.Start(ctx, t.tracer, operation+" "+t.database, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		dbSystem.String("postgresql"), dbNamespace.String(t.database), dbOperation.String(operation)))
	return statementSpan{span}
}

// end ends the span with what came of the statement.
func (s statementSpan) end(err error) {
	if s.span == nil {
		return
	}
	if err != nil {
		s.span.SetStatus(codes.Error, "")
		s.span.SetAttributes(traces.ErrorType.String(errorType(err)))
		var answer *pq.Error
		if errors.As(err, &answer) {
			s.span.SetAttributes(dbStatus.String(string(answer.Code)))
		}
	}
	s.span.End()
}

// errorType is the SQLSTATE of what the server refused, else one of few words.
func errorType(err error) string {
	var answer *pq.Error
	switch {
	case errors.As(err, &answer):
		return string(answer.Code)
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, driver.ErrBadConn), transient(err):
		return "connection"
	}
	return "_OTHER"
}

// storeMethods is what the names of the Store's methods begin with in a stack.
const storeMethods = "github.com/dlq-manager/dlq-manager/pkg/repository/postgres.(*Store)."

// storeOperation names the statement that is being sent after the method of the Store
// that was called: LeaseBatch is "lease batch". The stack tells, so that the methods
// need not say on every call what is asked for only while a trace is recorded; it
// takes microseconds, as against the hundreds of a statement. A statement of nobody's
// is a "statement".
func storeOperation() string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		frame, more := frames.Next()
		if operation := operationOf(frame.Function); operation != "" {
			return operation
		}
		if !more {
			return "statement"
		}
	}
}

// operationOf is what the method of the Store is called that a function is, or is
// within; "" for every other function.
func operationOf(function string) string {
	name, ok := strings.CutPrefix(function, storeMethods)
	if !ok || !unicode.IsUpper(rune(name[0])) {
		return ""
	}
	if end := strings.IndexAny(name, ".-["); end > 0 { // of a function literal, a loop's body, a type
		name = name[:end]
	}
	return inWords(name)
}

// inWords takes apart a name in camel case.
func inWords(name string) string {
	var words strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			words.WriteByte(' ')
		}
		words.WriteRune(unicode.ToLower(r))
	}
	return words.String()
}
