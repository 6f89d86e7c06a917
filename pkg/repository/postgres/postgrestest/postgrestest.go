// Package postgrestest creates databases with the present schema for tests, in a real PostgreSQL. It copies them from a
// template, which the first test of the process migrates. So creating a database takes only some ten milliseconds.
package postgrestest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jmoiron/sqlx"
	_ "github.com/lib/pq" // the driver that the product's programs use

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
)

var (
	templateOnce sync.Once
	templateErr  error
	databases    atomic.Int64

	// admins is a pool of connections to the database that the server's URL names. It is kept for the whole process,
	// because each test creates and drops a database.
	admins struct {
		open sync.Once
		pool *sqlx.DB
		err  error
	}
)

// Open returns a connection pool on a new database with the newest schema. Its sessions use a time zone other than UTC,
// because a store must return times in UTC whatever the time zone of the session is. The database is dropped when the
// test ends.
func Open(t testing.TB) *sqlx.DB {
	t.Helper()
	return open(t, URL(t))
}

func open(t testing.TB, at string) *sqlx.DB {
	t.Helper()
	db, err := sqlx.Connect("postgres", at)
	if err != nil {
		t.Fatalf("open the test's database: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// URL creates a database like Open, and returns the URL of the database.
func URL(t testing.TB) string {
	t.Helper()
	server := stacktest.Postgres(t)
	migrated(t, server)
	return copyOf(t, server, template())
}

// migrated makes the template database, unless the process has made it already.
func migrated(t testing.TB, server string) {
	t.Helper()
	templateOnce.Do(func() { templateErr = makeTemplate(server) })
	if templateErr != nil {
		t.Fatalf("migrate the template database: %v", templateErr)
	}
}

// copyOf creates a copy of a database and returns its URL.
func copyOf(t testing.TB, server, database string) string {
	t.Helper()
	return create(t, server, copied(database))
}

// copied returns how CREATE DATABASE copies a database. FILE_COPY costs half the processor time of WAL_LOG.
func copied(database string) string { return " TEMPLATE " + database + " STRATEGY FILE_COPY" }

// Empty creates a database without a schema, and returns its URL.
func Empty(t testing.TB) string {
	t.Helper()
	return create(t, stacktest.Postgres(t), "")
}

// template returns the name of the template database, which contains the process id, so that parallel test processes
// use different templates.
func template() string { return fmt.Sprintf("dlq_template_%d", os.Getpid()) }

func create(t testing.TB, server, how string) string {
	t.Helper()
	name := fmt.Sprintf("dlq_test_%d_%d", os.Getpid(), databases.Add(1))
	if err := admin(server, "CREATE DATABASE "+name+how); err != nil {
		t.Fatalf("create database: %v", err)
	}
	t.Cleanup(func() {
		if err := drop(server, name); err != nil {
			t.Logf("drop database: %v", err)
		}
	})
	return within(server, name)
}

func makeTemplate(server string) error {
	if err := drop(server, template()); err != nil {
		return err
	}
	if err := admin(server, "CREATE DATABASE "+template()); err != nil {
		return err
	}
	db, err := sqlx.Connect("postgres", within(server, template()))
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	return migrate.Up(context.Background(), db.DB)
}

func drop(server, database string) error {
	return admin(server, "DROP DATABASE IF EXISTS "+database+" WITH (FORCE)")
}

// admin runs one statement in the database that the server's URL names.
func admin(server, statement string) error {
	admins.open.Do(func() {
		if admins.pool, admins.err = sqlx.Open("postgres", server); admins.err == nil {
			admins.pool.SetMaxIdleConns(2)
		}
	})
	if admins.err != nil {
		return admins.err
	}
	_, err := admins.pool.ExecContext(context.Background(), statement)
	return err
}

// within returns the URL of a database on the server, with binary parameters and a time zone other than UTC.
func within(server, database string) string {
	u, err := url.Parse(server)
	if err != nil {
		return server
	}
	u.Path = "/" + database
	q := u.Query()
	q.Set("binary_parameters", "yes")
	q.Set("timezone", "America/New_York")
	u.RawQuery = q.Encode()
	return u.String()
}

// Parallel runs a subtest in parallel with other tests.
func Parallel(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t)
	})
}
