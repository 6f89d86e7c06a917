package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"runtime"
	"strings"
	"unicode"

	"github.com/XSAM/otelsql"
	"github.com/lib/pq"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// OpenOption changes what Open returns.
type OpenOption func(*connector)

// WithTracing creates a span for every statement, and for every new connection, within a recorded span. Spans have
// the Store's method and the result, and end with the first row. They contain neither SQL nor arguments, as both may
// quote from dead letters; error texts are in events, which the provider must not keep.
func WithTracing(provider trace.TracerProvider) OpenOption {
	return func(c *connector) {
		if traces.Of(provider, "") != nil {
			c.traces = provider
		}
	}
}

// Attributes of the semantic conventions for databases.
const (
	dbSystem    = attribute.Key("db.system.name")
	dbNamespace = attribute.Key("db.namespace")
	dbOperation = attribute.Key("db.operation.name")
	dbStatus    = attribute.Key("db.response.status_code")
)

// open returns a pool of the connector's connections.
func (c *connector) open() *sql.DB {
	if c.traces == nil {
		return sql.OpenDB(c)
	}
	return otelsql.OpenDB(c,
		otelsql.WithTracerProvider(c.traces),
		otelsql.WithAttributes(dbSystem.String("postgresql"), dbNamespace.String(c.cfg.Name)),
		otelsql.WithSpanNameFormatter(func(_ context.Context, method otelsql.Method, _ string) string {
			return operationFor(method) + " " + c.cfg.Name
		}),
		otelsql.WithAttributesGetter(func(_ context.Context, method otelsql.Method, _ string, _ []driver.NamedValue) []attribute.KeyValue {
			return []attribute.KeyValue{dbOperation.String(operationFor(method))}
		}),
		otelsql.WithSpanErrorAttributesGetter(errorAttributes),
		otelsql.WithSpanOptions(otelsql.SpanOptions{DisableQuery: true, OmitRows: true, SpanFilter: hasSpan}))
}

// hasSpan excludes calls that are not statements, and the settings of a transaction.
func hasSpan(ctx context.Context, method otelsql.Method, query string, _ []driver.NamedValue) bool {
	switch method {
	case otelsql.MethodConnQuery, otelsql.MethodConnExec, otelsql.MethodStmtQuery, otelsql.MethodStmtExec, otelsql.MethodConnectorConnect:
		return trace.SpanFromContext(ctx).IsRecording() && !strings.HasPrefix(query, "SET ")
	default:
		return false
	}
}

// errorAttributes returns the error's type, which is the SQLSTATE if the server refused the statement.
func errorAttributes(err error) []attribute.KeyValue {
	attributes := []attribute.KeyValue{traces.ErrorType.String(errorType(err))}
	var answer *pq.Error
	if errors.As(err, &answer) {
		attributes = append(attributes, dbStatus.String(string(answer.Code)))
	}
	return attributes
}

// errorType returns the SQLSTATE of a server error, else one of a few words.
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

func operationFor(method otelsql.Method) string {
	if method == otelsql.MethodConnectorConnect {
		return "connect"
	}
	return storeOperation()
}

// storeMethods is the prefix of the Store's methods in a stack.
const storeMethods = "github.com/dlq-manager/dlq-manager/pkg/repository/postgres.(*Store)."

// storeOperation names a statement after the method of the Store that sends it: LeaseBatch is "lease batch";
// "statement" without one. It reads the stack, which takes some microseconds of the hundreds that a recorded
// statement takes, so that methods need not pass a name.
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

// operationOf returns the name of the Store's method that contains a function; "" for every other function.
func operationOf(function string) string {
	name, ok := strings.CutPrefix(function, storeMethods)
	if !ok || !unicode.IsUpper(rune(name[0])) {
		return ""
	}
	if end := strings.IndexAny(name, ".-["); end > 0 { // suffix of a function literal, a loop's body, a type
		name = name[:end]
	}
	return inWords(name)
}

// inWords splits a camel-case name.
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
