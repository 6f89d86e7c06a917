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

// Attributes of the semantic conventions for databases.
const (
	DBSystem    = attribute.Key("db.system.name")
	DBNamespace = attribute.Key("db.namespace")
	DBOperation = attribute.Key("db.operation.name")
	DBStatus    = attribute.Key("db.response.status_code")
)

// openPool returns a pool of connections to a database of that name; its spans are those of provider, nil for none.
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
		attributes = append(attributes, DBStatus.String(string(answer.Code)))
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

// storePackages is the prefix of the packages whose methods send statements.
const storePackages = "github.com/dlq-manager/dlq-manager/pkg/repository/postgres"

// helpers are the types whose exported methods send statements for the methods of a Store.
var helpers = []string{"/internal/conn.(*DB)", "/internal/search.(*Scopes)"}

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

// operationOf returns the name of the Store's method that contains a function; "" for every other function. The Store
// has the exported methods of the structs that it embeds.
func operationOf(function string) string {
	function, ok := strings.CutPrefix(function, storePackages)
	if !ok {
		return ""
	}
	of, name, isMethod := strings.Cut(function, ").")
	if !isMethod || !unicode.IsUpper(rune(name[0])) || slices.Contains(helpers, of+")") {
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
