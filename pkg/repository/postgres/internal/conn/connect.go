package conn

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
	"go.opentelemetry.io/otel/trace"

	"github.com/dlq-manager/dlq-manager/pkg/secret"
	"github.com/dlq-manager/dlq-manager/pkg/traces"
	"github.com/dlq-manager/dlq-manager/pkg/wait"
)

// Open returns a pool of connections to the database. It opens no connection; see WaitReady. The pool returns times in
// UTC and sends []byte arguments in binary form.
//
// The credentials are read for every new connection; see secret.Rotation. A connection stays usable when the password
// is changed, but not when its role is dropped: then its statements fail with 42501 (permission denied). The pool sends
// such a statement again on a new connection, and closes all older connections. It also closes them when the
// credentials name another user. So a statement outside of a transaction may be sent more than once.
//
// When the server sends nothing for cfg.ReadTimeout during a statement, the connection is closed; the error is a
// net.Error whose Timeout is true. Set cfg.ReadTimeout to 0 for long statements, such as migrations.
//
// While the pool opens new connections, it keeps its idle ones. When it has opened none for a while, it closes idle
// connections until cfg.MaxIdleConns are left.
//
// No returned error contains a password.
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
	db := sqlx.NewDb(openPool(c, c.traces, cfg.Name), "postgres")
	c.idle = &idle{pool: db, few: cfg.MaxIdleConns, most: cfg.MaxOpenConns}
	db.SetMaxOpenConns(cfg.MaxOpenConns)
	db.SetMaxIdleConns(cfg.MaxIdleConns)
	db.SetConnMaxLifetime(shorten(cfg.ConnMaxLifetime, rand.Float64()))
	return db, nil
}

// OpenOption changes the connections of the pool that Open returns.
type OpenOption func(*connector)

// WithTracing creates a span for every statement, and for every new connection, when the context has a recorded span. A
// span contains the name of the Store's method and the result of the statement, and ends when the first row arrives. It
// contains neither the SQL nor the arguments of the statement, because these may contain text of dead letters. The
// provider must drop the events of spans, because the tracing library writes error texts into them, which may contain
// text of dead letters.
func WithTracing(provider trace.TracerProvider) OpenOption {
	return func(c *connector) {
		if traces.Tracer(provider, "") != nil {
			c.traces = provider
		}
	}
}

// shorten returns a lifetime that is shorter by a random part of at most a tenth. Without it, processes that were
// started together would always renew their connections at the same time.
func shorten(lifetime time.Duration, random float64) time.Duration {
	return lifetime - time.Duration(random*float64(lifetime)/10)
}

// tlsFilesExist returns an error when a configured TLS file is missing. It is called for each connection. When the file
// of the root certificate is missing, the driver would connect as if no file were configured, and verify less than the
// operator wants.
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
	idle   *idle                // nil when the connections do not belong to a pool
	traces trace.TracerProvider // nil when no spans are made

	logins     *secret.Rotation[credentials]
	generation atomic.Int64 // generation of new connections; connections of an earlier generation are closed
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
		var network net.Conn
		c.Dialer(timedDialer{limit: readTimeout, dialed: func(c net.Conn) { network = c }})
		made, err := c.Connect(ctx)
		if able, ok := made.(driverConn); ok && err == nil {
			return &networkConn{able, network}, nil
		}
		return made, err
	}
}

// networkConn is a connection of the driver, together with the network connection over which the driver sends.
type networkConn struct {
	driverConn
	network net.Conn
}

// Driver is part of driver.Connector.
func (c *connector) Driver() driver.Driver { return &pq.Driver{} }

// Connect opens one connection. Translate gives its errors the kind entity.ErrUnavailable, unless the context was
// cancelled, because no statement has been sent yet.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.connect(ctx)
	if s, ok := conn.(*session); ok && err == nil && c.retired(s.generation) { // the role was dropped while this connection was opened
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

// session wraps a connection of the driver in a session, which detects that the connection's role was dropped or
// replaced.
func (c *connector) session(conn driver.Conn, as credentials, generation int64) driver.Conn {
	able, ok := conn.(driverConn)
	if !ok {
		return conn
	}
	made := &session{driverConn: able, of: c, user: as.user, generation: generation}
	if dialed, ok := able.(*networkConn); ok {
		made.driverConn, made.network = dialed.driverConn, dialed.network
	}
	return made
}

// retire makes the pool close all connections that exist now: idle ones at once, connections in use when they return to
// the pool. It returns the generation of connections that are opened later.
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

// rejected reports whether the server refused the credentials.
func rejected(err error) bool {
	var answer *pq.Error
	return errors.As(err, &answer) && (answer.Code == "28P01" || answer.Code == "28000")
}

// pq returns the parameters for the driver as a struct. A connection string would need quoting, and would let
// environment variables such as PGOPTIONS change it.
func (c Config) pq(as credentials) pq.Config {
	mode := pq.SSLMode(c.SSLMode)
	if filepath.IsAbs(c.Host) || strings.HasPrefix(c.Host, "@") {
		mode = pq.SSLModeDisable // a Unix socket uses no TLS
	}
	return pq.Config{
		Host:               c.Host,
		Port:               uint16(c.Port), // Validate has checked the range
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
		// Compiling plans (jit) takes longer than it saves for the statements of this package.
		Runtime: map[string]string{"timezone": "UTC", "jit": "off"},
	}
}

// readyPause is the time that WaitReady waits between two tries.
const readyPause = 500 * time.Millisecond

// WaitReady tries to reach the database until it answers or the timeout has passed. After the timeout it returns an
// error of one line, with the last reason and with host:port/name of the database. It also tries again when the server
// has refused the credentials, because a sidecar may not have written them yet.
func WaitReady(ctx context.Context, db *sqlx.DB, timeout time.Duration) error {
	switch err := wait.Ready(ctx, timeout, readyPause, db.PingContext); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("wait for database: %w", err)
	default:
		return fmt.Errorf("database is not ready after %s: %w", timeout, err)
	}
}

