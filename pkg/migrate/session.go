package migrate

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/postgres"
	"github.com/golang-migrate/migrate/v4/source/iofs"
)

const (
	versionSchema = "dlq_migrations"
	versionTable  = versionSchema + ".schema_migrations"

	// lockKey is "dlq_migr" in ASCII. The key need not be unique on the server, because an advisory lock belongs to one
	// database.
	lockKey = 0x646c715f6d696772
	// lockPoll is the pause between two tries of a waiting migrator to get the lock.
	lockPoll = 200 * time.Millisecond
)

// locked calls the function do on a connection that holds the migrators' lock, and passes it the schema's present
// version. Afterwards it closes the connection: this always releases the lock, and a SET in a migration cannot affect
// later users of the pool.
func (r runner) locked(ctx context.Context, db *sql.DB, do func(m *migrate.Migrate, at uint) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return fmt.Errorf("connect to migrate: %w", err)
	}
	defer discard(conn)

	if err := lock(ctx, conn); err != nil {
		return err
	}
	m, steps, err := r.engine(ctx, conn)
	if err != nil {
		return err
	}
	at, dirty, err := m.Version()
	switch {
	case errors.Is(err, migrate.ErrNilVersion):
		at = 0
	case err != nil:
		return fmt.Errorf("read schema version: %w", err)
	}
	if err := r.checkNumbering(ctx, conn, at); err != nil {
		return err
	}
	if dirty {
		return &DirtyError{Version: at}
	}
	return plain(ctx, do(m, at), steps)
}

func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

// lock takes the migrators' lock. It polls and does not wait in pg_advisory_lock, because a waiting statement holds a
// snapshot: if the migrator that has the lock runs CREATE INDEX CONCURRENTLY, that statement would wait for the
// snapshot forever.
func lock(ctx context.Context, conn *sql.Conn) error {
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		var ours bool
		if err := conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(lockKey)).Scan(&ours); err != nil {
			return fmt.Errorf("lock the schema: %w", err)
		}
		if ours {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("another migrator is at work: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func (r runner) engine(ctx context.Context, conn *sql.Conn) (*migrate.Migrate, *steps, error) {
	if err := makeVersionSchema(ctx, conn); err != nil {
		return nil, nil, err
	}
	files, err := iofs.New(r.files, ".")
	if err != nil {
		return nil, nil, fmt.Errorf("read migrations: %w", err)
	}
	db, err := postgres.WithConnection(ctx, conn, &postgres.Config{SchemaName: versionSchema})
	if err != nil {
		return nil, nil, fmt.Errorf("prepare version table: %w", err)
	}
	s := &steps{Postgres: db, ctx: ctx, conn: conn}
	m, err := migrate.NewWithInstance("embedded", files, "postgres", s)
	if err != nil {
		return nil, nil, fmt.Errorf("prepare migrations: %w", err)
	}
	return m, s, nil
}

// makeVersionSchema creates the schema of the version table if it does not exist. It first checks whether the schema
// exists, because CREATE SCHEMA IF NOT EXISTS requires the right to create a schema even if it exists. The caller holds
// the migrators' lock, so no other migrator creates the schema meanwhile.
func makeVersionSchema(ctx context.Context, conn *sql.Conn) error {
	var exists bool
	if err := conn.QueryRowContext(ctx, `SELECT to_regnamespace($1) IS NOT NULL`, versionSchema).Scan(&exists); err != nil {
		return fmt.Errorf("look for schema %s: %w", versionSchema, err)
	}
	if exists {
		return nil
	}
	if _, err := conn.ExecContext(ctx, `CREATE SCHEMA IF NOT EXISTS `+versionSchema); err != nil {
		return fmt.Errorf("make schema %s: %w", versionSchema, err)
	}
	return nil
}

// plain translates an error of the library. An error that only says that there was nothing to do becomes nil. When ctx
// has ended, plain returns the reason for that. Of the errors of several failed steps, plain returns the first, which
// caused the others.
func plain(ctx context.Context, err error, s *steps) error {
	var short migrate.ErrShortLimit
	var dirty migrate.ErrDirty
	switch {
	case err == nil, errors.Is(err, migrate.ErrNoChange), errors.Is(err, fs.ErrNotExist), errors.As(err, &short):
		return nil
	case ctx.Err() != nil:
		return fmt.Errorf("migrate: %w", context.Cause(ctx))
	case errors.As(err, &dirty):
		return &DirtyError{Version: uint(max(dirty.Version, 0))}
	case s.failure != nil:
		return s.failure
	default:
		return fmt.Errorf("migrate: %w", err)
	}
}
