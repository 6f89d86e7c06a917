package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Open returns a pool for the database without connecting to it; WaitReady
// does that. Times come back in UTC, []byte arguments are sent as bytes.
//
// Every new connection reads the credentials again, see secret.Rotation for what
// happens when the file is not what the server wants. Open connections outlive a
// changed password. They do not outlive a dropped role: statements on them fail with
// 42501 (permission denied) although nothing is wrong with the grants. Such a
// statement is tried again on a new connection, and all connections from before are
// thrown away, as they are when the credentials name another user. So every
// statement outside of a transaction may be sent more than once.
//
// A server that says nothing for cfg.ReadTimeout in the middle of a statement
// loses its connection, and the statement fails with a net.Error that is a
// timeout. Whoever runs statements that are silent for long, such as migrations,
// sets it to 0.
//
// The pool keeps every connection that it opened until it has opened none for a
// while; then it keeps cfg.MaxIdleConns idle ones.
//
// No error holds a password.
func Open(cfg Config, options ...OpenOption) (*sqlx.DB, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	if err := tlsFilesExist(cfg); err != nil {
		return nil, err
	}
	c := newConnector(cfg, dialPQ(cfg.ReadTimeout))
	for _, change := range options {
		change(c)
	}
	db := sqlx.NewDb(c.open(), "postgres")
	c.idle = &idle{pool: db, few: cfg.MaxIdleConns, most: cfg.MaxOpenConns}
	db.SetMaxOpenConns(cfg.MaxOpenConns)
	db.SetMaxIdleConns(cfg.MaxIdleConns)
	db.SetConnMaxLifetime(shorten(cfg.ConnMaxLifetime, rand.Float64()))
	return db, nil
}

// shorten takes up to a tenth off a lifetime. Replicas that were started
// together would otherwise all renew their connections together, for ever.
func shorten(lifetime time.Duration, random float64) time.Duration {
	return lifetime - time.Duration(random*float64(lifetime)/10)
}

// tlsFilesExist is asked for each connection because the driver takes a missing
// root certificate for none at all, and then checks less than it was told to.
func tlsFilesExist(cfg Config) error {
	var errs []error
	for _, path := range []string{cfg.SSLRootCert, cfg.SSLCert, cfg.SSLKey} {
		if path == "" || path == "system" || cfg.SSLMode == "disable" {
			continue
		}
		if _, err := os.Stat(path); err != nil {
			errs = append(errs, fmt.Errorf("database: %w", err))
		}
	}
	return errors.Join(errs...)
}

// connector opens the pool's connections.
type connector struct {
	cfg    Config
	dial   func(context.Context, pq.Config) (driver.Conn, error)
	idle   *idle                // nil: of no pool
	traces trace.TracerProvider // nil: there are no spans

	logins     *secret.Rotation[credentials]
	generation atomic.Int64 // connections of an earlier one are thrown away
}

func newConnector(cfg Config, dial func(context.Context, pq.Config) (driver.Conn, error)) *connector {
	return &connector{cfg: cfg, dial: dial, logins: secret.NewRotation(cfg.credentials)}
}

func dialPQ(readTimeout time.Duration) func(context.Context, pq.Config) (driver.Conn, error) {
	return func(ctx context.Context, cfg pq.Config) (driver.Conn, error) {
		c, err := pq.NewConnectorConfig(cfg)
		if err != nil {
			return nil, err
		}
		c.Dialer(timedDialer{limit: readTimeout})
		return c.Connect(ctx)
	}
}

// Driver is part of driver.Connector.
func (c *connector) Driver() driver.Driver { return &pq.Driver{} }

// Connect opens one connection. Its errors say that the database is unavailable:
// none of them is about a statement.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.connect(ctx)
	if s, ok := conn.(*session); ok && err == nil && c.retired(s.generation) { // meanwhile its role was dropped
		_ = conn.Close()
		conn, err = c.connect(ctx)
	}
	if err != nil {
		return nil, &connectError{c.cfg.Address(), err}
	}
	return conn, nil
}

