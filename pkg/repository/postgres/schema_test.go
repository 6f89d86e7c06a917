package postgres

import (
	"context"
	"flag"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/migrations"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

var update = flag.Bool("update", false, "write the schema of the migrations to testdata/schema.txt")

// theTen are the columns of dlq_messages that the documentation guarantees.
var theTen = []string{
	"id", "original_topic", "error_message", "retry_count", "max_retries",
	"payload", "status", "created_at", "updated_at", "last_retry_at",
}

func TestSchema(t *testing.T) {
	t.Parallel()

	postgrestest.Parallel(t, "IsTheOneOfTheFile", func(t *testing.T) {
		const path = "testdata/schema.txt"
		got := strings.Join(outline(t, postgrestest.Open(t)), "\n") + "\n"
		if *update {
			check.NoError(t, os.WriteFile(path, []byte(got), 0o600))
		}
		want := check.Must(os.ReadFile(path))(t)
		wantLines(t, "run this test with -update if that is right: in the migrations",
			strings.Split(got, "\n"), strings.Split(string(want), "\n"))
	})

	postgrestest.Parallel(t, "IsTheSameAfterTheWayDownAndUp", func(t *testing.T) {
		db := empty(t)
		check.NoError(t, migrate.Up(t.Context(), db.DB))
		first := catalogue(t, db)
		check.Require(t, len(first) >= 80, "the catalogue has %d lines, want all of the schema", len(first))
		check.NoError(t, migrate.Down(t.Context(), db.DB, migrate.All))
		wantLines(t, "after the way down", catalogue(t, db), nil)
		check.NoError(t, migrate.Up(t.Context(), db.DB))
		wantLines(t, "after the way up again", catalogue(t, db), first)
	})

	postgrestest.Parallel(t, "IsTheSameAfterEachStepDownAndUp", func(t *testing.T) {
		db := bare(t)
		var before []string
		for _, s := range steps(t) {
			s.run(t, db, "up")
			after := catalogue(t, db)
			check.True(t, !slices.Equal(after, before), "step %s makes no change in the schema", s.name)
			s.run(t, db, "down")
			wantLines(t, "after "+s.name+" down", catalogue(t, db), before)
			s.run(t, db, "up")
			wantLines(t, "after "+s.name+" up again", catalogue(t, db), after)
			before = after
		}
	})

	withDB(t, "GivesUpBehindALongReaderAndSucceedsWhenRunAgain", func(t *testing.T, db *sqlx.DB) {
		check.NoError(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-3)))
		reader := begin(t, db)
		postgrestest.Get[int](t, reader, `SELECT count(*) FROM dlq.dlq_messages`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // the time limit ends the test if Up waits for the lock forever
		defer cancel()
		if err := migrate.Up(ctx, db.DB); err == nil || !strings.Contains(err.Error(), "migration to version 4") ||
			!strings.Contains(err.Error(), "lock timeout") {
			t.Errorf("during a read: got %v, want the version and the lock timeout", err)
		}
		check.NoError(t, reader.Rollback())
		check.NoError(t, migrate.Up(t.Context(), db.DB))
		check.NoError(t, migrate.Check(t.Context(), db.DB))
	})

	postgrestest.Parallel(t, "BuildsIndexesOfFullTablesBesideTheirWriters", func(t *testing.T) {
		blocking := regexp.MustCompile(`CREATE (UNIQUE )?INDEX (IF NOT EXISTS )?\w+\s+ON dlq\.(dlq_messages|audit) `)
		for _, s := range steps(t) {
			check.True(t, s.name < "012" || !blocking.MatchString(s.up+s.down),
				"step %s builds an index and blocks writers, want it built concurrently", s.name)
		}
	})

	withDB(t, "KeepsTheTenColumnsOnTheWayToThem", func(t *testing.T, db *sqlx.DB) {
		id := seedTen(t, db, "DEAD", "2001-02-03 04:05:06.789012+00")
		before := tenOf(t, db, id)
		check.NoError(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-3)))
		check.Same(t, tenOf(t, db, id), before, "after the way to 003")
		check.NoError(t, migrate.Up(t.Context(), db.DB))
		check.Same(t, tenOf(t, db, id), before, "after the way up again")
		wantExactCounters(t, db)
	})

	withDB(t, "HasTheDocumentedNames", func(t *testing.T, db *sqlx.DB) {
		for what, query := range map[string]string{
			"topic index":      `SELECT indexdef LIKE '%(original_topic%' FROM pg_indexes WHERE schemaname = 'dlq' AND tablename = 'dlq_messages' AND indexname = 'idx_dlq_messages_original_topic'`,
			"status index":     `SELECT indexdef LIKE '%(status%' FROM pg_indexes WHERE schemaname = 'dlq' AND tablename = 'dlq_messages' AND indexname = 'idx_dlq_messages_status'`,
			"created_at index": `SELECT indexdef LIKE '%(created_at%' FROM pg_indexes WHERE schemaname = 'dlq' AND tablename = 'dlq_messages' AND indexname = 'idx_dlq_messages_created_at'`,
			"trigger":          `SELECT tgfoid = 'dlq.update_updated_at()'::regprocedure FROM pg_trigger WHERE tgrelid = 'dlq.dlq_messages'::regclass AND tgname = 'trg_dlq_messages_updated_at'`,
			"constraint":       `SELECT contype = 'c' FROM pg_constraint WHERE conrelid = 'dlq.dlq_messages'::regclass AND conname = 'chk_dlq_messages_status'`,
			"procedure":        `SELECT prokind = 'p' AND pg_get_function_arguments(oid) = 'IN p_retention_days integer DEFAULT 30, IN p_batch_size integer DEFAULT 1000' FROM pg_proc WHERE oid = 'dlq.archive_old_dlq_messages'::regproc`,
			"archive":          `SELECT relkind = 'p' FROM pg_class WHERE oid = 'dlq.dlq_messages_archive'::regclass`,
			"extension":        `SELECT true FROM pg_extension WHERE extname = 'pgcrypto'`,
			"version table":    `SELECT relkind = 'r' FROM pg_class WHERE oid = 'dlq_migrations.schema_migrations'::regclass`,
		} {
			var ok bool
			if err := db.Get(&ok, query); err != nil || !ok {
				t.Errorf("%s: got %v, %v, want it", what, ok, err)
			}
		}
	})

	withDB(t, "TakesAPlainInsertOfTheTenColumns", func(t *testing.T, db *sqlx.DB) {
		var got struct {
			ID            uuid.UUID `db:"id"`
			RetryCount    int       `db:"retry_count"`
			MaxRetries    int       `db:"max_retries"`
			Status        string    `db:"status"`
			SameTime      bool      `db:"same_time"`
			NothingElse   bool      `db:"nothing_else"`
			OriginalTopic string    `db:"original_topic"`
		}
		check.NoError(t, db.Get(&got, `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom')
			RETURNING id, original_topic, retry_count, max_retries, status, created_at = updated_at AS same_time,
				payload IS NULL AND last_retry_at IS NULL AND value IS NULL AND dlq_topic_id IS NULL AS nothing_else`))
		if got.ID == uuid.Nil || got.RetryCount != 0 || got.MaxRetries != 3 || got.Status != "PENDING" || !got.SameTime || !got.NothingElse {
			t.Errorf("got %+v, want the defaults", got)
		}
		seedTen(t, db, "RESOLVED", "2001-02-03 04:05:06+00")
		if _, err := db.Exec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, status) VALUES ('o', 'e', 'LOST')`); err == nil || !strings.Contains(err.Error(), "chk_dlq_messages_status") {
			t.Errorf("unknown status: got %v, want a refusal by chk_dlq_messages_status", err)
		}
	})
}

func TestUpdatedAt(t *testing.T) {
	t.Parallel()
	const old = "2001-02-03 04:05:06.789012+00"
	db := postgrestest.Open(t)
	moved := func(t *testing.T, set string) bool {
		t.Helper()
		id := seedTen(t, db, "DEAD", old)
		stayed := postgrestest.Get[bool](t, db, `UPDATE dlq.dlq_messages SET `+set+` WHERE id = $1 RETURNING updated_at = $2::timestamptz`, id, old)
		return !stayed
	}

	postgrestest.Parallel(t, "MovesWithEachOfTheTen", func(t *testing.T) {
		changes := map[string]string{
			"id": "gen_random_uuid()", "original_topic": "'other'", "error_message": "'other'", "retry_count": "7",
			"max_retries": "9", "payload": `'{"other": 1}'`, "status": "'PENDING'", "created_at": "'2002-01-01'",
			"updated_at": "updated_at", "last_retry_at": "'2002-01-01'",
		}
		for _, column := range theTen {
			check.True(t, moved(t, column+" = "+changes[column]), "an update of %s left updated_at, want it moved", column)
			check.True(t, moved(t, column+" = "+column), "an update of %s to itself left updated_at, want it moved", column)
		}
	})

	postgrestest.Parallel(t, "StaysWithBookkeeping", func(t *testing.T) {
		columns := columnsOf(t, db, "dlq_messages")
		seen := 0
		for _, c := range columns {
			if slices.Contains(theTen, c.Name) {
				continue
			}
			seen++
			check.True(t, !moved(t, c.Name+" = "+c.sample()), "an update of %s moved updated_at, want it left", c.Name)
		}
		check.True(t, seen >= 25 && len(columns)-seen == len(theTen),
			"got %d bookkeeping columns of %d, want all but the ten", seen, len(columns))
	})

	postgrestest.Parallel(t, "CanBeSetByHand", func(t *testing.T) {
		id := seedTen(t, db, "DEAD", old)
		for _, set := range []string{"updated_at = '1999-09-09 09:09:09+00'", "status = 'PENDING', updated_at = '1999-09-09 09:09:10+00'"} {
			year := postgrestest.Get[int](t, db, `UPDATE dlq.dlq_messages SET `+set+` WHERE id = $1 RETURNING extract(year FROM updated_at)::int`, id)
			check.Same(t, year, 1999, "%s: got the year", set)
		}
	})
}

func TestPgcrypto(t *testing.T) {
	t.Parallel()
	has := func(t *testing.T, db *sqlx.DB) (there bool) {
		t.Helper()
		check.NoError(t, db.Get(&there, `SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'pgcrypto')`))
		return there
	}
	upAndDown := func(t *testing.T, between, before string) bool {
		t.Helper()
		db := empty(t)
		exec(t, db, before)
		check.NoError(t, migrate.Up(t.Context(), db.DB))
		exec(t, db, between)
		check.NoError(t, migrate.Down(t.Context(), db.DB, migrate.All))
		return has(t, db)
	}

	postgrestest.Parallel(t, "GoesWithTheStepThatBroughtIt", func(t *testing.T) {
		check.True(t, !upAndDown(t, "", ""), "it stayed, want it gone")
	})
	postgrestest.Parallel(t, "StaysWhereItWasBefore", func(t *testing.T) {
		check.True(t, upAndDown(t, "", "CREATE EXTENSION pgcrypto"), "it is gone, want it left")
	})
	postgrestest.Parallel(t, "StaysWhereSomethingUsesIt", func(t *testing.T) {
		check.True(t, upAndDown(t, "CREATE VIEW public.hashes AS SELECT digest('a', 'sha256') AS h", ""),
			"it is gone, want it left")
	})
}

// step is a single migration, which the test runs without the other migrations.
type step struct{ name, up, down string }

func (s step) run(t *testing.T, db *sqlx.DB, way string) {
	t.Helper()
	body := s.up
	if way == "down" {
		body = s.down
	}
	check.Must(db.Exec(body))(t)
}

func steps(t *testing.T) []step {
	t.Helper()
	names := check.Must(fs.Glob(migrations.FS, "*.up.sql"))(t)
	var all []step
	for _, name := range names {
		up := check.Must(fs.ReadFile(migrations.FS, name))(t)
		base := strings.TrimSuffix(name, ".up.sql")
		down := check.Must(fs.ReadFile(migrations.FS, base+".down.sql"))(t)
		all = append(all, step{base, string(up), string(down)})
	}
	check.Require(t, len(all) == int(migrate.Latest()), "got %d migrations, want %d", len(all), migrate.Latest())
	return all
}

// empty returns a database without a schema. It first creates the template database. The grants in that database keep
// the server's roles in use, so that a parallel test that reverts all migrations cannot drop these roles.
func empty(t *testing.T) *sqlx.DB {
	t.Helper()
	postgrestest.URL(t)
	db := check.Must(sqlx.Connect("postgres", postgrestest.Empty(t)))(t)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// bare returns a database that contains only the version table of the migrations.
func bare(t *testing.T) *sqlx.DB {
	t.Helper()
	db := empty(t)
	check.NoError(t, migrate.Up(t.Context(), db.DB))
	check.NoError(t, migrate.Down(t.Context(), db.DB, migrate.All))
	return db
}

// catalogue describes all database objects that migrations create, one sorted entry for each object. Columns are
// numbered by their order and not by PostgreSQL's own numbers, because PostgreSQL never reuses the number of a dropped
// column. For an object whose privileges were never changed, the entry has PostgreSQL's default privileges.
func catalogue(t *testing.T, db *sqlx.DB) []string {
	t.Helper()
	const acl = `(SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(coalesce(%s)) a)`
	lines := postgrestest.All[string](t, db, `
		WITH ours AS (SELECT oid FROM pg_namespace WHERE nspname = 'dlq')
		SELECT concat_ws(' | ', 'schema', nspname, pg_get_userbyid(nspowner), obj_description(oid, 'pg_namespace'),
			`+strings.Replace(acl, "%s", "nspacl, acldefault('n', nspowner)", 1)+`)
		FROM pg_namespace WHERE oid IN (SELECT oid FROM ours)
		UNION ALL
		SELECT concat_ws(' | ', 'extension', extname) FROM pg_extension WHERE extname <> 'plpgsql'
		UNION ALL
		SELECT concat_ws(' | ', 'relation', relkind, relname, pg_get_userbyid(relowner), relpersistence, reloptions::text,
			relrowsecurity, `+strings.Replace(acl, "%s", "relacl, acldefault(CASE relkind WHEN 'S' THEN 's' ELSE 'r' END::\"char\", relowner)", 1)+`,
			CASE WHEN relkind IN ('i', 'I') THEN pg_get_indexdef(oid) END,
			CASE relkind WHEN 'p' THEN pg_get_partkeydef(oid) END, pg_get_expr(relpartbound, oid), obj_description(oid, 'pg_class'))
		FROM pg_class WHERE relnamespace IN (SELECT oid FROM ours)
		UNION ALL
		SELECT concat_ws(' | ', 'column', c.relname, row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum), a.attname,
			format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'not null' END,
			pg_get_expr(d.adbin, d.adrelid), a.attstorage, a.attcompression, a.attidentity, a.attgenerated, a.attcollation::regcollation,
			a.attacl::text, a.attoptions::text)
		FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
		WHERE c.relnamespace IN (SELECT oid FROM ours) AND c.relkind IN ('r', 'p', 'v') AND a.attnum > 0 AND NOT a.attisdropped
		UNION ALL
		SELECT concat_ws(' | ', 'constraint', conrelid::regclass, conname, pg_get_constraintdef(oid), convalidated)
		FROM pg_constraint WHERE connamespace IN (SELECT oid FROM ours)
		UNION ALL
		SELECT concat_ws(' | ', 'trigger', tgrelid::regclass, tgname, pg_get_triggerdef(oid), tgenabled)
		FROM pg_trigger WHERE NOT tgisinternal AND tgrelid IN (SELECT oid FROM pg_class WHERE relnamespace IN (SELECT oid FROM ours))
		UNION ALL
		SELECT concat_ws(' | ', 'function', pg_get_functiondef(oid), pg_get_userbyid(proowner),
			`+strings.Replace(acl, "%s", "proacl, acldefault('f', proowner)", 1)+`)
		FROM pg_proc WHERE pronamespace IN (SELECT oid FROM ours)
		UNION ALL
		SELECT concat_ws(' | ', 'grant on versions', relname, a::text)
		FROM pg_class, unnest(relacl) a WHERE relnamespace = to_regnamespace('dlq_migrations') AND a::text LIKE 'dlq_r%'
		UNION ALL
		SELECT concat_ws(' | ', 'default privileges', defaclacl::text) FROM pg_default_acl
		ORDER BY 1`)
	return lines
}

// outline returns the lines of catalogue without the parts that differ between databases or are too long: partitions,
// whose names contain dates, the bodies of functions, and the name of the server's user.
func outline(t *testing.T, db *sqlx.DB) []string {
	t.Helper()
	user := postgrestest.Get[string](t, db, `SELECT current_user`)
	partitions := postgrestest.All[string](t, db, `SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'`)
	owner := regexp.MustCompile(`\b` + regexp.QuoteMeta(user) + `\b`)
	body := regexp.MustCompile(`(?s)^(function \| [^\n]*)\n.*\n\s*(\|[^\n]*)$`)
	var lines []string
	for _, line := range catalogue(t, db) {
		if !slices.ContainsFunc(partitions, func(name string) bool { return strings.Contains(line, name) }) {
			lines = append(lines, owner.ReplaceAllString(body.ReplaceAllString(line, "$1 $2"), "owner"))
		}
	}
	return lines
}

