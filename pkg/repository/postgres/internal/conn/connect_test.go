package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

var errDialled = errors.New("no real connection in this test")

// dialled returns a connector whose function dial records the configuration of each call and returns the next of the
// given errors; after the last of them it returns that one again. It also returns the list of recorded configurations.
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

	postgrestest.Parallel(t, "ReadsTheFileForEveryConnection", func(t *testing.T) {
		c, seen := dialled(fileConfig(t, "one"), errDialled)
		_, _ = c.Connect(t.Context())
		postgrestest.WriteSecret(t, c.cfg.PasswordFile, "two\n")
		_, _ = c.Connect(t.Context())
		wantPasswords(t, *seen, "one", "two")
	})

	for _, code := range []string{"28P01", "28000"} {
		postgrestest.Parallel(t, "TriesOnceMoreWithFreshCredentials/"+code, func(t *testing.T) {
			c, seen := dialled(fileConfig(t, "old"))
			c.dial = func(_ context.Context, p pq.Config) (driver.Conn, error) {
				*seen = append(*seen, p)
				postgrestest.WriteSecret(t, c.cfg.PasswordFile, fmt.Sprintf("new%d", len(*seen)))
				return nil, &pq.Error{Code: pqerror.Code(code)}
			}
			if _, err := c.Connect(t.Context()); !rejected(err) {
				t.Errorf("got %v, want the server's refusal", err)
			}
			wantPasswords(t, *seen, "old", "new1")
		})
	}

	postgrestest.Parallel(t, "DoesNotRepeatTheSameCredentials", func(t *testing.T) {
		c, seen := dialled(fileConfig(t, "same"), refused)
		_, _ = c.Connect(t.Context())
		wantPasswords(t, *seen, "same")
	})

	postgrestest.Parallel(t, "DoesNotTryAgainForOtherReasons", func(t *testing.T) {
		c, seen := dialled(fileConfig(t, "p"), &pq.Error{Code: "53300"})
		_, _ = c.Connect(t.Context())
		wantPasswords(t, *seen, "p")
	})

	postgrestest.Parallel(t, "NamesTheDatabaseAndKeepsTheCause", func(t *testing.T) {
		c, _ := dialled(goodConfig(), errDialled)
		_, err := c.Connect(t.Context())
		check.True(t, errors.Is(err, errDialled) && strings.Contains(err.Error(), "db.internal:5432/dlq_db"),
			"got %v, want %v with the address", err, errDialled)
	})
}

func TestOpen(t *testing.T) {
	t.Parallel()

	postgrestest.Parallel(t, "DoesNotDial", func(t *testing.T) {
		c := goodConfig()
		c.Host, c.PasswordFile = "host.invalid", "/no/such/file"
		db := check.Must(Open(c))(t)
		defer db.Close()
		check.Same(t, db.Stats().MaxOpenConnections, 25, "connections")
	})

	postgrestest.Parallel(t, "RefusesBadConfig", func(t *testing.T) {
		check.Says(t, check.Err(Open(Config{})), "host is empty", "want host is empty")
	})

	postgrestest.Parallel(t, "RefusesAMissingRootCertificate", func(t *testing.T) {
		c := goodConfig()
		c.SSLMode, c.SSLRootCert = "require", "/no/such/root.crt"
		check.Says(t, check.Err(Open(c)), "/no/such/root.crt", "want an error naming the file")
	})

	postgrestest.Parallel(t, "ShortensLifetimesByATenthAtMost", func(t *testing.T) {
		for random, want := range map[float64]time.Duration{0: 100 * time.Second, 0.5: 95 * time.Second, 1: 90 * time.Second} {
			check.Same(t, shorten(100*time.Second, random), want, "%v", random)
		}
		check.Same(t, shorten(0, 1), 0, "no limit")
	})
}

// starting is a fake connector for a server that is starting: the first connections are refused, and a later one is
// accepted.
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

	postgrestest.Parallel(t, "WaitsForALateServer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server := &starting{refusals: 40}
			db := sqlx.NewDb(sql.OpenDB(server), "postgres")
			defer db.Close()
			check.NoError(t, WaitReady(t.Context(), db, 30*time.Second))
			check.Same(t, server.asked, 41, "asked times")
		})
	})

	postgrestest.Parallel(t, "GivesUpWithTheLastReason", func(t *testing.T) {
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

	postgrestest.Parallel(t, "EndsWithItsContext", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			db := sqlx.NewDb(sql.OpenDB(&starting{refusals: 1 << 30}), "postgres")
			defer db.Close()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(3*time.Second, cancel)
			check.Is(t, WaitReady(ctx, db, 30*time.Second), context.Canceled, "WaitReady of a cancelled context")
		})
	})

	postgrestest.Parallel(t, "NamesTheAddressOfADeadServer", func(t *testing.T) {
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
	postgrestest.WriteSecret(t, c.PasswordFile, password)
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

type idlePool struct{ kept []int }

func (p *idlePool) SetMaxIdleConns(n int) { p.kept = append(p.kept, n) }

func (p *idlePool) now() int { return p.kept[len(p.kept)-1] }

// While a pool opens new connections, it keeps all of its idle connections. When it has opened none for some time, it
// keeps only the configured number.
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
		i.settle() // a late call of the timer: the pool has opened a connection meanwhile
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

// silentServer accepts every connection and then sends nothing, like a PostgreSQL whose processes are suspended. When
// signIn is true, it first lets the client sign in. The channel ended receives a value for each connection that the
// client closes.
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

// welcome reads the startup message, and answers with AuthenticationOk and ReadyForQuery.
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

	postgrestest.Parallel(t, "EndsAStatementOfASilentServer", func(t *testing.T) {
		cfg, ended := silentServer(t, true)
		cfg.ReadTimeout = 50 * time.Millisecond
		db := openConfig(t, cfg)
		var one int
		err := db.Get(&one, "SELECT 1")
		var timeout net.Error
		check.True(t, errors.As(err, &timeout) && timeout.Timeout() && errors.Is(Translate("get", err), entity.ErrUnavailable),
			"got %v, want a timeout that is called unavailable", err)
		<-ended
		check.Same(t, db.Stats().OpenConnections, 0, "open connections, want the silent one closed")
	})

	postgrestest.Parallel(t, "EndsAWriteThatNobodyTakes", func(t *testing.T) {
		ours, theirs := net.Pipe() // a write to either end blocks until the other end reads, because a pipe has no buffer
		defer theirs.Close()
		n, err := (&timedConn{Conn: ours, limit: time.Millisecond}).Write(make([]byte, 3*writeChunk))
		var timeout net.Error
		check.True(t, n == 0 && errors.As(err, &timeout) && timeout.Timeout(), "got %d bytes, %v, want none and a timeout", n, err)
	})

	postgrestest.Parallel(t, "WritesEverythingInParts", func(t *testing.T) {
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

	postgrestest.Parallel(t, "LeavesSigningInItsOwnLimit", func(t *testing.T) {
		cfg, ended := silentServer(t, false)
		cfg.ConnectTimeout, cfg.ReadTimeout = 50*time.Millisecond, time.Hour
		check.True(t, openConfig(t, cfg).Ping() != nil, "got no error, want one at connect_timeout")
		<-ended
	})

	postgrestest.Parallel(t, "ZeroWaitsForEver", func(t *testing.T) {
		cfg, _ := silentServer(t, true)
		conn := check.Must(timedDialer{dialed: func(net.Conn) {}}.DialContext(t.Context(), "tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port))))(t)
		defer conn.Close()
		if _, timed := conn.(*timedConn); timed {
			t.Error("got a connection with a limit, want none")
		}
	})
}
