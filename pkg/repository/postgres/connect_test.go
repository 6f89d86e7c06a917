package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
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
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
	"github.com/dlq-manager/dlq-manager/pkg/traces/tracestest"
)

var errDialled = errors.New("no real connection in this test")

// dialled returns a connector whose dial stores its configurations and returns the answers in turn.
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

	parallel(t, "ReadsTheFileForEveryConnection", func(t *testing.T) {
		c, seen := dialled(fileConfig(t, "one"), errDialled)
		_, _ = c.Connect(t.Context())
		writeSecret(t, c.cfg.PasswordFile, "two\n")
		_, _ = c.Connect(t.Context())
		wantPasswords(t, *seen, "one", "two")
	})

	for _, code := range []string{"28P01", "28000"} {
		parallel(t, "TriesOnceMoreWithFreshCredentials/"+code, func(t *testing.T) {
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

	parallel(t, "DoesNotRepeatTheSameCredentials", func(t *testing.T) {
		c, seen := dialled(fileConfig(t, "same"), refused)
		_, _ = c.Connect(t.Context())
		wantPasswords(t, *seen, "same")
	})

	parallel(t, "DoesNotTryAgainForOtherReasons", func(t *testing.T) {
		c, seen := dialled(fileConfig(t, "p"), &pq.Error{Code: "53300"})
		_, _ = c.Connect(t.Context())
		wantPasswords(t, *seen, "p")
	})

	parallel(t, "NamesTheDatabaseAndKeepsTheCause", func(t *testing.T) {
		c, _ := dialled(goodConfig(), errDialled)
		_, err := c.Connect(t.Context())
		check.True(t, errors.Is(err, errDialled) && strings.Contains(err.Error(), "db.internal:5432/dlq_db"),
			"got %v, want %v with the address", err, errDialled)
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()

	parallel(t, "DoesNotDial", func(t *testing.T) {
		c := goodConfig()
		c.Host, c.PasswordFile = "host.invalid", "/no/such/file"
		db := check.Must(Open(c))(t)
		defer db.Close()
		check.Same(t, db.Stats().MaxOpenConnections, 25, "connections")
	})

	parallel(t, "RefusesBadConfig", func(t *testing.T) {
		check.Says(t, check.Err(Open(Config{})), "host is empty", "want host is empty")
	})

	parallel(t, "RefusesAMissingRootCertificate", func(t *testing.T) {
		c := goodConfig()
		c.SSLMode, c.SSLRootCert = "require", "/no/such/root.crt"
		check.Says(t, check.Err(Open(c)), "/no/such/root.crt", "want an error naming the file")
	})

	parallel(t, "ShortensLifetimesByATenthAtMost", func(t *testing.T) {
		for random, want := range map[float64]time.Duration{0: 100 * time.Second, 0.5: 95 * time.Second, 1: 90 * time.Second} {
			check.Same(t, shorten(100*time.Second, random), want, "%v", random)
		}
		check.Same(t, shorten(0, 1), 0, "no limit")
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
		parallel(t, "SignsInWithAnyPassword/"+name, func(t *testing.T) {
			db := openAs(t, serverRole(t, password), password)
			wantUser(t, db, "")
		})
	}

	parallel(t, "SpeaksUTCAndSaysWhoItIs", func(t *testing.T) {
		db := openAs(t, serverRole(t, "p"), "p")
		var zone, app string
		check.NoError(t, db.QueryRow("SELECT current_setting('TimeZone'), current_setting('application_name')").Scan(&zone, &app))
		check.True(t, zone == "UTC" && app == "dlq-manager", "got %s and %s, want UTC and dlq-manager", zone, app)
	})

	parallel(t, "SendsBytesAsBytes", func(t *testing.T) {
		db := openAs(t, serverRole(t, "p"), "p")
		var size int
		if err := db.QueryRow(`SELECT length($1::bytea)`, []byte(`\x4142`)).Scan(&size); err != nil || size != 6 {
			t.Errorf("got length %d and %v, want 6: the text must not be read as hex", size, err)
		}
	})

	parallel(t, "FollowsAChangedPassword", func(t *testing.T) {
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
		check.NoError(t, held.PingContext(t.Context()))
	})

	parallel(t, "FollowsAChangedRole", func(t *testing.T) {
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

	parallel(t, "SignsInWithTheLastWhileTheFileIsGone", func(t *testing.T) {
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
		if _, err := db.Conn(t.Context()); !rejected(err) || !strings.Contains(err.Error(), cfg.PasswordFile) {
			t.Errorf("got %v, want the refusal, and the file named", err)
		}
		check.NoError(t, held.PingContext(t.Context()))
	})

	parallel(t, "StartsWithNoFileAtAllByNamingIt", func(t *testing.T) {
		cfg := serverRole(t, "p")
		cfg.PasswordFile = filepath.Join(t.TempDir(), "password")
		db := openConfig(t, cfg)
		_, err := db.Conn(t.Context())
		check.True(t, err != nil && strings.Contains(err.Error(), cfg.PasswordFile) && transient(err),
			"got %v, want the file named, and to be tried again later", err)
		writeSecret(t, cfg.PasswordFile, "p\r\n")
		wantUser(t, db, cfg.User)
	})
}

// starting is a server that refuses a number of connections before it accepts.
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

	parallel(t, "WaitsForALateServer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := &starting{refusals: 40}
			db := sqlx.NewDb(sql.OpenDB(server), "postgres")
			defer db.Close()
			check.NoError(t, WaitReady(t.Context(), db, 30*time.Second))
			check.Same(t, server.asked, 41, "asked times")
		})
	})

	parallel(t, "GivesUpWithTheLastReason", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := sqlx.NewDb(sql.OpenDB(&starting{refusals: 1 << 30}), "postgres")
			defer db.Close()
			began := time.Now()
			err := WaitReady(t.Context(), db, 30*time.Second)
			if !errors.Is(err, errDialled) || !strings.Contains(err.Error(), "not ready after 30s") || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with the time and the reason", err)
			}
			check.Same(t, time.Since(began), 30*time.Second, "gave up after")
		})
	})

	parallel(t, "EndsWithItsContext", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := sqlx.NewDb(sql.OpenDB(&starting{refusals: 1 << 30}), "postgres")
			defer db.Close()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(3*time.Second, cancel)
			check.Is(t, WaitReady(ctx, db, 30*time.Second), context.Canceled, "WaitReady of a cancelled context")
		})
	})

	parallel(t, "NamesTheAddressOfADeadServer", func(t *testing.T) {
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
	check.True(t, strings.Join(got, " ") == strings.Join(want, " "), "signed in with %q, want %q", got, want)
}

// serverRole creates a login role on the real server and returns a Config for it. The password is not in the Config.
func serverRole(t *testing.T, password string) Config {
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

func openAs(t *testing.T, c Config, password string) *sqlx.DB {
	t.Helper()
	c.PasswordFile = filepath.Join(t.TempDir(), "password")
	writeSecret(t, c.PasswordFile, password+"\n")
	return openConfig(t, c)
}

func openConfig(t *testing.T, c Config, options ...OpenOption) *sqlx.DB {
	t.Helper()
	db := check.Must(Open(c, options...))(t)
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

func openRotated(t *testing.T, at string, options ...OpenOption) *rotated {
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
			return New(r.DB).readNumber(ctx, new(int64), query, []any{0})
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
				parallel(t, fmt.Sprintf("%s/%s/traced=%t", name, how, traced), func(t *testing.T) {
					ctx, options := t.Context(), []OpenOption(nil)
					if traced {
						spans := tracestest.Record()
						ctx, options = spans.Begin(ctx), []OpenOption{WithTracing(spans)}
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
	check.True(t, roleMayBeGone(err) && !errors.Is(err, driver.ErrBadConn), "got %v, want the server's refusal", err)
	tries := 0
	err = New(db).bounded(t.Context(), countPatience, func(tx *sqlx.Tx) error {
		tries++
		_, err := tx.Exec(forbidden)
		return err
	})
	check.True(t, roleMayBeGone(err) && tries == 2,
		"in a transaction: got %v after %d tries, want the server's refusal after two", err, tries)
	check.Same(t, pid(), before, "the connection was thrown away, want it kept")
}

func replaced(statement, role string) string { return strings.ReplaceAll(statement, "%", role) }

type idlePool struct{ kept []int }

func (p *idlePool) SetMaxIdleConns(n int) { p.kept = append(p.kept, n) }

func (p *idlePool) now() int { return p.kept[len(p.kept)-1] }

// A pool keeps all connections while it opens any, and few once it has been quiet.
func TestIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &idlePool{}
		i := &idle{pool: p, few: 5, most: 25}
		for range 3 {
			i.opened()
			<-time.After(quiet - time.Second)
			check.Require(t, p.now() == 25 && len(p.kept) == 1, "got %v while connections are opened, want 25 once", p.kept)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		check.Require(t, p.now() == 5, "got %v once it is quiet, want 5", p.kept)
		i.opened()
		check.Require(t, p.now() == 25, "got %v when it is busy again, want 25", p.kept)
		i.settle() // the timer's call, which had to wait for the lock
		check.Require(t, p.now() == 25, "got %v although one has just been opened, want 25", p.kept)
	})
}

func TestIdle_KeepsWhatIsConfigured(t *testing.T) {
	t.Parallel()
	for _, few := range []int{0, 25} {
		p := &idlePool{}
		(&idle{pool: p, few: few, most: 25}).opened()
		check.True(t, len(p.kept) == 0, "%d of 25: got %v, want it left alone", few, p.kept)
	}
}

// silentServer accepts every login and then sends nothing, like a PostgreSQL whose processes were stopped. ended
// receives each connection that the client closed.
func silentServer(t *testing.T, signIn bool) (cfg Config, ended chan struct{}) {
	t.Helper()
	listener := check.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	ended = make(chan struct{}, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if signIn {
					welcome(conn)
				}
				_, _ = io.Copy(io.Discard, conn)
				ended <- struct{}{}
			}()
		}
	}()
	cfg = goodConfig()
	cfg.Host, cfg.Port = "127.0.0.1", listener.Addr().(*net.TCPAddr).Port
	return cfg, ended
}

// welcome reads the startup message and answers AuthenticationOk and
// ReadyForQuery.
func welcome(conn net.Conn) {
	var size [4]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(size[:]))-4)
	_, _ = conn.Write([]byte("R\x00\x00\x00\x08\x00\x00\x00\x00" + "Z\x00\x00\x00\x05I"))
}

