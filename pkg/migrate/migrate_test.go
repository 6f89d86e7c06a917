package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	_ "github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/migrations"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// files returns a runner whose migrations are given as pairs of a file's name and its SQL.
func files(pairs ...string) runner {
	set := fstest.MapFS{}
	for i := 0; i < len(pairs); i += 2 {
		set[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
	}
	return runner{files: set}
}

func three() runner {
	return files(
		"001_one.up.sql", "CREATE TABLE one (id int);\nINSERT INTO one VALUES (1);", "001_one.down.sql", "DROP TABLE one;",
		"002_two.up.sql", "CREATE TABLE two (id int);", "002_two.down.sql", "DROP TABLE two;",
		"003_three.up.sql", "CREATE TABLE three (id int);", "003_three.down.sql", "DROP TABLE three;",
	)
}

func TestUp(t *testing.T) {
	t.Parallel()

	t.Run("RunsEverythingOnce", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		for range 2 {
			check.NoError(t, three().up(within(t), db))
			wantVersion(t, db, 3)
		}
		wantTables(t, db, "one two three")
	})

	t.Run("GoesOnFromWhereItWas", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		check.NoError(t, files("001_one.up.sql", "CREATE TABLE one (id int)").up(within(t), db))
		check.NoError(t, three().up(within(t), db))
		wantVersion(t, db, 3)
	})

	t.Run("LeavesTheHandleOpenAndTheSessionClean", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		db.SetMaxOpenConns(1)
		check.NoError(t, files("001_set.up.sql", "SET search_path = pg_catalog").up(within(t), db))
		var path string
		check.NoError(t, db.QueryRow("SHOW search_path").Scan(&path))
		check.True(t, !strings.Contains(path, "pg_catalog"), "got search_path %s, want the default", path)
	})

	t.Run("TakesTurnsWithOthers", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		var all sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			all.Go(func() { errs[i] = three().up(within(t), db) })
		}
		all.Wait()
		check.NoError(t, errors.Join(errs...))
		wantVersion(t, db, 3)
	})

	t.Run("KeepsItsVersionsInASchemaOfTheirOwn", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		check.NoError(t, three().up(within(t), db))
		var found bool
		check.NoError(t, db.QueryRow("SELECT to_regclass('dlq_migrations.schema_migrations') IS NOT NULL").Scan(&found))
		check.True(t, found, "got no dlq_migrations.schema_migrations, want it")
	})

	t.Run("LeavesANewerSchemaAlone", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		check.NoError(t, three().up(within(t), db))
		check.NoError(t, files("001_one.up.sql", "SELECT 1").up(within(t), db))
		wantVersion(t, db, 3)
	})
}

