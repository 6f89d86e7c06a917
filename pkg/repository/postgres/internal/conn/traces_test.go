package conn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lib/pq"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

func TestWithTracing_OffWrapsNothing(t *testing.T) {
	t.Parallel()
	for name, provider := range map[string]trace.TracerProvider{"Nil": nil, "Noop": noop.NewTracerProvider()} {
		c := newConnector(goodConfig(), nil)
		if WithTracing(provider)(c); c.traces != nil {
			t.Errorf("%s: got traces, want none", name)
		}
		db := openPool(c, c.traces, "")
		if _, own := db.Driver().(*pq.Driver); !own {
			t.Errorf("%s: got the driver %T, want that of the connector", name, db.Driver())
		}
		_ = db.Close()
	}
}

func TestOperationOf(t *testing.T) {
	t.Parallel()
	const batches = storePackages + "/internal/redrives.(*Batches)."
	for function, want := range map[string]string{
		batches + "LeaseBatch":                                   "lease batch",
		batches + "LeaseBatch.func1":                             "lease batch",
		batches + "LeaseBatch-range1":                            "lease batch",
		batches + "LeaseBatch.func2-range1":                      "lease batch",
		batches + "LeaseBatch[...]":                              "lease batch",
		batches + "LeaseBatch-fm":                                "lease batch",
		batches + "bounded":                                      "",
		"github.com/jmoiron/sqlx.(*Tx).QueryContext":             "",
		storePackages + ".(*Store).Ping":                         "ping",
		storePackages + "/internal/conn.(*DB).Select":            "",
		storePackages + "/internal/search.(*Scopes).Resolve":     "",
		storePackages + "/internal/search.Bounded":               "",
		strings.Replace(batches, "postgres", "other", 1) + "Get": "",
	} {
		check.Same(t, operationOf(function), want, "operationOf(%s)", function)
	}
}

func TestErrorType(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"canceled": context.Canceled, "timeout": context.DeadlineExceeded,
		"connection": &connectError{"db:5432", errors.New("refused")}, "_OTHER": errors.New("4111-1111"),
	} {
		check.Same(t, errorType(fmt.Errorf("where: %w", err)), want, "errorType(%v)", err)
	}
}