func wantLines(t *testing.T, when string, got, want []string) {
	t.Helper()
	for _, line := range got {
		check.True(t, slices.Contains(want, line), "%s there is: %s", when, line)
	}
	for _, line := range want {
		check.True(t, slices.Contains(got, line), "%s there is no: %s", when, line)
	}
}

// columnOf is a column, described by PostgreSQL's system catalogue.
type columnOf struct {
	Name string `db:"name"`
	Type string `db:"type"`
}

func columnsOf(t *testing.T, db *sqlx.DB, table string) []columnOf {
	t.Helper()
	columns := postgrestest.All[columnOf](t, db, `SELECT attname AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
		WHERE attrelid = ('dlq.' || $1)::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, table)
	return columns
}

// sample returns a value for the column as an SQL expression. Except for the types boolean and jsonb, each column gets
// a different value, so that a test notices when one column is copied to another.
func (c columnOf) sample() string {
	seed := "hashtext('" + c.Name + "')"
	switch c.Type {
	case "uuid":
		return "md5('" + c.Name + "')::uuid"
	case "text", "character varying":
		return "'" + c.Name + ` → "quoted" \ ''it''` + "'"
	case "integer":
		return "abs(" + seed + ")"
	case "smallint":
		return "abs(" + seed + ") % 30000"
	case "bigint":
		return "abs(" + seed + ")::bigint * 1000003"
	case "bytea":
		return `'\x00ff0a5c27'::bytea || sha256('` + c.Name + "')"
	case "boolean":
		return "true"
	case "timestamp with time zone":
		return "'2001-02-03 04:05:06.789012+00'::timestamptz + abs(" + seed + ") % 10000000 * interval '1.000001 s'"
	case "jsonb":
		return `'{"b": [1.50, null, "→"], "a": {}}'`
	default:
		return "no sample of type " + c.Type
	}
}

