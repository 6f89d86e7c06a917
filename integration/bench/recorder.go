package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// statement is what the product asks of the database: a query and its arguments
// as the driver gets them.
type statement struct {
	query string
	args  []any
}

// recorder is a driver that remembers the last prepared query.
type recorder struct {
	driver.Connector
	mu   sync.Mutex
	last statement
}

// recorded returns the last query that the product's own store prepares and runs
// for do: the one that reads what was asked for.
func (d *database) recorded(do func(*postgres.Store) error) (statement, error) {
	c, err := pq.NewConnector(d.url.String())
	if err != nil {
		return statement{}, fmt.Errorf("record a statement: %w", err)
	}
	r := &recorder{Connector: c}
	pool := sqlx.NewDb(sql.OpenDB(r), "postgres")
	defer func() { _ = pool.Close() }()
	if err := do(postgres.New(pool)); err != nil {
		return statement{}, fmt.Errorf("record a statement: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.query == "" {
		return statement{}, errors.New("record a statement: nothing was asked")
	}
	return r.last, nil
}

func (r *recorder) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &recordedConn{Conn: conn, to: r}, nil
}

// recordedConn passes on all that the product uses of a connection.
type recordedConn struct {
	driver.Conn
	to *recorder
}

func (c *recordedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return &recordedStmt{Stmt: stmt, query: query, to: c.to}, nil
}

func (c *recordedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c *recordedConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, opts)
}

type recordedStmt struct {
	driver.Stmt
	query string
	to    *recorder
}

func (s *recordedStmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	last := statement{query: s.query}
	for _, a := range args {
		if bytes, ok := a.Value.([]byte); ok {
			a.Value = slices.Clone(bytes)
		}
		last.args = append(last.args, a.Value)
	}
	s.to.mu.Lock()
	s.to.last = last
	s.to.mu.Unlock()
	return s.Stmt.(driver.StmtQueryContext).QueryContext(ctx, args)
}

// readAll runs a prepared query and takes every column of every row out of the
// driver. It returns the number of rows.
func readAll(ctx context.Context, stmt *sql.Stmt, args ...any) (n int, err error) {
	rows, err := stmt.QueryContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		return 0, err
	}
	values := make([]any, len(names))
	into := make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return n, err
		}
		n++
	}
	return n, rows.Err()
}