func TestUpFails(t *testing.T) {
	t.Parallel()

	t.Run("LeavingNothingOfABrokenMigration", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		broken := files("001_one.up.sql", "CREATE TABLE one (id int);",
			"002_two.up.sql", "CREATE TABLE two (id int);\n\nCREATE TABEL three (id int);")
		err := broken.up(within(t), db)
		wantText(t, err, "migration to version 2, line 3", "TABEL")
		wantVersion(t, db, 1)
		wantTables(t, db, "one")
		check.NoError(t, three().up(within(t), db)) // three() contains the failed migration in a correct form; Up continues with it
		wantVersion(t, db, 3)
	})

	t.Run("RollingBackWhenCancelled", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		ctx, cancel := context.WithCancel(within(t))
		done := make(chan error, 1)
		slow := files("001_slow.up.sql", "CREATE TABLE one (id int); SELECT pg_sleep(600);")
		go func() { done <- slow.up(ctx, db) }()
		waitForQuery(t, db, "%pg_sleep(600)%")
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one line that is %v", err, context.Canceled)
		}
		wantVersion(t, db, 0)
		wantTables(t, db, "")
		check.NoError(t, three().up(within(t), db))
	})

	t.Run("CleanlyWhenItsConnectionIsKilled", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		done := make(chan error, 1)
		slow := files("001_slow.up.sql", "CREATE TABLE one (id int); SELECT pg_sleep(601);")
		go func() { done <- slow.up(within(t), db) }()
		pid := waitForQuery(t, db, "%pg_sleep(601)%")
		check.Must(db.Exec("SELECT pg_terminate_backend($1)", pid))(t)
		check.True(t, <-done != nil, "got no error, want one")
		check.NoError(t, three().up(within(t), db))
		wantVersion(t, db, 3)
	})

	t.Run("WaitingForAnotherOnlyAsLongAsAllowed", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		conn := check.Must(db.Conn(within(t)))(t)
		defer discard(conn)
		check.NoError(t, lock(within(t), conn))
		ctx, cancel := context.WithCancelCause(within(t))
		done := make(chan error, 1)
		go func() { done <- three().up(ctx, db) }()
		waitForQuery(t, db, "%pg_try_advisory_lock%")
		cancel(nil)
		check.Is(t, <-done, context.Canceled, "the error")
	})

	t.Run("WithOneLineWhenNobodyAnswers", func(t *testing.T) {
		t.Parallel()
		db, err := sql.Open("postgres", "postgres://u:hunter2@127.0.0.1:1/x?sslmode=disable")
		check.NoError(t, err)
		defer db.Close()
		err = three().up(within(t), db)
		wantText(t, err, "connect to migrate", "127.0.0.1:1")
		_, _, err = Version(within(t), db)
		wantText(t, err, "read schema version")
	})
}

func TestDown(t *testing.T) {
	t.Parallel()

	for _, c := range []struct {
		steps  int
		left   uint
		tables string
	}{{1, 2, "one two"}, {2, 1, "one"}, {3, 0, ""}, {9, 0, ""}, {All, 0, ""}} {
		t.Run(fmt.Sprintf("Takes/%d", c.steps), func(t *testing.T) {
			t.Parallel()
			db := openOwn(t)
			check.NoError(t, three().up(within(t), db))
			check.NoError(t, three().down(within(t), db, c.steps))
			wantVersion(t, db, c.left)
			wantTables(t, db, c.tables)
			check.NoError(t, three().up(within(t), db))
			wantVersion(t, db, 3)
		})
	}

	t.Run("IsNothingOnAnEmptyDatabase", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		check.NoError(t, three().down(within(t), db, 1))
		check.NoError(t, three().down(within(t), db, All))
	})

	t.Run("RefusesNewerSchemaAndSenselessSteps", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		check.NoError(t, three().up(within(t), db))
		wantText(t, files("001_one.up.sql", "SELECT 1").down(within(t), db, 1), "version 3", "use the newer program")
		wantText(t, three().down(within(t), db, 0), "at least 1")
		wantText(t, three().down(within(t), db, -7), "at least 1")
		wantVersion(t, db, 3)
	})
}

func TestOutsideATransaction(t *testing.T) {
	t.Parallel()
	index := func(sql string) runner {
		return files("001_one.up.sql", "CREATE TABLE one (id int)", "002_index.up.sql", noTransaction+"\n"+sql,
			"002_index.down.sql", noTransaction+"\nDROP INDEX CONCURRENTLY one_id")
	}

	t.Run("BuildsIndexesConcurrentlyWhileAnotherMigratorWaits", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		r := index("CREATE INDEX CONCURRENTLY one_id ON one (id)")
		var all sync.WaitGroup
		errs := make([]error, 3)
		for i := range errs {
			all.Go(func() { errs[i] = r.up(within(t), db) })
		}
		all.Wait()
		check.NoError(t, errors.Join(errs...))
		wantVersion(t, db, 2)
		check.NoError(t, r.down(within(t), db, 1))
		wantVersion(t, db, 1)
	})

	t.Run("IsDirtyAfterAFailureAndSaysWhatToDo", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		r := index("CREATE INDEX CONCURRENTLY one_id ON one (nothing)")
		wantText(t, r.up(within(t), db), "migration to version 2", "nothing")
		for _, err := range []error{r.up(within(t), db), r.down(within(t), db, 1), r.check(within(t), db)} {
			var dirty *DirtyError
			check.True(t, errors.As(err, &dirty) && dirty.Version == 2, "got %v, want a DirtyError of version 2", err)
			wantText(t, err, "UPDATE dlq_migrations.schema_migrations SET version")
		}
	})
}