func TestReadTimeout(t *testing.T) {
	t.Parallel()

	parallel(t, "EndsAStatementOfASilentServer", func(t *testing.T) {
		cfg, ended := silentServer(t, true)
		cfg.ReadTimeout = 50 * time.Millisecond
		db := openConfig(t, cfg)
		var one int
		err := db.Get(&one, "SELECT 1")
		var timeout net.Error
		check.True(t, errors.As(err, &timeout) && timeout.Timeout() && errors.Is(translate("get", err), entity.ErrUnavailable),
			"got %v, want a timeout that is called unavailable", err)
		<-ended
		check.Same(t, db.Stats().OpenConnections, 0, "open connections, want the silent one closed")
	})

	parallel(t, "EndsAWriteThatNobodyTakes", func(t *testing.T) {
		ours, theirs := net.Pipe() // has no buffer
		defer theirs.Close()
		n, err := (&timedConn{Conn: ours, limit: time.Millisecond}).Write(make([]byte, 3*writeChunk))
		var timeout net.Error
		check.True(t, n == 0 && errors.As(err, &timeout) && timeout.Timeout(), "got %d bytes, %v, want none and a timeout", n, err)
	})

	parallel(t, "WritesEverythingInParts", func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer theirs.Close()
		read := make(chan int64)
		go func() { n, _ := io.Copy(io.Discard, theirs); read <- n }()
		c := &timedConn{Conn: ours, limit: time.Minute}
		for _, size := range []int{0, 1, writeChunk, 2*writeChunk + 1} {
			check.Same(t, check.Must(c.Write(make([]byte, size)))(t), size, "want written")
		}
		_ = c.Close()
		check.Same(t, <-read, int64(1+writeChunk+2*writeChunk+1), "bytes at the other end")
	})

	parallel(t, "LeavesSigningInItsOwnLimit", func(t *testing.T) {
		cfg, ended := silentServer(t, false)
		cfg.ConnectTimeout, cfg.ReadTimeout = 50*time.Millisecond, time.Hour
		check.True(t, openConfig(t, cfg).Ping() != nil, "got no error, want one at connect_timeout")
		<-ended
	})

	parallel(t, "ZeroWaitsForEver", func(t *testing.T) {
		cfg, _ := silentServer(t, true)
		conn := check.Must(timedDialer{}.DialContext(t.Context(), "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port))))(t)
		defer conn.Close()
		if _, timed := conn.(*timedConn); timed {
			t.Error("got a connection with a limit, want none")
		}
	})
}
