package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

func goodConfig() conn.Config {
	c := conn.DefaultConfig()
	c.Host, c.Name, c.User = "db.internal", "dlq_db", "app"
	return c
}

func writeSecret(t *testing.T, path, content string) {
	t.Helper()
	check.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestOpenOnServer(t *testing.T) {
	t.Parallel()

	for name, password := range map[string]string{
		"Quotes":      `it's "quoted"`,
		"Backslashes": `a\b\\c\`,
		"Spaces":      " two  spaces ",
		"Separators":  "p@ss:w/rd?x=y&z#%20",
		"Unicode":     "pässwörd-密",
		"Looks":       "sslmode=disable host=elsewhere",
	} {
		postgrestest.Parallel(t, "SignsInWithAnyPassword/"+name, func(t *testing.T) {
			db := openAs(t, serverRole(t, password), password)
			wantUser(t, db, "")
		})
	}

	postgrestest.Parallel(t, "SpeaksUTCAndSaysWhoItIs", func(t *testing.T) {
		db := openAs(t, serverRole(t, "p"), "p")
		var zone, app string
		check.NoError(t, db.QueryRow("SELECT current_setting('TimeZone'), current_setting('application_name')").Scan(&zone, &app))
		check.True(t, zone == "UTC" && app == "dlq-manager", "got %s and %s, want UTC and dlq-manager", zone, app)
	})

	postgrestest.Parallel(t, "SendsBytesAsBytes", func(t *testing.T) {
		db := openAs(t, serverRole(t, "p"), "p")
		var size int
		if err := db.QueryRow(`SELECT length($1::bytea)`, []byte(`\x4142`)).Scan(&size); err != nil || size != 6 {
			t.Errorf("got length %d and %v, want 6: the text must not be read as hex", size, err)
		}
	})

	postgrestest.Parallel(t, "FollowsAChangedPassword", func(t *testing.T) {
		cfg := serverRole(t, "first")
		cfg.PasswordFile = filepath.Join(t.TempDir(), "password")
		writeSecret(t, cfg.PasswordFile, "first\n")
		db := openConfig(t, cfg)
		held := holdConnection(t, db)

		asAdmin(t, "ALTER ROLE "+cfg.User+" PASSWORD 'second'")
		if _, err := db.Conn(t.Context()); !conn.Rejected(err) || strings.Contains(err.Error(), "first") {
			t.Fatalf("before the file changes: got %v, want a refusal without the password", err)
		}
		writeSecret(t, cfg.PasswordFile, "second\n")
		wantUser(t, db, cfg.User)
		check.NoError(t, held.PingContext(t.Context()))
	})

	postgrestest.Parallel(t, "FollowsAChangedRole", func(t *testing.T) {
		first, second := serverRole(t, "p1"), serverRole(t, "p2")
		cfg := first
		cfg.User, cfg.CredentialsFile = "", filepath.Join(t.TempDir(), "credentials")
		writeSecret(t, cfg.CredentialsFile, "username: "+first.User+"\npassword: p1\n")
		db := openConfig(t, cfg)
		holdConnection(t, db)
		wantUser(t, db, first.User)

		idle := holdConnection(t, db)
		writeSecret(t, cfg.CredentialsFile, "username: "+second.User+"\npassword: p2\n")
		check.NoError(t, idle.Close())
		wantUser(t, db, first.User) // its role was not dropped
		for range 2 {
			held := holdConnection(t, db) // one of the connections is new
			defer held.Close()
		}
		wantUser(t, db, second.User)
	})

	postgrestest.Parallel(t, "SignsInWithTheLastWhileTheFileIsGone", func(t *testing.T) {
		cfg := serverRole(t, "p")
		cfg.PasswordFile = filepath.Join(t.TempDir(), "password")
		writeSecret(t, cfg.PasswordFile, "p")
		db := openConfig(t, cfg)
		held := holdConnection(t, db)
		for _, content := range []string{"", "\n", "half"} {
			writeSecret(t, cfg.PasswordFile, content)
			holdConnection(t, db)
		}
		check.NoError(t, os.Remove(cfg.PasswordFile))
		holdConnection(t, db)

		asAdmin(t, "ALTER ROLE "+cfg.User+" PASSWORD 'q'")
		if _, err := db.Conn(t.Context()); !conn.Rejected(err) || !strings.Contains(err.Error(), cfg.PasswordFile) {
			t.Errorf("got %v, want the refusal, and the file named", err)
		}
		check.NoError(t, held.PingContext(t.Context()))
	})

	postgrestest.Parallel(t, "StartsWithNoFileAtAllByNamingIt", func(t *testing.T) {
		cfg := serverRole(t, "p")
		cfg.PasswordFile = filepath.Join(t.TempDir(), "password")
		db := openConfig(t, cfg)
		_, err := db.Conn(t.Context())
		check.True(t, err != nil && strings.Contains(err.Error(), cfg.PasswordFile) && conn.Transient(err),
			"got %v, want the file named, and to be tried again later", err)
		writeSecret(t, cfg.PasswordFile, "p\r\n")
		wantUser(t, db, cfg.User)
	})
}

// serverRole creates a login role on the real server and returns a Config for it. The password is not in the Config.
func serverRole(t *testing.T, password string) conn.Config {
	t.Helper()
	at := check.Must(url.Parse(stacktest.Postgres(t)))(t)
	role := "connect_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	asAdmin(t, "CREATE ROLE "+role+" LOGIN PASSWORD "+pq.QuoteLiteral(password))
	t.Cleanup(func() { asAdmin(t, "DROP ROLE "+role) })

	c := goodConfig()
	c.Host, c.Name, c.User = at.Hostname(), strings.TrimPrefix(at.Path, "/"), role
	c.Port = check.Must(strconv.Atoi(at.Port()))(t)
	return c
}

func asAdmin(t *testing.T, query string) {
	t.Helper()
	admin := check.Must(sql.Open("postgres", stacktest.Postgres(t)))(t)
	defer admin.Close()
	check.Must(admin.Exec(query))(t)
}

func openAs(t *testing.T, c conn.Config, password string) *sqlx.DB {
	t.Helper()
	c.PasswordFile = filepath.Join(t.TempDir(), "password")
	writeSecret(t, c.PasswordFile, password+"\n")
	return openConfig(t, c)
}

func openConfig(t *testing.T, c conn.Config, options ...conn.OpenOption) *sqlx.DB {
	t.Helper()
	db := check.Must(conn.Open(c, options...))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// holdConnection takes a connection out of the pool until the test ends, so that the pool has to open another.
func holdConnection(t *testing.T, db *sqlx.DB) *sql.Conn {
	t.Helper()
	conn := check.Must(db.Conn(t.Context()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func wantUser(t *testing.T, db *sqlx.DB, want string) {
	t.Helper()
	var got string
	check.NoError(t, db.QueryRow("SELECT current_user").Scan(&got))
	check.True(t, want == "" || got == want, "signed in as %s, want %s", got, want)
}

// rotated is a pool with idle connections of a first role, whose file now has a second role's credentials.
type rotated struct {
	*sqlx.DB
	first, second string
	held          interface{ Close() error } // a used connection of the first role
}

const poolOfRotated = 4

func openRotated(t *testing.T, at string, options ...conn.OpenOption) *rotated {
	t.Helper()
	var r rotated
	for _, name := range []*string{&r.first, &r.second} {
		*name = "rotated_" + strings.ReplaceAll(uuid.NewString(), "-", "")
		asAdmin(t, "CREATE ROLE "+*name+" LOGIN PASSWORD 'p' IN ROLE dlq_rw")
		t.Cleanup(func() { asAdmin(t, "DROP ROLE IF EXISTS "+*name) })
	}
	cfg := configOf(t, at)
	cfg.User, cfg.CredentialsFile = "", filepath.Join(t.TempDir(), "credentials")
	cfg.MaxOpenConns, cfg.MaxIdleConns = poolOfRotated, poolOfRotated
	writeSecret(t, cfg.CredentialsFile, "username: "+r.first+"\npassword: p\n")
	r.DB = openConfig(t, cfg, options...)
	var held []interface{ Close() error }
	for range poolOfRotated {
		held = append(held, holdConnection(t, r.DB))
	}
	for _, h := range held[1:] {
		check.NoError(t, h.Close())
	}
	r.held = held[0]
	writeSecret(t, cfg.CredentialsFile, "username: "+r.second+"\npassword: p\n")
	return &r
}

// The first statement after the role was dropped is answered on a new connection, and no later statement meets the
// dropped role.
func TestSession_RoleDropped(t *testing.T) {
	t.Parallel()
	at := postgrestest.URL(t) // its migrations create dlq_rw
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
					asAdmin(t, replaced(drop, r.first))
					check.NoError(t, ask(ctx, r))
					check.NoError(t, r.held.Close()) // it was in use and returns to the pool
					for range poolOfRotated {
						wantUser(t, r.DB, r.second)
						holdConnection(t, r.DB)
					}
				})
			}
		}
	}
}

// A missing right is a final error of the server, and closes no connection.
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
