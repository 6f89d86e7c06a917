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
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
)

var errDialled = errors.New("no real connection in this test")

// dialled is a connector whose dial keeps what it was given and answers in turn.
func dialled(cfg Config, answers ...error) (*connector, *[]pq.Config) {
	var seen []pq.Config
	return newConnector(cfg, func(_ context.Context, p pq.Config) (driver.Conn, error) {
		seen = append(seen, p)
		return nil, answers[min(len(seen), len(answers))-1]
	}), &seen
}

func TestConnector(t *testing.T) {
	t.Parallel()
	refused := &pq.Error{Code: "28P01", Message: "password authentication failed"}

	t.Run("ReadsTheFileForEveryConnection", func(t *testing.T) {
		t.Parallel()
		c, seen := dialled(fileConfig(t, "one"), errDialled)
		_, _ = c.Connect(t.Context())
		writeSecret(t, c.cfg.PasswordFile, "two\n")
		_, _ = c.Connect(t.Context())
		wantPasswords(t, *seen, "one", "two")
	})

	for _, code := range []string{"28P01", "28000"} {
		t.Run("TriesOnceMoreWithFreshCredentials/"+code, func(t *testing.T) {
			t.Parallel()
			c, seen := dialled(fileConfig(t, "old"))
			c.dial = func(_ context.Context, p pq.Config) (driver.Conn, error) {
				*seen = append(*seen, p)
				writeSecret(t, c.cfg.PasswordFile, fmt.Sprintf("new%d", len(*seen)))
				return nil, &pq.Error{Code: pqerror.Code(code)}
			}
			if _, err := c.Connect(t.Context()); !rejected(err) {
				t.Errorf("got %v, want the server's refusal", err)
			}
			wantPasswords(t, *seen, "old", "new1")
		})
	}

	t.Run("DoesNotRepeatTheSameCredentials", func(t *testing.T) {
		t.Parallel()
		c, seen := dialled(fileConfig(t, "same"), refused)
		_, _ = c.Connect(t.Context())
		wantPasswords(t, *seen, "same")
	})

	t.Run("DoesNotTryAgainForOtherReasons", func(t *testing.T) {
		t.Parallel()
		c, seen := dialled(fileConfig(t, "p"), &pq.Error{Code: "53300"})
		_, _ = c.Connect(t.Context())
		wantPasswords(t, *seen, "p")
	})

	t.Run("NamesTheDatabaseAndKeepsTheCause", func(t *testing.T) {
		t.Parallel()
		c, _ := dialled(goodConfig(), errDialled)
		_, err := c.Connect(t.Context())
		if !errors.Is(err, errDialled) || !strings.Contains(err.Error(), "db.internal:5432/dlq_db") {
			t.Errorf("got %v, want %v with the address", err, errDialled)
		}
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()

	t.Run("DoesNotDial", func(t *testing.T) {
		t.Parallel()
		c := goodConfig()
		c.Host, c.PasswordFile = "host.invalid", "/no/such/file"
		db, err := Open(c)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if got := db.Stats().MaxOpenConnections; got != 25 {
			t.Errorf("got at most %d connections, want 25", got)
		}
	})

	t.Run("RefusesBadConfig", func(t *testing.T) {
		t.Parallel()
		if _, err := Open(Config{}); err == nil || !strings.Contains(err.Error(), "host is empty") {
			t.Errorf("got %v, want host is empty", err)
		}
	})

	t.Run("RefusesAMissingRootCertificate", func(t *testing.T) {
		t.Parallel()
		c := goodConfig()
		c.SSLMode, c.SSLRootCert = "require", "/no/such/root.crt"
		if _, err := Open(c); err == nil || !strings.Contains(err.Error(), "/no/such/root.crt") {
			t.Errorf("got %v, want an error naming the file", err)
		}
	})

	t.Run("ShortensLifetimesByATenthAtMost", func(t *testing.T) {
		t.Parallel()
		for random, want := range map[float64]time.Duration{0: 100 * time.Second, 0.5: 95 * time.Second, 1: 90 * time.Second} {
			if got := shorten(100*time.Second, random); got != want {
				t.Errorf("%v: got %s, want %s", random, got, want)
			}
		}
		if got := shorten(0, 1); got != 0 {
			t.Errorf("no limit: got %s, want 0", got)
		}
	})
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
		t.Run("SignsInWithAnyPassword/"+name, func(t *testing.T) {
			t.Parallel()
			db := openAs(t, serverRole(t, password), password)
			wantUser(t, db, "")
		})
	}

	t.Run("SpeaksUTCAndSaysWhoItIs", func(t *testing.T) {
		t.Parallel()
		db := openAs(t, serverRole(t, "p"), "p")
		var zone, app string
		if err := db.QueryRow("SELECT current_setting('TimeZone'), current_setting('application_name')").Scan(&zone, &app); err != nil {
			t.Fatal(err)
		}
		if zone != "UTC" || app != "dlq-manager" {
			t.Errorf("got %s and %s, want UTC and dlq-manager", zone, app)
		}
	})

	t.Run("SendsBytesAsBytes", func(t *testing.T) {
		t.Parallel()
		db := openAs(t, serverRole(t, "p"), "p")
		var size int
		if err := db.QueryRow(`SELECT length($1::bytea)`, []byte(`\x4142`)).Scan(&size); err != nil || size != 6 {
			t.Errorf("got length %d and %v, want 6: the text must not be read as hex", size, err)
		}
	})

	t.Run("FollowsAChangedPassword", func(t *testing.T) {
		t.Parallel()
		cfg := serverRole(t, "first")
		cfg.PasswordFile = filepath.Join(t.TempDir(), "password")
		writeSecret(t, cfg.PasswordFile, "first\n")
		db := openConfig(t, cfg)
		held := holdConnection(t, db)

		asAdmin(t, "ALTER ROLE "+cfg.User+" PASSWORD 'second'")
		if _, err := db.Conn(t.Context()); !rejected(err) || strings.Contains(err.Error(), "first") {
			t.Fatalf("before the file changes: got %v, want a refusal without the password", err)
		}
		writeSecret(t, cfg.PasswordFile, "second\n")
		wantUser(t, db, cfg.User)
		if err := held.PingContext(t.Context()); err != nil {
			t.Errorf("connection from before: got %v, want it alive", err)
		}
	})

	t.Run("FollowsAChangedRole", func(t *testing.T) {
		t.Parallel()
		first, second := serverRole(t, "p1"), serverRole(t, "p2")
		cfg := first
		cfg.User, cfg.CredentialsFile = "", filepath.Join(t.TempDir(), "credentials")
		writeSecret(t, cfg.CredentialsFile, "username: "+first.User+"\npassword: p1\n")
		db := openConfig(t, cfg)
		holdConnection(t, db)
		wantUser(t, db, first.User)

		idle := holdConnection(t, db)
		writeSecret(t, cfg.CredentialsFile, "username: "+second.User+"\npassword: p2\n")
		if err := idle.Close(); err != nil {
			t.Fatal(err)
		}
		wantUser(t, db, first.User) // which nobody dropped
		for range 2 {
			held := holdConnection(t, db) // one of them is new
			defer held.Close()
		}
		wantUser(t, db, second.User)
	})

	t.Run("SignsInWithTheLastWhileTheFileIsGone", func(t *testing.T) {
		t.Parallel()
		cfg := serverRole(t, "p")
		cfg.PasswordFile = filepath.Join(t.TempDir(), "password")
		writeSecret(t, cfg.PasswordFile, "p")
		db := openConfig(t, cfg)
		held := holdConnection(t, db)
		for _, content := range []string{"", "\n", "half"} {
			writeSecret(t, cfg.PasswordFile, content)
			holdConnection(t, db)
		}
		if err := os.Remove(cfg.PasswordFile); err != nil {
			t.Fatal(err)
		}
		holdConnection(t, db)

		asAdmin(t, "ALTER ROLE "+cfg.User+" PASSWORD 'q'")
		if _, err := db.Conn(t.Context()); !rejected(err) || !strings.Contains(err.Error(), cfg.PasswordFile) {
			t.Errorf("got %v, want the refusal, and the file named", err)
		}
		if err := held.PingContext(t.Context()); err != nil {
			t.Errorf("got %v, want the open connection alive", err)
		}
	})

	t.Run("StartsWithNoFileAtAllByNamingIt", func(t *testing.T) {
		t.Parallel()
		cfg := serverRole(t, "p")
		cfg.PasswordFile = filepath.Join(t.TempDir(), "password")
		db := openConfig(t, cfg)
		_, err := db.Conn(t.Context())
		if err == nil || !strings.Contains(err.Error(), cfg.PasswordFile) || !transient(err) {
			t.Errorf("got %v, want the file named, and to be tried again later", err)
		}
		writeSecret(t, cfg.PasswordFile, "p\r\n")
		wantUser(t, db, cfg.User)
	})
}

// starting is a server that refuses connections until it was asked often enough.
type starting struct {
	connector
	refusals int
	asked    int
}

func (s *starting) Connect(context.Context) (driver.Conn, error) {
	if s.asked++; s.asked <= s.refusals {
		return nil, errDialled
	}
	return quietConn{}, nil
}

type quietConn struct{ driver.Conn }

func (quietConn) Close() error { return nil }

func TestWaitReady(t *testing.T) {
	t.Parallel()

	t.Run("WaitsForALateServer", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			server := &starting{refusals: 40}
			db := sqlx.NewDb(sql.OpenDB(server), "postgres")
			defer db.Close()
			if err := WaitReady(t.Context(), db, 30*time.Second); err != nil {
				t.Errorf("got %v, want nil", err)
			}
			if server.asked != 41 {
				t.Errorf("asked %d times, want 41", server.asked)
			}
		})
	})

	t.Run("GivesUpWithTheLastReason", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			db := sqlx.NewDb(sql.OpenDB(&starting{refusals: 1 << 30}), "postgres")
			defer db.Close()
			began := time.Now()
			err := WaitReady(t.Context(), db, 30*time.Second)
			if !errors.Is(err, errDialled) || !strings.Contains(err.Error(), "not ready after 30s") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with the time and the reason", err)
			}
			if took := time.Since(began); took != 30*time.Second {
				t.Errorf("gave up after %s, want 30s", took)
			}
		})
	})

	t.Run("EndsWithItsContext", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			db := sqlx.NewDb(sql.OpenDB(&starting{refusals: 1 << 30}), "postgres")
			defer db.Close()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(3*time.Second, cancel)
			if err := WaitReady(ctx, db, 30*time.Second); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want %v", err, context.Canceled)
			}
		})
	})

	t.Run("NamesTheAddressOfADeadServer", func(t *testing.T) {
		t.Parallel()
		c := goodConfig()
		c.Host, c.Port, c.Password = "127.0.0.1", 1, "hunter2"
		err := WaitReady(t.Context(), openConfig(t, c), 50*time.Millisecond)
		if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1/dlq_db") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v, want the address without the password", err)
		}
	})
}