func TestCheck(t *testing.T) {
	t.Parallel()
	db := openOwn(t)

	var old *VersionError
	if err := three().check(within(t), db); !errors.As(err, &old) || *old != (VersionError{Have: 0, Want: 3}) {
		t.Errorf("no schema: got %v, want a VersionError of 0 and 3", err)
	}
	check.NoError(t, files("001_one.up.sql", "CREATE TABLE one (id int)").up(within(t), db))
	if err := three().check(within(t), db); !errors.As(err, &old) || *old != (VersionError{Have: 1, Want: 3}) {
		t.Errorf("old schema: got %v, want a VersionError of 1 and 3", err)
	}
	check.NoError(t, three().up(within(t), db))
	check.NoError(t, three().check(within(t), db))
	check.NoError(t, files("001_one.up.sql", "").check(within(t), db)) // a schema that is newer than the program is accepted
}

// TestNumbering: Check, Up and Down refuse a database that the migrations before v0.1.0 made, at versions from 004 on,
// with the comment of the first numbering, which is none, or that of the second one. A database at a version that all
// numberings have in common is accepted.
func TestNumbering(t *testing.T) {
	t.Parallel()
	const second = `COMMENT ON TABLE dlq_migrations.schema_migrations IS 'dlq-manager v0.1.0 or later'`
	for _, c := range []struct {
		name    string
		version uint
		comment string
	}{
		{"First", ours.marked, ""},
		{"First", Latest(), ""},
		{"First", 33, ""},
		{"Second", ours.marked, second},
		{"Second", Latest(), second},
		{"Second", 25, second},
	} {
		t.Run(fmt.Sprintf("Refuses/%s/%d", c.name, c.version), func(t *testing.T) {
			t.Parallel()
			db := openOwn(t)
			var old []string
			for n := range c.version {
				old = append(old, fmt.Sprintf("%03d_old.up.sql", n+1), "SELECT 1")
			}
			check.NoError(t, files(old...).up(within(t), db))
			check.Must(db.Exec(c.comment))(t)
			for what, err := range map[string]error{
				"Check": Check(within(t), db), "Up": Up(within(t), db), "Down": Down(within(t), db, 1),
			} {
				var numbering *NumberingError
				check.True(t, errors.As(err, &numbering) && numbering.Have == c.version,
					"%s: got %v, want a NumberingError of %d", what, err, c.version)
				wantText(t, err, "before v0.1.0", "make a new one")
			}
			wantVersion(t, db, c.version)
		})
	}

	t.Run("TakesTheSharedStepsOn", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		check.NoError(t, first(t, ours.marked-1).up(within(t), db))
		wantVersion(t, db, ours.marked-1)
		var old *VersionError
		if err := Check(within(t), db); !errors.As(err, &old) {
			t.Errorf("got %v, want a VersionError", err)
		}
		check.NoError(t, Up(within(t), db))
		check.NoError(t, Check(within(t), db))
	})

	t.Run("IsKnownAtEveryStepThatHasTheMark", func(t *testing.T) {
		t.Parallel()
		db := openOwn(t)
		check.NoError(t, Up(within(t), db))
		for version := Latest(); version > 0; version-- {
			check.NoError(t, ours.checkNumbering(within(t), db, version))
			check.NoError(t, Down(within(t), db, 1))
		}
		check.True(t, ours.checkNumbering(within(t), db, ours.marked) != nil, "the mark is left after the way down, want it gone")
	})
}

