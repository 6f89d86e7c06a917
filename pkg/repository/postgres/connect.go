package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// Open returns a pool for the database without connecting to it; WaitReady
// does that. Times come back in UTC, []byte arguments are sent as bytes.
//
// Every new connection reads the password again, so replaced credentials are
// used from the next connection on. Open connections outlive a changed
// password. They do not outlive a dropped role: statements on them then fail
// with 42501 (permission denied) although nothing is wrong with the grants, so
// whoever sees 42501 must discard the connection and try once on a new one.
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
func Open(cfg Config) (*sqlx.DB, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	if err := tlsFilesExist(cfg); err != nil {
		return nil, err
	}
	c := &connector{cfg: cfg, dial: dialPQ(cfg.ReadTimeout)}
	db := sqlx.NewDb(sql.OpenDB(c), "postgres")
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

// tlsFilesExist is asked at start because the driver takes a missing root
// certificate for none at all, and then checks less than it was told to.
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
	cfg  Config
	dial func(context.Context, pq.Config) (driver.Conn, error)
	idle *idle // nil: of no pool
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

// Connect opens one connection. When the server does not accept the
// credentials, they are read once more: the file may have been replaced
// between our reading and the server's check.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	used, err := c.cfg.credentials()
	if err != nil {
		return nil, c.where(err)
	}
	if c.idle != nil {
		c.idle.opened()
	}
	conn, err := c.dial(ctx, c.cfg.pq(used))
	if !rejected(err) || !c.cfg.rotates() {
		return conn, c.where(err)
	}
	fresh, readErr := c.cfg.credentials()
	if readErr != nil || fresh == used {
		return nil, c.where(err)
	}
	conn, err = c.dial(ctx, c.cfg.pq(fresh))
	return conn, c.where(err)
}

func (c *connector) where(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("connect to database %s: %w", c.cfg.Address(), err)
}

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
		Runtime:            map[string]string{"timezone": "UTC"},
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
		pause := time.NewTimer(readyPause)
		select {
		case <-pause.C:
			continue
		case <-ctx.Done():
			pause.Stop()
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("database is not ready after %s: %w", timeout, last)
		}
		return fmt.Errorf("wait for database: %w", ctx.Err())
	}
}