func fileConfig(t *testing.T, password string) Config {
	t.Helper()
	c := goodConfig()
	c.PasswordFile = filepath.Join(t.TempDir(), "password")
	writeSecret(t, c.PasswordFile, password)
	return c
}

func wantPasswords(t *testing.T, seen []pq.Config, want ...string) {
	t.Helper()
	var got []string
	for _, p := range seen {
		got = append(got, p.Password)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("signed in with %q, want %q", got, want)
	}
}

// serverRole makes a login role on the real server and the Config to reach it.
// The password is not in the Config.
func serverRole(t *testing.T, password string) Config {
	t.Helper()
	at, err := url.Parse(stacktest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	role := "connect_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	asAdmin(t, "CREATE ROLE "+role+" LOGIN PASSWORD "+pq.QuoteLiteral(password))
	t.Cleanup(func() { asAdmin(t, "DROP ROLE "+role) })

	c := goodConfig()
	c.Host, c.Name, c.User = at.Hostname(), strings.TrimPrefix(at.Path, "/"), role
	if c.Port, err = strconv.Atoi(at.Port()); err != nil {
		t.Fatal(err)
	}
	return c
}

func asAdmin(t *testing.T, query string) {
	t.Helper()
	admin, err := sql.Open("postgres", stacktest.Postgres(t))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if _, err := admin.Exec(query); err != nil {
		t.Fatal(err)
	}
}

func openAs(t *testing.T, c Config, password string) *sqlx.DB {
	t.Helper()
	c.PasswordFile = filepath.Join(t.TempDir(), "password")
	writeSecret(t, c.PasswordFile, password+"\n")
	return openConfig(t, c)
}

func openConfig(t *testing.T, c Config, options ...OpenOption) *sqlx.DB {
	t.Helper()
	db, err := Open(c, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// holdConnection takes a connection out of the pool until the test ends, so
// that the pool has to make another.
func holdConnection(t *testing.T, db *sqlx.DB) *sql.Conn {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func wantUser(t *testing.T, db *sqlx.DB, want string) {
	t.Helper()
	var got string
	if err := db.QueryRow("SELECT current_user").Scan(&got); err != nil {
		t.Fatal(err)
	}
	if want != "" && got != want {
		t.Errorf("signed in as %s, want %s", got, want)
	}
}
