package postgrestest

import (
	"context"
	"database/sql"
	"os"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// Fresh returns a new database, and lets the test run in parallel with other tests.
func Fresh(t *testing.T) *sqlx.DB {
	t.Helper()
	t.Parallel()
	return Open(t)
}

// Exec runs a statement, which must succeed. It may also be called after the test has ended, by a cleanup function.
func Exec(t testing.TB, db *sqlx.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(context.WithoutCancel(t.Context()), query, args...)
	check.Require(t, err == nil, "%.60s: %v", query, err)
}

// Getter is a pool or a transaction that reads one row.
type Getter interface {
	Get(dest any, query string, args ...any) error
}

// Get returns the single value that a query returns.
func Get[T any](t testing.TB, db Getter, query string, args ...any) (v T) {
	t.Helper()
	check.NoError(t, db.Get(&v, query, args...))
	return v
}

// Selecter is a pool or a transaction that reads rows.
type Selecter interface {
	Select(dest any, query string, args ...any) error
}

// All returns the values that a query returns, one for each row.
func All[T any](t testing.TB, db Selecter, query string, args ...any) (v []T) {
	t.Helper()
	check.NoError(t, db.Select(&v, query, args...))
	return v
}

// Begin returns a transaction. If the test does not end it, it is rolled back at the end of the test.
func Begin(t testing.TB, db *sqlx.DB) *sqlx.Tx {
	t.Helper()
	tx := check.Must(db.Beginx())(t)
	t.Cleanup(func() { _ = tx.Rollback() })
	return tx
}

// Eventually repeats a query until the query returns true; after a minute it fails the test. Between two tries the
// database sleeps, not the test.
func Eventually(t testing.TB, db *sqlx.DB, what, query string, args ...any) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for range 20_000 {
		if Get[bool](t, db, query, args...) {
			return
		}
		if time.Now().After(deadline) {
			break
		}
		Exec(t, db, `SELECT pg_sleep(0.003)`)
	}
	t.Fatalf("%s: not within a minute", what)
}

// AsAdmin runs a statement as the server's superuser.
func AsAdmin(t testing.TB, query string) {
	t.Helper()
	admin := check.Must(sql.Open("postgres", stacktest.Postgres(t)))(t)
	defer func() { _ = admin.Close() }()
	check.Must(admin.ExecContext(context.WithoutCancel(t.Context()), query))(t)
}

// WriteSecret writes a file that only its owner may read.
func WriteSecret(t testing.TB, path, content string) {
	t.Helper()
	check.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

// HoldConnection takes a connection out of the pool until the test ends, so that the next statement needs another
// connection.
func HoldConnection(t testing.TB, db *sqlx.DB) *sql.Conn {
	t.Helper()
	c := check.Must(db.Conn(t.Context()))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// WantUser checks as which user the pool's connection has signed in. When want is "", it checks only that a query
// works.
func WantUser(t testing.TB, db *sqlx.DB, want string) {
	t.Helper()
	var got string
	check.NoError(t, db.QueryRowContext(t.Context(), "SELECT current_user").Scan(&got))
	check.True(t, want == "" || got == want, "signed in as %s, want %s", got, want)
}