func TestOurOwnMigrations(t *testing.T) {
	t.Parallel()
	db := openOwn(t)

	for _, step := range []struct {
		name string
		do   func() error
		want uint
	}{
		{"up", func() error { return Up(within(t), db) }, Latest()},
		{"one step down", func() error { return Down(within(t), db, 1) }, Latest() - 1},
		{"up again", func() error { return Up(within(t), db) }, Latest()},
		{"all down", func() error { return Down(within(t), db, All) }, 0},
		{"up once more", func() error { return Up(within(t), db) }, Latest()},
	} {
		check.NoError(t, step.do())
		wantVersion(t, db, step.want)
	}
	check.NoError(t, Check(within(t), db))
}

// first returns a runner of the program's first migrations, without the comment that identifies their numbering.
func first(t *testing.T, steps uint) runner {
	t.Helper()
	set := fstest.MapFS{}
	for n := range steps {
		names := check.Must(fs.Glob(migrations.FS, fmt.Sprintf("%03d_*.sql", n+1)))(t)
		for _, name := range names {
			body := check.Must(fs.ReadFile(migrations.FS, name))(t)
			set[name] = &fstest.MapFile{Data: body}
		}
	}
	return runner{files: set}
}

// openOwn returns an empty database that only the calling test uses.
func openOwn(t *testing.T) *sql.DB {
	t.Helper()
	server := stacktest.Postgres(t)
	name := "migrate_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	admin := check.Must(sql.Open("postgres", server))(t)
	check.Must(admin.Exec("CREATE DATABASE " + name))(t)

	own := check.Must(url.Parse(server))(t)
	own.Path = "/" + name
	query := own.Query()
	query.Set("binary_parameters", "yes") // the programs use this option when they connect
	own.RawQuery = query.Encode()
	db := check.Must(sql.Open("postgres", own.String()))(t)
	t.Cleanup(func() {
		_ = db.Close()
		_, _ = admin.Exec("DROP DATABASE " + name + " WITH (FORCE)")
		_ = admin.Close()
	})
	return db
}

// waitForQuery waits until the last query of a session in this database matches the pattern, and returns the session's
// process id.
func waitForQuery(t *testing.T, db *sql.DB, like string) int {
	t.Helper()
	for range 5000 {
		var pid int
		err := db.QueryRow(`SELECT pid FROM pg_stat_activity, pg_sleep(0.01)
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE $1`, like).Scan(&pid)
		if err == nil {
			return pid
		}
		if !errors.Is(err, sql.ErrNoRows) {
			t.Fatal(err)
		}
	}
	t.Fatalf("got no query like %s, want one", like)
	return 0
}

func wantText(t *testing.T, err error, parts ...string) {
	t.Helper()
	check.Require(t, err != nil, "got no error, want one with %q", parts)
	for _, p := range parts {
		check.True(t, strings.Contains(err.Error(), p), "got %q, want %q in it", err, p)
	}
	check.True(t, !strings.Contains(err.Error(), "\n") && !strings.Contains(err.Error(), "hunter2"),
		"got %q, want one line without the password", err)
}

func wantVersion(t *testing.T, db *sql.DB, want uint) {
	t.Helper()
	got, dirty, err := Version(within(t), db)
	check.True(t, err == nil && !dirty && got == want, "got version %d, dirty %v, error %v, want clean %d", got, dirty, err, want)
}

func wantTables(t *testing.T, db *sql.DB, want string) {
	t.Helper()
	var got string
	check.NoError(t, db.QueryRow(`SELECT coalesce(string_agg(relname, ' ' ORDER BY oid), '') FROM pg_class
		WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`).Scan(&got))
	check.Same(t, got, want, "tables")
}

// within returns the test's context with a time limit, so that a lock that is never released fails one test and does
// not block all tests.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}