// seedTen inserts a row with values for the ten documented columns, and returns its id.
func seedTen(t *testing.T, db *sqlx.DB, status, updated string) (id uuid.UUID) {
	t.Helper()
	check.NoError(t, db.Get(&id, `
		INSERT INTO dlq.dlq_messages (id, original_topic, error_message, retry_count, max_retries, payload, status, created_at, updated_at, last_retry_at)
		VALUES (gen_random_uuid(), 'orders', 'boom', 1, 3, '{"order": 1}', $1, '2001-02-03 04:05:06+00', $2, '2001-02-03 04:05:07+00')
		RETURNING id`, status, updated))
	return id
}

func tenOf(t *testing.T, db *sqlx.DB, id uuid.UUID) (text string) {
	t.Helper()
	check.NoError(t, db.Get(&text, `SELECT (`+strings.Join(theTen, ", ")+`)::text FROM dlq.dlq_messages WHERE id = $1`, id))
	return text
}

// urlOf returns the URL of a database on the server, with the settings that the store needs.
func urlOf(t *testing.T, server, database string) string {
	t.Helper()
	u := check.Must(url.Parse(server))(t)
	u.Path = "/" + database
	q := u.Query()
	q.Set("binary_parameters", "yes")
	u.RawQuery = q.Encode()
	return u.String()
}
