package postgrestest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// Filled makes databases with many rows. The first test of the process that needs them has the rows inserted, and each
// test gets a copy. The package's TestMain must call Main.
type Filled struct {
	Name string                          // part of the name of the database that is copied
	Fill func(t testing.TB, db *sqlx.DB) // inserts the rows into a new database

	once  sync.Once
	ready bool
}

// Many makes databases with the rows of SeedMany.
var Many = &Filled{Name: "many", Fill: SeedMany}

// filled are the databases that the Filled of this process copy, on one server.
var filled struct {
	sync.Mutex
	server string
	names  []string
}

// Fresh returns a new database with the rows, and lets the test run in parallel with other tests.
func (f *Filled) Fresh(t *testing.T) *sqlx.DB {
	t.Helper()
	t.Parallel()
	name, server := template()+"_"+f.Name, stacktest.Postgres(t)
	f.once.Do(func() { f.fill(t, server, name) })
	check.Require(t, f.ready, "the database %s was not filled", name)
	return open(t, copyOf(t, server, name))
}

func (f *Filled) fill(t *testing.T, server, name string) {
	t.Helper()
	migrated(t, server)
	filled.Lock()
	filled.server, filled.names = server, append(filled.names, name)
	filled.Unlock()
	check.NoError(t, admin(server, "CREATE DATABASE "+name+copied(template())))
	db := check.Must(sqlx.Connect("postgres", within(server, name)))(t)
	defer func() { _ = db.Close() }()
	f.Fill(t, db)
	f.ready = !t.Failed()
}

// Main runs the tests of a package like stacktest.Main, and drops the databases that Filled copies.
func Main(m *testing.M) { stacktest.Main(dropping{m}) }

type dropping struct{ m *testing.M }

func (d dropping) Run() int {
	code := d.m.Run()
	for _, name := range filled.names {
		if err := drop(filled.server, name); err != nil {
			fmt.Fprintf(os.Stderr, "drop database %s: %v\n", name, err)
			return max(code, 1)
		}
	}
	return code
}
