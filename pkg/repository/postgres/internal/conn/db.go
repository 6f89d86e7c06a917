package conn

import (
	"context"
	"database/sql"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
)

// DB is a connection pool, with the prepared statements and the clock that all statements of a store share.
type DB struct {
	Pool *sqlx.DB

	now        func() time.Time // nil for the database's clock
	statements statements
}

// New returns a DB on a pool that Open returned. The function now replaces the database's clock if it is not nil.
func New(pool *sqlx.DB, now func() time.Time) *DB {
	return &DB{Pool: pool, now: now, statements: statements{prepared: map[string]*sqlx.Stmt{}, sizes: map[int64]int64{}}}
}

// Clock returns the argument of a statement for the current time. NULL lets the statement use the database's clock.
func (d *DB) Clock() any {
	if d.now == nil {
		return nil
	}
	return entity.TruncateTime(d.now())
}

// Prepared returns the prepared statement of a query, which it prepares once. lib/pq reads bytea as hex from plain
// queries and as binary from prepared ones, which makes claims a fifth and exports a half faster.
func (d *DB) Prepared(ctx context.Context, query string) (*sqlx.Stmt, error) {
	d.statements.watch(d.Pool)
	if st, _ := d.statements.get(query); st != nil {
		return st, nil
	}
	// No lock is held here, because a server that does not answer would then block every caller.
	made, err := d.Pool.PreparexContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return d.statements.keep(query, made), nil
}

// Select runs a prepared query into dest, a pointer to a slice.
func (d *DB) Select(ctx context.Context, dest any, query string, args ...any) error {
	return Retry(ctx, func() error {
		st, err := d.Prepared(ctx, query) //nolint:sqlclosecheck // it stays prepared
		if err != nil {
			return err
		}
		return st.SelectContext(ctx, dest, args...)
	})
}

// Exec runs a prepared statement that returns no rows.
func (d *DB) Exec(ctx context.Context, query string, args ...any) error {
	return Retry(ctx, func() error {
		st, err := d.Prepared(ctx, query) //nolint:sqlclosecheck // it stays prepared
		if err != nil {
			return err
		}
		_, err = st.ExecContext(ctx, args...)
		return err
	})
}

// SelectUnprepared runs a query without preparing it. PostgreSQL plans it for the values of its arguments.
func (d *DB) SelectUnprepared(ctx context.Context, dest any, query string, args ...any) error {
	return Retry(ctx, func() error { return d.Pool.SelectContext(ctx, dest, query, args...) })
}

// GetUnprepared runs a query that returns one value, without keeping it prepared.
func (d *DB) GetUnprepared(ctx context.Context, dest any, query string, args ...any) error {
	return Retry(ctx, func() error { return d.Pool.GetContext(ctx, dest, query, args...) })
}

// DeleteInBatches repeats a query that deletes one batch and returns its number of rows, until that number is 0.
func (d *DB) DeleteInBatches(ctx context.Context, where, query string, args ...any) (total int64, err error) {
	for {
		var n int64
		if err := d.GetUnprepared(ctx, &n, query, args...); err != nil {
			return total, Translate(where, err)
		}
		if total += n; n == 0 {
			return total, nil
		}
	}
}

// Each runs a prepared query, scans the columns of each row into destinations, and then calls do. It serves statements
// that return many rows a second, for which the reflection of Select would cost more than reading the rows.
func (d *DB) Each(ctx context.Context, query string, args, destinations []any, do func() error) error {
	return d.ReadRows(ctx, query, args, func(rows *sql.Rows) error {
		for rows.Next() {
			if err := rows.Scan(destinations...); err != nil {
				return err
			}
			if err := do(); err != nil {
				return err
			}
		}
		return nil
	})
}

// ReadRows runs a prepared query and calls read with its rows. Then it closes the rows and returns their error.
func (d *DB) ReadRows(ctx context.Context, query string, args []any, read func(*sql.Rows) error) error {
	rows, err := d.query(ctx, query, args)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // ReadRows returns the error of rows.Err
	if err := read(rows); err != nil {
		return err
	}
	return rows.Err()
}

// query runs a query as a prepared statement. When too many statements are kept, it prepares this one only for the
// call.
func (d *DB) query(ctx context.Context, query string, args []any) (*sql.Rows, error) {
	if known, full := d.statements.get(query); known != nil || !full { //nolint:sqlclosecheck // it stays prepared
		st, err := d.Prepared(ctx, query) //nolint:sqlclosecheck // it is kept for the next time
		if err != nil {
			return nil, err
		}
		return st.QueryContext(ctx, args...) //nolint:sqlclosecheck // the caller closes the rows
	}
	st, err := d.Pool.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = st.Close() }()    // runs after the rows are closed
	return st.QueryContext(ctx, args...) //nolint:sqlclosecheck // the caller closes the rows
}

// Written returns how far the database has written its log.
func (d *DB) Written(ctx context.Context) (Position, error) { return d.position(ctx, writtenQuery) }

// Inserted returns the position after all changes that were made before the call, also after those that the database has
// not written yet.
func (d *DB) Inserted(ctx context.Context) (Position, error) { return d.position(ctx, insertedQuery) }

// Replayed returns how far a replica has replayed the log of its database.
func (d *DB) Replayed(ctx context.Context) (Position, error) { return d.position(ctx, replayedQuery) }

func (d *DB) position(ctx context.Context, query string) (Position, error) {
	var text *string
	if err := d.Pool.GetContext(ctx, &text, query); err != nil {
		return Position{}, err
	}
	if text == nil {
		return Position{}, ErrNoReplica
	}
	return parsePosition(*text)
}