func (c *connector) connect(ctx context.Context) (driver.Conn, error) {
	if err := tlsFilesExist(c.cfg); err != nil {
		return nil, err
	}
	if c.idle != nil {
		c.idle.opened()
	}
	generation, before := c.generation.Load(), c.logins.Accepted()
	var conn driver.Conn
	try := func(as credentials) (err error) {
		conn, err = c.dial(ctx, c.cfg.pq(as))
		return err
	}
	if !c.cfg.rotates() {
		err := try(credentials{c.cfg.User, c.cfg.Password})
		return c.session(conn, credentials{user: c.cfg.User}, generation), err
	}
	as, err := c.logins.SignIn(ctx, rejected, try)
	if err != nil {
		return nil, err
	}
	if before.user != "" && before.user != as.user {
		generation = c.retire()
	}
	return c.session(conn, as, generation), nil
}

// session is the driver's connection with what is needed to see its end.
func (c *connector) session(conn driver.Conn, as credentials, generation int64) driver.Conn {
	able, ok := conn.(driverConn)
	if !ok {
		return conn
	}
	return &session{driverConn: able, of: c, user: as.user, generation: generation}
}

// retire throws away every connection there is, those in use when they go back to
// the pool. It returns the generation of those that come.
func (c *connector) retire() int64 {
	next := c.generation.Add(1)
	c.dropIdle()
	return next
}

func (c *connector) retired(generation int64) bool { return generation < c.generation.Load() }

func (c *connector) dropIdle() {
	if c.idle != nil {
		c.idle.drop()
	}
}

// connectError is what no connection came of. It says where.
type connectError struct {
	address string
	err     error
}

func (e *connectError) Error() string {
	return "connect to database " + e.address + ": " + strings.ReplaceAll(e.err.Error(), "\n", "; ")
}

func (e *connectError) Unwrap() error { return e.err }

// rejected says that the server knows us and does not let us in.
func rejected(err error) bool {
	var answer *pq.Error
	return errors.As(err, &answer) && (answer.Code == "28P01" || answer.Code == "28000")
}

// pq gives the driver its parameters as a struct. A connection string would
// need quoting, and would let PGOPTIONS and its like reach in from outside.
func (c Config) pq(as credentials) pq.Config {
	mode := pq.SSLMode(c.SSLMode)
	if filepath.IsAbs(c.Host) || strings.HasPrefix(c.Host, "@") {
		mode = pq.SSLModeDisable // a socket in the file system has no TLS
	}
	return pq.Config{
		Host:               c.Host,
		Port:               uint16(c.Port), // Validate keeps it in range
		Database:           c.Name,
		User:               as.user,
		Password:           as.password.Reveal(),
		SSLMode:            mode,
		SSLRootCert:        c.SSLRootCert,
		SSLCert:            c.SSLCert,
		SSLKey:             c.SSLKey,
		SSLSNI:             true,
		ConnectTimeout:     c.ConnectTimeout,
		ApplicationName:    "dlq-manager",
		BinaryParameters:   true,
		ClientEncoding:     "UTF8",
		Datestyle:          "ISO, MDY",
		MinProtocolVersion: pq.ProtocolVersion30,
		MaxProtocolVersion: pq.ProtocolVersion30,
		// To compile a plan takes longer than any of our statements gains by it.
		Runtime: map[string]string{"timezone": "UTC", "jit": "off"},
	}
}

// readyPause is how long WaitReady rests between two tries.
const readyPause = 500 * time.Millisecond

// WaitReady tries to reach the database until it answers or the timeout has
// passed; then the error is one line with the last reason, which for a pool
// made by Open names host:port/name. Refused credentials are tried again like
// everything else: at start a sidecar may still be fetching them.
func WaitReady(ctx context.Context, db *sqlx.DB, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	var last error
	for {
		err := db.PingContext(ctx)
		if err == nil {
			return nil
		}
		// The deadline is not a reason; what went wrong before it is.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		if wait.Sleep(ctx, readyPause) {
			continue
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("database is not ready after %s: %w", timeout, last)
		}
		return fmt.Errorf("wait for database: %w", ctx.Err())
	}
}
