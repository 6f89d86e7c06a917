package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"runtime"
	"slices"
	"strings"
	"unicode"

	"github.com/XSAM/otelsql"
	"github.com/lib/pq"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/traces"
)

// Attributes of spans, named by OpenTelemetry's semantic conventions for databases.
const (
	DBSystem    = attribute.Key("db.system.name")
	DBNamespace = attribute.Key("db.namespace")
	DBOperation = attribute.Key("db.operation.name")
	DBStatus    = attribute.Key("db.response.status_code")
)

// openPool returns a pool of connections to the database with the given name. The provider makes a span for each
// statement; when the provider is nil, the pool makes no spans.
func openPool(c driver.Connector, provider trace.TracerProvider, name string) *sql.DB {
	if provider == nil {
		return sql.OpenDB(c)
	}
	return otelsql.OpenDB(c,
		otelsql.WithTracerProvider(provider),
		otelsql.WithAttributes(DBSystem.String("postgresql"), DBNamespace.String(name)),
		otelsql.WithSpanNameFormatter(func(_ context.Context, method otelsql.Method, _ string) string {
			return operationFor(method) + " " + name
		}),
		otelsql.WithAttributesGetter(func(_ context.Context, method otelsql.Method, _ string, _ []driver.NamedValue) []attribute.KeyValue {
			return []attribute.KeyValue{DBOperation.String(operationFor(method))}
		}),
		otelsql.WithSpanErrorAttributesGetter(errorAttributes),
		otelsql.WithSpanOptions(otelsql.SpanOptions{DisableQuery: true, OmitRows: true, SpanFilter: hasSpan}))
}

// hasSpan reports whether a call of the driver gets a span: only new connections and statements get one, except
// statements that set parameters of a transaction.
func hasSpan(ctx context.Context, method otelsql.Method, query string, _ []driver.NamedValue) bool {
	switch method {
	case otelsql.MethodConnQuery, otelsql.MethodConnExec, otelsql.MethodStmtQuery, otelsql.MethodStmtExec, otelsql.MethodConnectorConnect:
		return trace.SpanFromContext(ctx).IsRecording() && !strings.HasPrefix(query, "SET ")
	default:
		return false
	}
}

// errorAttributes returns the attributes of a failed statement: the type of the error and, if the server returned it,
// the SQLSTATE.
func errorAttributes(err error) []attribute.KeyValue {
	attributes := []attribute.KeyValue{traces.ErrorType.String(errorType(err))}
	var answer *pq.Error
	if errors.As(err, &answer) {
		attributes = append(attributes, DBStatus.String(string(answer.Code)))
	}
	return attributes
}

// errorType returns the SQLSTATE of an error that the server returned. For any other error it returns one of a few
// fixed words.
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

// storePackages is the prefix of the names of packages whose methods send statements.
const storePackages = "github.com/dlq-manager/dlq-manager/pkg/repository/postgres"

// helpers are the types whose exported methods send statements on behalf of the methods of a Store.
var helpers = []string{"/internal/conn.(*DB)", "/internal/search.(*Scopes)"}

// storeOperation returns the name of the statement that is being sent: the name of the Store's method that sends it, in
// words ("lease batch" for LeaseBatch), or "statement" when no method of the Store does. It finds the method in the
// call stack, so that methods need not pass a name. This takes some microseconds; a statement takes hundreds.
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

// operationOf returns the name, in words, of the Store's method to which a function belongs; "" when it belongs to
// none. The methods of the Store are the exported methods of the structs that it embeds.
func operationOf(function string) string {
	function, ok := strings.CutPrefix(function, storePackages)
	if !ok {
		return ""
	}
	of, name, isMethod := strings.Cut(function, ").")
	if !isMethod || !unicode.IsUpper(rune(name[0])) || slices.Contains(helpers, of+")") {
		return ""
	}
	if end := strings.IndexAny(name, ".-["); end > 0 { // cuts off the suffix that the runtime adds for a function literal, a loop body or type arguments
		name = name[:end]
	}
	return inWords(name)
}

// inWords returns a camel-case name as words in lower case.
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
