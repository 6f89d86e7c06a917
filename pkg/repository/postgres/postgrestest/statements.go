package postgrestest

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// Statements counts the statements that a pool sends. It is safe for concurrent use.
type Statements struct {
	trips, prepared atomic.Int64
}

// Trips returns the number of round trips to the server. Each statement, each beginning and each end of a transaction
// is one round trip. Preparing a statement does not count, because it happens only once for each connection, and
// neither does a query of the sizes of tables.
func (s *Statements) Trips() int64 { return s.trips.Load() }

// Prepared returns how many times the pool has prepared a statement.
func (s *Statements) Prepared() int64 { return s.prepared.Load() }

// Of calls the function do and returns the number of round trips that it caused.
func (s *Statements) Of(do func()) int64 {
	before := s.Trips()
	do()
	return s.Trips() - before
}

// OpenCounted opens a new database as Open does, and also counts the statements that the pool sends.
func OpenCounted(t testing.TB) (*sqlx.DB, *Statements) {
	t.Helper()
	inner, err := pq.NewConnector(URL(t))
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	n := &Statements{}
	db := sqlx.NewDb(sql.OpenDB(countedConnector{inner, n}), "postgres")
	t.Cleanup(func() { _ = db.Close() })
	return db, n
}

type countedConnector struct {
	driver.Connector
	n *Statements
}

func (c countedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countedConn{conn, c.n}, nil
}

// errIncapable says that the driver's connection does not implement an interface that countedConn needs.
var errIncapable = errors.New("the driver cannot do that")

// countedConn wraps a connection of the driver and counts its statements. It implements the optional interfaces of
// connections, and passes their calls on to the driver.
type countedConn struct {
	driver.Conn
	n *Statements
}

func (c countedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := c.Conn.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	if !strings.Contains(query, "pg_relation_size") { // a query of the sizes of tables does not count, because the store sends it at intervals
		c.n.trips.Add(1)
	}
	return q.QueryContext(ctx, query, args)
}

func (c countedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	e, ok := c.Conn.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	c.n.trips.Add(1)
	return e.ExecContext(ctx, query, args)
}

func (c countedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	p, ok := c.Conn.(driver.ConnPrepareContext)
	if !ok {
		return nil, errIncapable
	}
	c.n.prepared.Add(1)
	st, err := p.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return countedStmt{st, c.n}, nil
}

func (c countedConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	b, ok := c.Conn.(driver.ConnBeginTx)
	if !ok {
		return nil, errIncapable
	}
	c.n.trips.Add(1)
	tx, err := b.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	return countedTx{tx, c.n}, nil
}

func (c countedConn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c countedConn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !ok || v.IsValid()
}

func (c countedConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type countedStmt struct {
	driver.Stmt
	n *Statements
}

func (s countedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	q, ok := s.Stmt.(driver.StmtQueryContext)
	if !ok {
		return nil, errIncapable
	}
	s.n.trips.Add(1)
	return q.QueryContext(ctx, args)
}

func (s countedStmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	e, ok := s.Stmt.(driver.StmtExecContext)
	if !ok {
		return nil, errIncapable
	}
	s.n.trips.Add(1)
	return e.ExecContext(ctx, args)
}

func (s countedStmt) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type countedTx struct {
	driver.Tx
	n *Statements
}

func (t countedTx) Commit() error {
	t.n.trips.Add(1)
	return t.Tx.Commit()
}

func (t countedTx) Rollback() error {
	t.n.trips.Add(1)
	return t.Tx.Rollback()
}
