package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

// openTraced is a pool with one connection, which is open, on a database of its own.
func openTraced(t *testing.T, provider trace.TracerProvider) (*sqlx.DB, string) {
	t.Helper()
	cfg := configOf(t, postgrestest.URL(t))
	cfg.User, cfg.Password = login(t, "dlq_rw"), "p"
	db := openConfig(t, cfg, WithTracing(provider))
	wantNil(t, db.PingContext(t.Context()))
	return db, cfg.Name
}

func TestWithTracing(t *testing.T) {
	t.Parallel()

	t.Run("NamesTheStoresMethod", func(t *testing.T) {
		t.Parallel()
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		store, ctx := New(db), spans.Begin(t.Context())
		_, err := store.Counts(ctx)
		wantNil(t, err)
		_, _ = store.Get(ctx, uuid.New(), 0)
		_, err = store.Claim(ctx, []repository.Claim{{MessageID: uuid.New(), ID: uuid.New()}},
			repository.Claiming{Expiry: time.Minute, Cause: entity.By("alice")})
		wantNil(t, err)
		_, err = store.ActiveRedrives(ctx)
		wantNil(t, err)
		_, err = store.Search(ctx, repository.SearchQuery{Limit: 10}) // within a transaction
		wantNil(t, err)
		var want []string
		for _, operation := range []string{"counts", "get", "claim", "active redrives", "search"} {
			want = append(want, operation+" "+name)
		}
		if got := slices.Compact(spans.Names()); !slices.Equal(got, want) { // a claim that took less looks why
			t.Errorf("got the spans %q, want %q", got, want)
		}
		span, parent := spans.Named("claim " + name)[0], trace.SpanContextFromContext(ctx)
		if span.Parent().SpanID() != parent.SpanID() || span.SpanKind() != trace.SpanKindClient || span.Status().Code != codes.Unset {
			t.Errorf("got parent %s, kind %s, status %v, want %s, client and none", span.Parent().SpanID(), span.SpanKind(), span.Status(), parent.SpanID())
		}
		tracestest.WantAttributes(t, span.Attributes(), map[attribute.Key]string{
			dbSystem: "postgresql", dbNamespace: name, dbOperation: "claim", "db.query.text": "", traces.ErrorType: "",
		})
		if got := len(span.Attributes()); got != 3 {
			t.Errorf("got the attributes %v, want no others", span.Attributes())
		}
	})

	t.Run("TellsOfAnExportsFirstReadAlone", func(t *testing.T) {
		t.Parallel()
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, key)
			SELECT 'orders', 'boom', now() - n * interval '1 second', convert_to(repeat('k', CASE WHEN n % 100 = 1 THEN $2 ELSE 1 END), 'UTF8') FROM generate_series(1, $1::int) n`,
			5*exportStep, exportBytes+1)
		n := 0
		err := New(db).Export(spans.Begin(t.Context()), repository.ExportQuery{Limit: 5 * exportStep, MaxValue: -1}, func(*entity.Message) error {
			n++
			return nil
		})
		wantNil(t, err)
		if n != 5*exportStep {
			t.Errorf("got %d messages, want %d", n, 5*exportStep)
		}
		// To declare and to prepare what reads, the first read, and what is read again of it.
		if got := len(spans.Named("export " + name)); got < 3 || got > 10 {
			t.Errorf("got %d spans, want a few", got)
		}
	})

	t.Run("NamesWhatIsNobodys", func(t *testing.T) {
		t.Parallel()
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		wantNil(t, db.GetContext(spans.Begin(t.Context()), new(int), "SELECT 1"))
		spans.Only(t, "statement "+name)
	})

	t.Run("OpensConnectionsInTheirTrace", func(t *testing.T) {
		t.Parallel()
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		holdConnection(t, db)
		wantNil(t, New(db).Ping(spans.Begin(t.Context())))
		if got, want := spans.Names(), []string{"connect " + name, "ping " + name}; !slices.Equal(got, want) {
			t.Errorf("got the spans %q, want %q", got, want)
		}
	})

	t.Run("MakesNoneWithoutARecordedParent", func(t *testing.T) {
		t.Parallel()
		spans, dropped := tracestest.Record(), tracestest.RecordSampled(sdktrace.NeverSample())
		db, _ := openTraced(t, spans)
		for _, ctx := range []context.Context{t.Context(), dropped.Begin(t.Context())} {
			_, err := New(db).Counts(ctx)
			wantNil(t, err)
		}
		if got := spans.Names(); len(got) != 0 {
			t.Errorf("got the spans %q, want none", got)
		}
	})

	t.Run("TellsErrorsByTheirCodeAlone", func(t *testing.T) {
		t.Parallel()
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		ctx := spans.Begin(t.Context())
		const secret = "4111-1111"
		if err := db.GetContext(ctx, new(string), `SELECT $1::text::int`, secret); err == nil || !strings.Contains(err.Error(), secret) {
			t.Fatalf("got %v, want the server to quote the value", err)
		}
		span := spans.Only(t, "statement "+name)
		if span.Status() != (sdktrace.Status{Code: codes.Error}) || len(span.Events()) != 0 {
			t.Errorf("got status %v and events %v, want an error without a word", span.Status(), span.Events())
		}
		tracestest.WantAttributes(t, span.Attributes(), map[attribute.Key]string{traces.ErrorType: "22P02", dbStatus: "22P02"})
		if text := fmt.Sprint(span.Attributes()); strings.Contains(text, secret) {
			t.Errorf("the span quotes the value: %s", text)
		}
	})

	t.Run("TellsOfEveryTry", func(t *testing.T) {
		t.Parallel()
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		cancelled, cancel := context.WithCancel(spans.Begin(t.Context()))
		time.AfterFunc(50*time.Millisecond, cancel)
		if _, err := db.ExecContext(cancelled, "SELECT pg_sleep(60)"); err == nil {
			t.Fatal("got no error, want one")
		}
		if got := spans.Only(t, "statement "+name).Status().Code; got != codes.Error {
			t.Errorf("got status %v, want an error", got)
		}
	})
}

func TestWithTracing_OffWrapsNothing(t *testing.T) {
	t.Parallel()
	for name, provider := range map[string]trace.TracerProvider{"Nil": nil, "Noop": noop.NewTracerProvider()} {
		c := newConnector(goodConfig(), nil)
		if WithTracing(provider)(c); c.traces != nil {
			t.Errorf("%s: got traces, want none", name)
		}
		db := c.open()
		if _, own := db.Driver().(*pq.Driver); !own {
			t.Errorf("%s: got the driver %T, want that of the connector", name, db.Driver())
		}
		_ = db.Close()
	}
}

func TestOperationOf(t *testing.T) {
	t.Parallel()
	for function, want := range map[string]string{
		storeMethods + "LeaseBatch":                                "lease batch",
		storeMethods + "LeaseBatch.func1":                          "lease batch",
		storeMethods + "LeaseBatch-range1":                         "lease batch",
		storeMethods + "LeaseBatch.func2-range1":                   "lease batch",
		storeMethods + "LeaseBatch[...]":                           "lease batch",
		storeMethods + "LeaseBatch-fm":                             "lease batch",
		storeMethods + "bounded":                                   "",
		"github.com/jmoiron/sqlx.(*Tx).QueryContext":               "",
		strings.Replace(storeMethods, "Store", "Other", 1) + "Get": "",
	} {
		if got := operationOf(function); got != want {
			t.Errorf("operationOf(%s) = %q, want %q", function, got, want)
		}
	}
}

func TestErrorType(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"canceled": context.Canceled, "timeout": context.DeadlineExceeded,
		"connection": &connectError{"db:5432", errors.New("refused")}, "_OTHER": errors.New("4111-1111"),
	} {
		if got := errorType(fmt.Errorf("where: %w", err)); got != want {
			t.Errorf("errorType(%v) = %s, want %s", err, got, want)
		}
	}
}
