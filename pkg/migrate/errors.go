package migrate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lib/pq"
)

// VersionError says that the schema is older than this program needs.
type VersionError struct {
	Have uint // 0: no schema at all
	Want uint
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("database schema is at version %d, this program needs %d: run the migrations", e.Have, e.Want)
}

// NumberingError says that the steps of a version before v0.1.0 made the schema.
// They had other numbers, and there is no way from them to the steps of today.
type NumberingError struct{ Have uint }

func (e *NumberingError) Error() string {
	return fmt.Sprintf("this database was made by a version before v0.1.0 (schema version %d of its numbering): "+
		"make a new one and let the ingester read the dead-letter topics again, "+
		"or export its messages with the version that made it first", e.Have)
}

// DirtyError says that a migration outside a transaction was interrupted; only a
// person can find out how far it came.
type DirtyError struct {
	Version uint // where the interrupted migration was going
}

func (e *DirtyError) Error() string {
	return fmt.Sprintf("database schema is dirty: the migration to version %d was interrupted; "+
		"see how far it came, finish it or take it back by hand, and then record what is there: "+
		"UPDATE %s SET version = <%d if it is finished, else the one before>, dirty = false",
		e.Version, versionTable, e.Version)
}

// explain puts PostgreSQL's answer to a migration on one line.
func explain(target int, body string, err error) error {
	var failed *pq.Error
	if errors.As(err, &failed) {
		return fmt.Errorf("migration to version %d%s: %w", max(target, 0), lineOf(body, failed.Position), err)
	}
	return fmt.Errorf("migration to version %d: %w", max(target, 0), err)
}

// lineOf turns a position, which counts characters from 1, into a line.
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
