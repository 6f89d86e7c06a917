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

	"github.com/dlq-manager/dlq-manager/migrations"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

var update = flag.Bool("update", false, "write the schema of the migrations to testdata/schema.txt")

// theTen are the columns that everybody may rely on for ever.
var theTen = []string{
	"id", "original_topic", "error_message", "retry_count", "max_retries",
	"payload", "status", "created_at", "updated_at", "last_retry_at",
}

func TestSchema(t *testing.T) {
	t.Parallel()

	t.Run("IsTheOneOfTheFile", func(t *testing.T) {
		t.Parallel()
		const path = "testdata/schema.txt"
		got := strings.Join(outline(t, postgrestest.Open(t)), "\n") + "\n"
		if *update {
			wantNil(t, os.WriteFile(path, []byte(got), 0o600))
		}
		want, err := os.ReadFile(path)
		wantNil(t, err)
		wantLines(t, "run this test with -update if that is right: in the migrations",
			strings.Split(got, "\n"), strings.Split(string(want), "\n"))
	})

	t.Run("IsTheSameAfterTheWayDownAndUp", func(t *testing.T) {
		t.Parallel()
		db := empty(t)
		wantNil(t, migrate.Up(t.Context(), db.DB))
		first := catalogue(t, db)
		if len(first) < 80 {
			t.Fatalf("the catalogue has %d lines, want all of the schema", len(first))
		}
		wantNil(t, migrate.Down(t.Context(), db.DB, migrate.All))
		wantLines(t, "after the way down", catalogue(t, db), nil)
		wantNil(t, migrate.Up(t.Context(), db.DB))
		wantLines(t, "after the way up again", catalogue(t, db), first)
	})

	t.Run("IsTheSameAfterEachStepDownAndUp", func(t *testing.T) {
		t.Parallel()
		db := bare(t)
		var before []string
		for _, s := range steps(t) {
			s.run(t, db, "up")
			after := catalogue(t, db)
			if slices.Equal(after, before) {
				t.Errorf("step %s changes nothing that the catalogue shows", s.name)
			}
			s.run(t, db, "down")
			wantLines(t, "after "+s.name+" down", catalogue(t, db), before)
			s.run(t, db, "up")
			wantLines(t, "after "+s.name+" up again", catalogue(t, db), after)
			before = after
		}
	})

	t.Run("GivesUpBehindALongReaderAndSucceedsWhenRunAgain", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		wantNil(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-3)))
		reader, err := db.Beginx()
		wantNil(t, err)
		defer func() { _ = reader.Rollback() }()
		var n int
		wantNil(t, reader.Get(&n, `SELECT count(*) FROM dlq.dlq_messages`))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // else it would wait for ever
		defer cancel()
		if err := migrate.Up(ctx, db.DB); err == nil || !strings.Contains(err.Error(), "migration to version 4") ||
			!strings.Contains(err.Error(), "lock timeout") {
			t.Errorf("behind a reader: got %v, want the version and the lock timeout", err)
		}
		wantNil(t, reader.Rollback())
		wantNil(t, migrate.Up(t.Context(), db.DB))
		wantNil(t, migrate.Check(t.Context(), db.DB))
	})

	t.Run("BuildsIndexesOfFullTablesBesideTheirWriters", func(t *testing.T) {
		t.Parallel()
		blocking := regexp.MustCompile(`CREATE (UNIQUE )?INDEX (IF NOT EXISTS )?\w+\s+ON dlq\.dlq_messages`)
		for _, s := range steps(t) {
			if s.name >= "012" && blocking.MatchString(s.up+s.down) {
				t.Errorf("step %s builds an index while nobody may write, want it built concurrently", s.name)
			}
		}
	})

	t.Run("KeepsTheTenColumnsOnTheWayToThem", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		id := seedTen(t, db, "DEAD", "2001-02-03 04:05:06.789012+00")
		before := tenOf(t, db, id)
		wantNil(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-3)))
		if got := tenOf(t, db, id); got != before {
			t.Errorf("after the way to 003: got %s, want %s", got, before)
		}
		wantNil(t, migrate.Up(t.Context(), db.DB))
		if got := tenOf(t, db, id); got != before {
			t.Errorf("after the way up again: got %s, want %s", got, before)
		}
		wantExactCounters(t, db)
	})

	t.Run("HasTheDocumentedNames", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
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

	t.Run("TakesAPlainInsertOfTheTenColumns", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		var got struct {
			ID            uuid.UUID `db:"id"`
			RetryCount    int       `db:"retry_count"`
			MaxRetries    int       `db:"max_retries"`
			Status        string    `db:"status"`
			SameTime      bool      `db:"same_time"`
			NothingElse   bool      `db:"nothing_else"`
			OriginalTopic string    `db:"original_topic"`
		}
		wantNil(t, db.Get(&got, `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom')
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
		var stayed bool
		wantNil(t, db.Get(&stayed, `UPDATE dlq.dlq_messages SET `+set+` WHERE id = $1 RETURNING updated_at = $2::timestamptz`, id, old))
		return !stayed
	}

	t.Run("MovesWithEachOfTheTen", func(t *testing.T) {
		t.Parallel()
		changes := map[string]string{
			"id": "gen_random_uuid()", "original_topic": "'other'", "error_message": "'other'", "retry_count": "7",
			"max_retries": "9", "payload": `'{"other": 1}'`, "status": "'PENDING'", "created_at": "'2002-01-01'",
			"updated_at": "updated_at", "last_retry_at": "'2002-01-01'",
		}
		for _, column := range theTen {
			if !moved(t, column+" = "+changes[column]) {
				t.Errorf("an update of %s left updated_at, want it moved", column)
			}
			if !moved(t, column+" = "+column) {
				t.Errorf("an update of %s to itself left updated_at, want it moved", column)
			}
		}
	})

	t.Run("StaysWithBookkeeping", func(t *testing.T) {
		t.Parallel()
		columns := columnsOf(t, db, "dlq_messages")
		seen := 0
		for _, c := range columns {
			if slices.Contains(theTen, c.Name) {
				continue
			}
			seen++
			if moved(t, c.Name+" = "+c.sample()) {
				t.Errorf("an update of %s moved updated_at, want it left", c.Name)
			}
		}
		if seen < 25 || len(columns)-seen != len(theTen) {
			t.Errorf("got %d bookkeeping columns of %d, want all but the ten", seen, len(columns))
		}
	})

	t.Run("CanBeSetByHand", func(t *testing.T) {
		t.Parallel()
		id := seedTen(t, db, "DEAD", old)
		for _, set := range []string{"updated_at = '1999-09-09 09:09:09+00'", "status = 'PENDING', updated_at = '1999-09-09 09:09:10+00'"} {
			var year int
			wantNil(t, db.Get(&year, `UPDATE dlq.dlq_messages SET `+set+` WHERE id = $1 RETURNING extract(year FROM updated_at)::int`, id))
			if year != 1999 {
				t.Errorf("%s: got the year %d, want 1999", set, year)
			}
		}
	})
}

func TestPgcrypto(t *testing.T) {
	t.Parallel()
	has := func(t *testing.T, db *sqlx.DB) (there bool) {
		t.Helper()
		wantNil(t, db.Get(&there, `SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'pgcrypto')`))
		return there
	}
	upAndDown := func(t *testing.T, between, before string) bool {
		t.Helper()
		db := empty(t)
		exec(t, db, before)
		wantNil(t, migrate.Up(t.Context(), db.DB))
		exec(t, db, between)
		wantNil(t, migrate.Down(t.Context(), db.DB, migrate.All))
		return has(t, db)
	}

	t.Run("GoesWithTheStepThatBroughtIt", func(t *testing.T) {
		t.Parallel()
		if upAndDown(t, "", "") {
			t.Error("it stayed, want it gone")
		}
	})
	t.Run("StaysWhereItWasBefore", func(t *testing.T) {
		t.Parallel()
		if !upAndDown(t, "", "CREATE EXTENSION pgcrypto") {
			t.Error("it is gone, want it left")
		}
	})
	t.Run("StaysWhereSomethingUsesIt", func(t *testing.T) {
		t.Parallel()
		if !upAndDown(t, "CREATE VIEW public.hashes AS SELECT digest('a', 'sha256') AS h", "") {
			t.Error("it is gone, want it left")
		}
	})
}

// step is one migration, to be run by itself.
type step struct{ name, up, down string }

func (s step) run(t *testing.T, db *sqlx.DB, way string) {
	t.Helper()
	body := s.up
	if way == "down" {
		body = s.down
	}
	if _, err := db.Exec(body); err != nil {
		t.Fatalf("%s %s: %v", s.name, way, err)
	}
}

func steps(t *testing.T) []step {
	t.Helper()
	names, err := fs.Glob(migrations.FS, "*.up.sql")
	wantNil(t, err)
	var all []step
	for _, name := range names {
		up, err := fs.ReadFile(migrations.FS, name)
		wantNil(t, err)
		base := strings.TrimSuffix(name, ".up.sql")
		down, err := fs.ReadFile(migrations.FS, base+".down.sql")
		wantNil(t, err)
		all = append(all, step{base, string(up), string(down)})
	}
	if len(all) != int(migrate.Latest()) {
		t.Fatalf("got %d migrations, want %d", len(all), migrate.Latest())
	}
	return all
}

// empty is a database without any schema. The template is made first: while it
// is there its grants keep the cluster's roles alive, so parallel tests cannot
// drop them under one another.
func empty(t *testing.T) *sqlx.DB {
	t.Helper()
	postgrestest.URL(t)
	db, err := sqlx.Connect("postgres", postgrestest.Empty(t))
	wantNil(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// bare is a database with the migrations' version table alone.
func bare(t *testing.T) *sqlx.DB {
	t.Helper()
	db := empty(t)
	wantNil(t, migrate.Up(t.Context(), db.DB))
	wantNil(t, migrate.Down(t.Context(), db.DB, migrate.All))
	return db
}

// catalogue describes everything that migrations make, one sorted line a thing.
// Columns are numbered by their order, since the numbers of dropped ones are
// never used again; missing privileges are written out.
func catalogue(t *testing.T, db *sqlx.DB) []string {
	t.Helper()
	const acl = `(SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(coalesce(%s)) a)`
	var lines []string
	wantNil(t, db.Select(&lines, `
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
		ORDER BY 1`))
	return lines
}

// outline is the catalogue without partitions, which have dates in their names, without the
// bodies of functions, and without the name of the server's user.
func outline(t *testing.T, db *sqlx.DB) []string {
	t.Helper()
	var user string
	wantNil(t, db.Get(&user, `SELECT current_user`))
	var partitions []string
	wantNil(t, db.Select(&partitions, `SELECT relname FROM pg_class WHERE relispartition AND relkind = 'r'`))
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
		if !slices.Contains(want, line) {
			t.Errorf("%s there is: %s", when, line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s there is no: %s", when, line)
		}
	}
}

// columnOf is a column as the catalogue knows it.
type columnOf struct {
	Name string `db:"name"`
	Type string `db:"type"`
}

func columnsOf(t *testing.T, db *sqlx.DB, table string) []columnOf {
	t.Helper()
	var columns []columnOf
	wantNil(t, db.Select(&columns, `SELECT attname AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
		WHERE attrelid = ('dlq.' || $1)::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`, table))
	return columns
}

// sample is a value for the column, as an SQL expression that no two columns
// share and that is hard to carry over by accident.
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

// seedTen puts in a row of the ten columns and returns its id.
func seedTen(t *testing.T, db *sqlx.DB, status, updated string) (id uuid.UUID) {
	t.Helper()
	wantNil(t, db.Get(&id, `
		INSERT INTO dlq.dlq_messages (id, original_topic, error_message, retry_count, max_retries, payload, status, created_at, updated_at, last_retry_at)
		VALUES (gen_random_uuid(), 'orders', 'boom', 1, 3, '{"order": 1}', $1, '2001-02-03 04:05:06+00', $2, '2001-02-03 04:05:07+00')
		RETURNING id`, status, updated))
	return id
}

func tenOf(t *testing.T, db *sqlx.DB, id uuid.UUID) (text string) {
	t.Helper()
	wantNil(t, db.Get(&text, `SELECT (`+strings.Join(theTen, ", ")+`)::text FROM dlq.dlq_messages WHERE id = $1`, id))
	return text
}

func exec(t *testing.T, db *sqlx.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.Exec(query, args...); err != nil {
		t.Fatalf("%.60s: %v", query, err)
	}
}

func wantNil(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("got %v, want nil", err)
	}
}

// eventually asks until the answer is yes; the database, not the test, waits
// between two questions.
func eventually(t *testing.T, db *sqlx.DB, what, query string, args ...any) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for range 20_000 {
		var yes bool
		wantNil(t, db.Get(&yes, query, args...))
		if yes {
			return
		}
		if time.Now().After(deadline) {
			break
		}
		exec(t, db, `SELECT pg_sleep(0.003)`)
	}
	t.Fatalf("%s: not within a minute", what)
}

// urlOf is the server's URL with another database and the settings that the
// store relies on.
func urlOf(t *testing.T, server, database string) string {
	t.Helper()
	u, err := url.Parse(server)
	wantNil(t, err)
	u.Path = "/" + database
	q := u.Query()
	q.Set("binary_parameters", "yes")
	u.RawQuery = q.Encode()
	return u.String()
}
