package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"regexp"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// store is the product's own store on the database, whose statements go through
// rewrite on their way. The pool is the caller's to close.
func (d *database) store(rewrite func(string) string) (*postgres.Store, io.Closer, error) {
	c, err := pq.NewConnector(d.url.String())
	if err != nil {
		return nil, nil, fmt.Errorf("open the store: %w", err)
	}
	pool := sqlx.NewDb(sql.OpenDB(&rewriter{Connector: c, rewrite: rewrite}), "postgres")
	pool.SetMaxIdleConns(backlogWorkers + 1)
	return postgres.New(pool), pool, nil
}

func asItIs(query string) string { return query }

// auditInsert is the part of a statement that appends to the audit trail. What
// is left of it without that is a subquery that nobody asks for, which the server
// does not carry out.
var auditInsert = regexp.MustCompile(`INSERT INTO dlq\.audit \([^)]*\)`)

func withoutAudit(query string) string { return auditInsert.ReplaceAllString(query, "") }

// rewriter is a driver whose connections change the text of what is prepared.
type rewriter struct {
	driver.Connector
	rewrite func(string) string
}

func (r *rewriter) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &rewritten{conn, r.rewrite}, nil
}

// rewritten hides all that the driver's connection can beside preparing, so that
// every statement goes that way.
type rewritten struct {
	driver.Conn
	rewrite func(string) string
}

func (r *rewritten) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return r.Conn.(driver.ConnPrepareContext).PrepareContext(ctx, r.rewrite(query))
}