// quiet is the time after which a pool that has opened no connection reduces its idle connections to the configured
// number again.
const quiet = 30 * time.Second

// pool is the part of *sql.DB that the type idle uses.
type pool interface{ SetMaxIdleConns(n int) }

// idle makes a busy pool keep the connections that it has opened. Normally a pool closes each unused connection that
// exceeds its limit of idle connections. With more concurrent requests than this limit it would open and close
// connections all the time, and opening one costs more than a request.
type idle struct {
	pool      pool
	few, most int

	mu     sync.Mutex
	timer  *time.Timer
	last   time.Time // time at which the pool last opened a connection
	raised bool
}

// opened must be called when the pool opens a connection. It raises the limit of idle connections.
func (i *idle) opened() {
	if i.few == 0 || i.few >= i.most { // no idle connections are kept, or all of them, so the limit stays
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last = time.Now()
	if !i.raised {
		i.raised = true
		i.pool.SetMaxIdleConns(i.most)
	}
	if i.timer == nil {
		i.timer = time.AfterFunc(quiet, i.settle)
		return
	}
	i.timer.Reset(quiet)
}

// settle is called when the timer ends, and lowers the limit of idle connections. It checks the time again, because the
// pool may have opened a connection while settle waited for the lock.
func (i *idle) settle() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.last) < quiet {
		return
	}
	i.raised = false
	i.pool.SetMaxIdleConns(i.few)
}

// drop closes the connections that are idle now.
func (i *idle) drop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pool.SetMaxIdleConns(0)
	if i.raised {
		i.pool.SetMaxIdleConns(i.most)
	} else {
		i.pool.SetMaxIdleConns(i.few)
	}
}

// timedDialer makes connections whose reads and writes have a time limit. lib/pq waits for the answer of the server
// even after the statement's context has ended. Without the limit, a server that has stopped answering would block
// every caller.
type timedDialer struct {
	plain  net.Dialer
	limit  time.Duration  // maximum time of one read, or of one chunk of a write; 0 for no limit
	dialed func(net.Conn) // called with each network connection that was opened
}

// Dial implements pq.Dialer.
func (d timedDialer) Dial(network, address string) (net.Conn, error) {
	return d.DialContext(context.Background(), network, address)
}

// DialTimeout implements pq.Dialer.
func (d timedDialer) DialTimeout(network, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return d.DialContext(ctx, network, address)
}

// DialContext implements pq.DialerContext, which the driver prefers to pq.Dialer.
func (d timedDialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := d.plain.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.dialed(c)
	if d.limit <= 0 {
		return c, nil
	}
	return &timedConn{Conn: c, limit: d.limit}, nil
}

// timedConn applies the same time limit to every read and to every chunk of a write. It returns the errors of package
// net unchanged, because the driver recognises a broken connection by them.
type timedConn struct {
	net.Conn
	limit time.Duration
	until time.Time // deadline that the driver sets while it signs in
}

// SetDeadline sets the time at which all reads and writes must end, in addition to the limit; the zero time sets none.
func (c *timedConn) SetDeadline(t time.Time) error {
	c.until = t
	return c.Conn.SetDeadline(t)
}

// Read waits for at most the time limit. After a timeout the connection must not be used any more: a late answer would
// be taken for the answer to the next statement.
func (c *timedConn) Read(b []byte) (int, error) {
	if err := c.SetReadDeadline(c.deadline()); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	return n, c.closeOnTimeout(err)
}

// writeChunk is the number of bytes that must be sent within the time limit of timedConn. The limit applies to each
// chunk of this size and not to the whole write, because on a slow network a large record takes long even if nothing
// hangs.
const writeChunk = 64 << 10

// Write sends b in chunks, and applies the limit to each chunk.
func (c *timedConn) Write(b []byte) (written int, err error) {
	for first := true; first || len(b) > 0; first = false {
		part := b[:min(len(b), writeChunk)]
		if err := c.SetWriteDeadline(c.deadline()); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(part)
		written += n
		if err != nil {
			return written, c.closeOnTimeout(err)
		}
		b = b[n:]
	}
	return written, nil
}

func (c *timedConn) deadline() time.Time {
	deadline := time.Now().Add(c.limit)
	if !c.until.IsZero() && c.until.Before(deadline) {
		return c.until
	}
	return deadline
}

func (c *timedConn) closeOnTimeout(err error) error {
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() { //nolint:errorlint // package net does not wrap this error
		_ = c.Close()
	}
	return err
}
