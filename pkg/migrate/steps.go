package migrate

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"strings"

	"github.com/golang-migrate/migrate/v4/database/postgres"
)

// noTransaction is the first line of a file that runs outside a transaction.
const noTransaction = "-- migrate:no-transaction"

// steps is the library's PostgreSQL driver with other transactions. For each migration, the library marks the version
// as dirty, runs the file and marks the version as clean. Its own driver commits after each of these three actions, so
// a kill between them leaves a dirty version that an operator must repair. steps does all three in one transaction,
// except for a file that begins with noTransaction.
type steps struct {
	*postgres.Postgres
	ctx     context.Context // here because the methods of the library's interface have no context parameter
	conn    *sql.Conn
	target  int
	arrived bool // Run has already written the version in its transaction, so SetVersion has nothing to do
	failure error
}

// Unlock does nothing, because closing the connection releases the lock. Once ctx has ended, a statement that releases
// the lock would only fail and cause a second error.
func (s *steps) Unlock() error { return nil }

// SetVersion implements the library's interface. The library calls it before a migration, with dirty set, and after the
// migration.
func (s *steps) SetVersion(version int, dirty bool) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	s.target = version
	if dirty {
		s.arrived = false
		return nil
	}
	if s.arrived {
		return nil
	}
	return s.keep(s.inTransaction("", version)) // the library did not call Run, because there is no file for this version
}

// Run runs one file, and writes the version in the same transaction. A file that begins with noTransaction is run by
// bare.
func (s *steps) Run(file io.Reader) error {
	raw, err := io.ReadAll(file)
	if err != nil {
		return s.keep(fmt.Errorf("read migration to version %d: %w", s.target, err))
	}
	body := string(raw)
	if strings.HasPrefix(body, noTransaction) {
		return s.keep(s.bare(body))
	}
	if err := s.inTransaction(body, s.target); err != nil {
		return s.keep(err)
	}
	s.arrived = true
	return nil
}

func (s *steps) keep(err error) error {
	if s.failure == nil {
		s.failure = err
	}
	return err
}

// bare runs a statement outside a transaction. Before the statement, bare marks the version as dirty, because the
// statement cannot be rolled back.
func (s *steps) bare(body string) error {
	if err := s.Postgres.SetVersion(s.target, true); err != nil {
		return err
	}
	if _, err := s.conn.ExecContext(s.ctx, body); err != nil {
		return explain(s.target, body, err)
	}
	return nil
}

func (s *steps) inTransaction(body string, version int) error {
	tx, err := s.conn.BeginTx(s.ctx, nil)
	if err != nil {
		return fmt.Errorf("begin migration to version %d: %w", version, err)
	}
	defer func() { _ = tx.Rollback() }() // has no effect after a commit

	if strings.TrimSpace(body) != "" {
		if _, err := tx.ExecContext(s.ctx, body); err != nil {
			return explain(version, body, err)
		}
	}
	if err := writeVersion(s.ctx, tx, version); err != nil {
		return fmt.Errorf("write schema version %d: %w", version, err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit migration to version %d: %w", version, err)
	}
	return nil
}

// writeVersion replaces the row of the version table. It does not use TRUNCATE, which would block every readiness check
// until the commit.
func writeVersion(ctx context.Context, tx *sql.Tx, version int) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM `+versionTable); err != nil {
		return err
	}
	if version < 0 {
		return nil
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO `+versionTable+` (version, dirty) VALUES ($1, false)`, version)
	return err
}
