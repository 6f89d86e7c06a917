package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

func openConfig(t *testing.T, c conn.Config, options ...conn.OpenOption) *sqlx.DB {
	t.Helper()
	db := check.Must(conn.Open(c, options...))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// rotated is a pool with idle connections that have signed in as the role in the field first. After that, its
// credentials file was replaced by one that names the role in the field second.
type rotated struct {
	*sqlx.DB
	first, second string
	held          interface{ Close() error } // a connection that is in use and has signed in as the role in the field first
}

const poolOfRotated = 4

func openRotated(t *testing.T, at string, options ...conn.OpenOption) *rotated {
	t.Helper()
	var r rotated
	for _, name := range []*string{&r.first, &r.second} {
		*name = "rotated_" + strings.ReplaceAll(uuid.NewString(), "-", "")
		postgrestest.AsAdmin(t, "CREATE ROLE "+*name+" LOGIN PASSWORD 'p' IN ROLE dlq_rw")
		t.Cleanup(func() { postgrestest.AsAdmin(t, "DROP ROLE IF EXISTS "+*name) })
	}
	cfg := configOf(t, at)
	cfg.User, cfg.CredentialsFile = "", filepath.Join(t.TempDir(), "credentials")
	cfg.MaxOpenConns, cfg.MaxIdleConns = poolOfRotated, poolOfRotated
	postgrestest.WriteSecret(t, cfg.CredentialsFile, "username: "+r.first+"\npassword: p\n")
	r.DB = openConfig(t, cfg, options...)
	var held []interface{ Close() error }
	for range poolOfRotated {
		held = append(held, postgrestest.HoldConnection(t, r.DB))
	}
	for _, h := range held[1:] {
		check.NoError(t, h.Close())
	}
	r.held = held[0]
	postgrestest.WriteSecret(t, cfg.CredentialsFile, "username: "+r.second+"\npassword: p\n")
	return &r
}

// After the pool's role was dropped or has lost its rights, the next statement succeeds on a new connection. No later
// statement uses a connection that has signed in as that role.
func TestSession_RoleDropped(t *testing.T) {
	t.Parallel()
	at := postgrestest.URL(t) // migrating this database creates the role dlq_rw
	const query = `SELECT count(*) FROM dlq.dlq_messages WHERE retry_count >= $1`
	page := repository.SearchQuery{Limit: 10, Filter: entity.Filter{Topic: "orders"}}
	for name, ask := range map[string]func(context.Context, *rotated) error{
		"Query": func(ctx context.Context, r *rotated) error { return r.GetContext(ctx, new(int), query, 0) },
		"Exec": func(ctx context.Context, r *rotated) error {
			_, err := r.ExecContext(ctx, `DELETE FROM dlq.idempotency_keys WHERE false`)
			return err
		},
		"Prepare": func(ctx context.Context, r *rotated) error {
			st, err := r.PreparexContext(ctx, query)
			if err != nil {
				return err
			}
			defer st.Close()
			return nil
		},
		"Counts": func(ctx context.Context, r *rotated) error { _, err := New(r.DB).Counts(ctx); return err },
		"Search": func(ctx context.Context, r *rotated) error { _, err := New(r.DB).Search(ctx, page); return err },
		"ExactSize": func(ctx context.Context, r *rotated) error {
			return search.Bounded(ctx, New(r.DB).db, search.CountTimeout, func(tx *sqlx.Tx) error {
				return tx.GetContext(ctx, new(int64), query, 0)
			})
		},
		"Export": func(ctx context.Context, r *rotated) error {
			return New(r.DB).Export(ctx, repository.ExportQuery{Limit: 10}, func(*entity.Message) error { return nil })
		},
	} {
		for how, drop := range map[string]string{
			"Dropped":             `DROP ROLE %`,
			"RevokedOnly":         `REVOKE dlq_rw FROM %`,
			"ThrownOutAndDropped": `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '%'; DROP ROLE %`,
			"ThrownOutAndRevoked": `REVOKE dlq_rw FROM %; SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '%'`,
			"DroppedAndMadeAgain": `DROP ROLE %; CREATE ROLE % LOGIN PASSWORD 'p' IN ROLE dlq_rw`,
		} {
			for _, traced := range []bool{false, true} {
				postgrestest.Parallel(t, fmt.Sprintf("%s/%s/traced=%t", name, how, traced), func(t *testing.T) {
					ctx, options := t.Context(), []conn.OpenOption(nil)
					if traced {
						spans := tracestest.Record()
						ctx, options = spans.Begin(ctx), []conn.OpenOption{conn.WithTracing(spans)}
					}
					r := openRotated(t, at, options...)
					postgrestest.AsAdmin(t, replaced(drop, r.first))
					check.NoError(t, ask(ctx, r))
					check.NoError(t, r.held.Close()) // returns the connection that was in use to the pool
					for range poolOfRotated {
						postgrestest.WantUser(t, r.DB, r.second)
						postgrestest.HoldConnection(t, r.DB)
					}
				})
			}
		}
	}
}

// When a role that still exists lacks a right, the statement fails with the server's refusal. A transaction is tried
// twice before it fails. The connection is kept.
func TestSession_RoleWithoutARight(t *testing.T) {
	t.Parallel()
	cfg := configOf(t, postgrestest.URL(t))
	cfg.User, cfg.Password = login(t, "dlq_ro"), "p"
	db := openConfig(t, cfg)
	pid := func() (n int) {
		t.Helper()
		check.NoError(t, db.Get(&n, `SELECT pg_backend_pid()`))
		return n
	}
	before := pid()
	const forbidden = `SELECT dlq.drop_document_partitions()`
	_, err := db.Exec(forbidden)
	check.True(t, conn.RoleMayBeGone(err) && !errors.Is(err, driver.ErrBadConn), "got %v, want the server's refusal", err)
	tries := 0
	err = search.Bounded(t.Context(), New(db).db, search.CountTimeout, func(tx *sqlx.Tx) error {
		tries++
		_, err := tx.Exec(forbidden)
		return err
	})
	check.True(t, conn.RoleMayBeGone(err) && tries == 2,
		"in a transaction: got %v after %d tries, want the server's refusal after two", err, tries)
	check.Same(t, pid(), before, "the connection was thrown away, want it kept")
}

func replaced(statement, role string) string { return strings.ReplaceAll(statement, "%", role) }
