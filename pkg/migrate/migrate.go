// Package migrate brings the database schema to the version that this program was built with, and back. Package
// migrations contains the SQL; the caller connects to the database.
//
// Each migration has a transaction of its own, which also writes the new version: when a migrator is killed, the schema
// and its version are as after the last complete migration, and the next migrator continues from there. A file of a
// migration must therefore contain no BEGIN and no COMMIT outside function bodies. The exception is a file whose first
// line is
//
//	-- migrate:no-transaction
//
// Such a file contains a single statement that PostgreSQL refuses in a transaction, for example CREATE INDEX
// CONCURRENTLY. Only when a migration without a transaction fails or is interrupted, the version stays marked as dirty.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/migrations"
)

// All as the number of steps makes Down revert all migrations.
const All = -1

// Up runs every migration that the database does not have yet. Concurrent calls are safe: one call runs the migrations,
// and the other calls wait until no migration is left to run. Up does not change a schema that is newer than this
// program. The database handle stays open. When ctx ends, the running migration is rolled back (if it has a
// transaction), and the migrations before it stay.
func Up(ctx context.Context, db *sql.DB) error { return ours.up(ctx, db) }

// Down reverts the given number of migrations, the last one first, or all of them for All. It is not an error if the
// database has fewer migrations, or none. Down refuses a schema that is newer than this program, because only the newer
// program can revert it.
func Down(ctx context.Context, db *sql.DB, steps int) error {
	return ours.down(ctx, db, steps)
}

// Version returns the schema's version, which is 0 when there is no schema. dirty reports whether a migration without a
// transaction failed or was interrupted. Version only reads.
func Version(ctx context.Context, db *sql.DB) (version uint, dirty bool, err error) {
	err = db.QueryRowContext(ctx, `SELECT version, dirty FROM `+versionTable).Scan(&version, &dirty)
	var failed *pq.Error
	switch {
	case err == nil:
		return version, dirty, nil
	case errors.Is(err, sql.ErrNoRows):
		return 0, false, nil
	case errors.As(err, &failed) && (failed.Code == "42P01" || failed.Code == "3F000"): // the version table, or its schema, does not exist
		return 0, false, nil
	default:
		return 0, false, fmt.Errorf("read schema version: %w", err)
	}
}

// Latest returns the version of the newest migration in this program.
func Latest() uint { return ours.latest() }

// Check returns nil when this program can work with the schema, that is, when the schema's version is Latest or newer.
// Newer versions are accepted because two releases run at the same time during a roll-out. It returns *VersionError
// when the schema is older, *DirtyError when a migration without a transaction failed or was interrupted, and
// *NumberingError when a program before v0.1.0 made the schema. Any other error means that the version could not be
// read.
func Check(ctx context.Context, db *sql.DB) error { return ours.check(ctx, db) }

// runner works on any set of migrations. The exported functions use the migrations of this program.
type runner struct {
	files fs.FS
	// The migration to version marked sets the comment of the version table to mark. A database at this version or a newer
	// one whose version table has another comment, or none, was made by migrations with other numbers. 0 means that no
	// migration sets the comment.
	marked uint
	mark   string
}

// The numbers 001 to 003 mean the same migrations now and before v0.1.0. The numbers from 004 on do not: before v0.1.0
// they meant other migrations, in a first numbering up to 034, which set no comment, and in a second one up to 025.
var ours = runner{files: migrations.FS, marked: 4, mark: "numbering of v0.1.0"}

func (r runner) up(ctx context.Context, db *sql.DB) error {
	return r.locked(ctx, db, func(m *migrate.Migrate, at uint) error {
		if at > r.latest() {
			return nil
		}
		return m.Up()
	})
}

func (r runner) down(ctx context.Context, db *sql.DB, steps int) error {
	if steps < 1 && steps != All {
		return fmt.Errorf("migrate down: steps must be at least 1, not %d", steps)
	}
	return r.locked(ctx, db, func(m *migrate.Migrate, at uint) error {
		if at > r.latest() {
			return fmt.Errorf("migrate down: the schema is at version %d and this program knows only up to %d: use the newer program", at, r.latest())
		}
		if steps == All {
			return m.Down()
		}
		return m.Steps(-steps)
	})
}

func (r runner) check(ctx context.Context, db *sql.DB) error {
	have, dirty, err := Version(ctx, db)
	if err != nil {
		return err
	}
	if err := r.checkNumbering(ctx, db, have); err != nil {
		return err
	}
	switch {
	case dirty:
		return &DirtyError{Version: have}
	case have < r.latest():
		return &VersionError{Have: have, Want: r.latest()}
	default:
		return nil
	}
}

// checkNumbering returns a *NumberingError for a database whose version belongs to the migrations before v0.1.0.
func (r runner) checkNumbering(ctx context.Context, db interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}, have uint,
) error {
	if r.marked == 0 || have < r.marked {
		return nil
	}
	var marked bool
	err := db.QueryRowContext(ctx, `SELECT obj_description('`+versionTable+`'::regclass, 'pg_class') IS NOT DISTINCT FROM $1`, r.mark).Scan(&marked)
	switch {
	case err != nil:
		return fmt.Errorf("read the numbering of the schema version: %w", err)
	case !marked:
		return &NumberingError{Have: have}
	default:
		return nil
	}
}

func (r runner) latest() uint {
	var newest uint
	names, _ := fs.Glob(r.files, "*.up.sql") // the error would only say that the pattern is malformed
	for _, name := range names {
		if m, err := source.DefaultParse(name); err == nil {
			newest = max(newest, m.Version)
		}
	}
	return newest
}

// VersionError says that the schema is older than the schema that this program needs.
type VersionError struct {
	Have uint // version of the schema; 0 when there is no schema
	Want uint
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("database schema is at version %d, this program needs %d: run the migrations", e.Have, e.Want)
}

// NumberingError says that migrations from before v0.1.0 made the schema. Those migrations had other numbers, so the
// present migrations cannot continue from the database's version.
type NumberingError struct{ Have uint }

func (e *NumberingError) Error() string {
	return fmt.Sprintf("this database was made by a version before v0.1.0 (schema version %d of its numbering): "+
		"make a new one and let the ingester read the dead-letter topics again, "+
		"or export its messages with the version that made it first", e.Have)
}

// DirtyError says that a migration that runs outside a transaction failed or was interrupted. An operator must find out
// whether its statement took effect.
type DirtyError struct {
	Version uint // the version to which that migration leads
}

func (e *DirtyError) Error() string {
	return fmt.Sprintf("database schema is dirty: the migration to version %d was interrupted; "+
		"see how far it came, finish it or take it back by hand, and then record what is there: "+
		"UPDATE %s SET version = <%d if it is finished, else the one before>, dirty = false",
		e.Version, versionTable, e.Version)
}

// explain formats PostgreSQL's error about a migration in one line.
func explain(target int, body string, err error) error {
	var failed *pq.Error
	if errors.As(err, &failed) {
		return fmt.Errorf("migration to version %d%s: %w", max(target, 0), lineOf(body, failed.Position), err)
	}
	return fmt.Errorf("migration to version %d: %w", max(target, 0), err)
}

// lineOf converts a position in the text body, which counts characters from 1, to a line number.
func lineOf(body, position string) string {
	var at int
	if _, err := fmt.Sscan(position, &at); err != nil {
		return ""
	}
	runes := []rune(body)
	if at < 1 || at > len(runes) {
		return ""
	}
	return fmt.Sprintf(", line %d", 1+strings.Count(string(runes[:at-1]), "\n"))
}
