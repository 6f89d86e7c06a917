package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

// openTraced returns a pool for a new database, and the name of the database. The pool makes spans with the given
// provider, and has opened one connection.
func openTraced(t *testing.T, provider trace.TracerProvider) (*sqlx.DB, string) {
	t.Helper()
	cfg := configOf(t, postgrestest.URL(t))
	cfg.User, cfg.Password = login(t, "dlq_rw"), "p"
	db := openConfig(t, cfg, conn.WithTracing(provider))
	check.NoError(t, db.PingContext(t.Context()))
	return db, cfg.Name
}

func TestWithTracing(t *testing.T) {
	t.Parallel()

	postgrestest.Parallel(t, "NamesTheStoresMethod", func(t *testing.T) {
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		store, ctx := New(db), spans.Begin(t.Context())
		check.NoError(t, check.Err(store.Counts(ctx)))
		_, _ = store.Get(ctx, uuid.New(), 0)
		how := repository.Claiming{Expiry: time.Minute, Cause: entity.By("alice")}
		check.Must(store.Claim(ctx, []repository.Claim{{MessageID: uuid.New(), ID: uuid.New()}}, how))(t)
		check.NoError(t, check.Err(store.ActiveRedrives(ctx)))
		check.NoError(t, check.Err(store.Search(ctx, repository.SearchQuery{Limit: 10}))) // Search sends its statement within a transaction
		var want []string
		for _, operation := range []string{"counts", "get", "claim", "active redrives", "search"} {
			want = append(want, operation+" "+name)
		}
		// The pool may open another connection. Claim sends a second statement, because it could not claim all messages.
		got := slices.DeleteFunc(spans.Names(), func(span string) bool { return span == "connect "+name })
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("got the spans %q, want %q", got, want)
		}
		span, parent := spans.Named("claim " + name)[0], trace.SpanContextFromContext(ctx)
		if span.Parent().SpanID() != parent.SpanID() || span.SpanKind() != trace.SpanKindClient || span.Status().Code != codes.Unset {
			t.Errorf("got parent %s, kind %s, status %v, want %s, client and none", span.Parent().SpanID(), span.SpanKind(), span.Status(), parent.SpanID())
		}
		tracestest.WantAttributes(t, span.Attributes(), map[attribute.Key]string{
			conn.DBSystem: "postgresql", conn.DBNamespace: name, conn.DBOperation: "claim", "db.query.text": "", traces.ErrorType: "",
		})
		check.Same(t, len(span.Attributes()), 3, "attributes %v, want no others", span.Attributes())
	})

	postgrestest.Parallel(t, "TellsOfAnExportsFirstReadAlone", func(t *testing.T) {
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, key)
			SELECT 'orders', 'boom', now() - n * interval '1 second', convert_to(repeat('k', CASE WHEN n % 100 = 1 THEN $2 ELSE 1 END), 'UTF8') FROM generate_series(1, $1::int) n`,
			5*search.ExportStep, search.ExportBytes+1)
		n := 0
		err := New(db).Export(spans.Begin(t.Context()), repository.ExportQuery{Limit: 5 * search.ExportStep, MaxValue: -1}, func(*entity.Message) error {
			n++
			return nil
		})
		check.NoError(t, err)
		check.Same(t, n, 5*search.ExportStep, "messages")
		// An export has spans only for declaring the cursor, for preparing the fetch and its first use, and for
		// messages that are read again because of their size.
		got := len(spans.Named("export " + name))
		check.True(t, got >= 3 && got <= 10, "got %d spans, want a few", got)
	})

	postgrestest.Parallel(t, "NamesWhatIsNobodys", func(t *testing.T) {
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		check.NoError(t, db.GetContext(spans.Begin(t.Context()), new(int), "SELECT 1"))
		spans.Only(t, "statement "+name)
	})

	postgrestest.Parallel(t, "OpensConnectionsInTheirTrace", func(t *testing.T) {
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		postgrestest.HoldConnection(t, db)
		check.NoError(t, New(db).Ping(spans.Begin(t.Context())))
		check.Same(t, spans.Names(), []string{"connect " + name, "ping " + name}, "spans")
	})

	postgrestest.Parallel(t, "MakesNoneWithoutARecordedParent", func(t *testing.T) {
		spans, dropped := tracestest.Record(), tracestest.RecordSampled(sdktrace.NeverSample())
		db, _ := openTraced(t, spans)
		for _, ctx := range []context.Context{t.Context(), dropped.Begin(t.Context())} {
			check.NoError(t, check.Err(New(db).Counts(ctx)))
		}
		check.Len(t, spans.Names(), 0, "spans")
	})

	postgrestest.Parallel(t, "TellsErrorsByTheirCodeAlone", func(t *testing.T) {
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		ctx := spans.Begin(t.Context())
		const secret = "4111-1111"
		check.Says(t, db.GetContext(ctx, new(string), `SELECT $1::text::int`, secret), secret,
			"got, want the server to quote the value")
		span := spans.Only(t, "statement "+name)
		check.True(t, span.Status() == (sdktrace.Status{Code: codes.Error}) && len(span.Events()) == 0,
			"got status %v and events %v, want an error without a word", span.Status(), span.Events())
		tracestest.WantAttributes(t, span.Attributes(), map[attribute.Key]string{traces.ErrorType: "22P02", conn.DBStatus: "22P02"})
		if text := fmt.Sprint(span.Attributes()); strings.Contains(text, secret) {
			t.Errorf("the span quotes the value: %s", text)
		}
	})

	postgrestest.Parallel(t, "TellsOfEveryTry", func(t *testing.T) {
		spans := tracestest.Record()
		db, name := openTraced(t, spans)
		cancelled, cancel := context.WithCancel(spans.Begin(t.Context()))
		time.AfterFunc(50*time.Millisecond, cancel)
		check.True(t, check.Err(db.ExecContext(cancelled, "SELECT pg_sleep(60)")) != nil, "got no error, want one")
		check.Same(t, spans.Only(t, "statement "+name).Status().Code, codes.Error, "status, want an error")
	})
}
