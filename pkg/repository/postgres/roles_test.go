package postgres

import (
	"errors"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/insight"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	at := postgrestest.URL(t)
	admin := check.Must(sqlx.Connect("postgres", at))(t)
	t.Cleanup(func() { _ = admin.Close() })
	seedTen(t, admin, "DEAD", "2001-01-01")
	connect := func(t *testing.T, group string) *sqlx.DB {
		t.Helper()
		cfg := configOf(t, at)
		cfg.User, cfg.Password = login(t, group), "p"
		return openConfig(t, cfg)
	}

	postgrestest.Parallel(t, "ApplicationArchivesPurgesAndReadsTheVersion", func(t *testing.T) {
		own := postgrestest.URL(t)
		cfg := configOf(t, own)
		cfg.User, cfg.Password = login(t, "dlq_rw"), "p"
		db := openConfig(t, cfg)
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, updated_at) VALUES ('o', 'e', 'DEAD', '2001-01-01')`)
		store := New(db)
		unlock, ok, err := store.TryLock(t.Context())
		check.Require(t, err == nil && ok, "got %v, %v, want the lock", ok, err)
		defer unlock()
		check.Same(t, check.Must(store.CreatePartitions(t.Context(), 2))(t), 1, "partitions")
		check.Same(t, check.Must(store.ArchiveOld(t.Context(), 30, 10))(t), 1, "archive")
		check.Same(t, check.Must(store.PurgePartitions(t.Context(), 0, 10))(t), 0, "purge of partitions")
		check.Same(t, check.Must(store.PurgeArchive(t.Context(), 0, 10))(t), 1, "purge")
		sessions := insight.NewSessions(db)
		check.Len(t, check.Must(sessions.SigningKeys(t.Context(), make([]byte, 32)))(t), 1, "signing keys")
		check.NoError(t, sessions.EndSessions(t.Context(), [][32]byte{{1}}, time.Now().Add(time.Hour)))
		seedBookkeeping(t, db, 2, "1000d")
		check.Same(t, check.Must(store.PurgeBookkeeping(t.Context(), 365, 730, 10))(t), 8, "bookkeeping")
		check.NoError(t, migrate.Check(t.Context(), db.DB))
	})

	postgrestest.Parallel(t, "ApplicationMayNotChangeTheSchemaNorTheCounters", func(t *testing.T) {
		part := partitions(t, admin)[0]
		wantDenied(t, connect(t, "dlq_rw"), append(foreign,
			`INSERT INTO dlq.message_counters VALUES ('o', 0, 'DEAD', 0, 1)`,
			`UPDATE dlq.message_counters SET messages = 0`,
			`DELETE FROM dlq.message_counters`,
			`INSERT INTO dlq.group_counters VALUES (gen_random_uuid(), 'o', 'DEAD', 0, 1)`,
			`UPDATE dlq.group_counters SET messages = 0`,
			`DELETE FROM dlq.group_counters`,
			`INSERT INTO dlq.group_arrivals VALUES (gen_random_uuid(), now(), 'o', 0, 1, now(), now())`,
			`UPDATE dlq.group_arrivals SET messages = 0`,
			`DELETE FROM dlq.group_arrivals`,
			`DELETE FROM dlq.error_groups`,
			`SELECT dlq.count_arrivals('{}', '{}', '{}', '{}', '{}', '{}', '{}')`,
			`DELETE FROM dlq.archive_ids`,
			`INSERT INTO dlq.archive_ids VALUES (gen_random_uuid(), now())`,
			`UPDATE dlq.archive_partitions SET detached_at = now()`,
			`DELETE FROM dlq.archive_objects`,
			`INSERT INTO dlq.archive_hidden (object_id, message_id) VALUES (gen_random_uuid(), gen_random_uuid())`,
			`UPDATE dlq.archive_object_topics SET messages = 0`,
			`SELECT dlq.keep_archive_object('k')`,
			`UPDATE dlq.signing_keys SET key = key`,
			`DELETE FROM dlq.signing_keys`,
			`INSERT INTO dlq.`+part+` (original_topic, error_message) VALUES ('o', 'e')`,
			`DELETE FROM dlq.`+part,
			`ALTER TABLE dlq.dlq_messages_archive DETACH PARTITION dlq.`+part,
			`CREATE TEMP TABLE mine (id UUID, archived_at TIMESTAMPTZ);
			 CREATE TRIGGER t AFTER INSERT ON mine REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.note_archived()`,
			`UPDATE dlq_migrations.schema_migrations SET version = 1`,
			`SELECT setval('dlq.topics_id_seq', 1)`)...)
	})

	postgrestest.Parallel(t, "ReportsReadEverythingAndChangeNothing", func(t *testing.T) {
		db := connect(t, "dlq_ro")
		tables := postgrestest.All[string](t, admin, `SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname IN ('dlq', 'dlq_migrations')`)
		check.Require(t, len(tables) >= 15, "got tables %v, want all", tables)
		denied := foreign
		for _, table := range tables {
			if slices.Contains([]string{"dlq.signing_keys", "dlq.revoked_sessions", "dlq.console_drafts"}, table) {
				denied = append(denied, `SELECT * FROM `+table)
			} else {
				exec(t, db, `SELECT * FROM `+table)
			}
			column := postgrestest.Get[string](t, admin, `SELECT attname FROM pg_attribute WHERE attrelid = $1::regclass AND attnum = 1`, table)
			denied = append(denied, `DELETE FROM `+table, `INSERT INTO `+table+` DEFAULT VALUES`, `TRUNCATE `+table,
				`UPDATE `+table+` SET `+column+` = DEFAULT`)
		}
		check.NoError(t, migrate.Check(t.Context(), db.DB))
		wantDenied(t, db, append(denied,
			`UPDATE dlq.dlq_messages SET status = 'PENDING'`,
			`SELECT * FROM dlq.dlq_messages FOR UPDATE`,
			`SELECT dlq.purge_audit(365, 10)`,
			`SELECT dlq.purge_arrivals(90, 10)`,
			`SELECT dlq.purge_groups(90, 10)`,
			`SELECT dlq.create_archive_partitions(3)`,
			`SELECT dlq.detach_archive_partitions(0)`,
			`SELECT dlq.purge_detached(10)`,
			`SELECT dlq.drop_document_partitions()`,
			`CALL dlq.archive_old_dlq_messages(0, 10)`)...)
	})

	postgrestest.Parallel(t, "AuditTrailIsAppendOnly", func(t *testing.T) {
		own := postgrestest.URL(t)
		super := check.Must(sqlx.Connect("postgres", own))(t)
		t.Cleanup(func() { _ = super.Close() })
		cfg := configOf(t, own)
		cfg.User, cfg.Password = login(t, "dlq_rw"), "p"
		auditIsAppendOnly(t, openConfig(t, cfg), super)
	})

	postgrestest.Parallel(t, "OwnNothing", func(t *testing.T) {
		owned := postgrestest.Get[int](t, admin, `SELECT count(*) FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid
			WHERE d.deptype = 'o' AND r.rolname IN ('dlq_rw', 'dlq_ro')`)
		check.Same(t, owned, 0, "dlq_rw and dlq_ro own things")
		logins := postgrestest.Get[int](t, admin, `SELECT count(*) FROM pg_roles WHERE rolname IN ('dlq_owner', 'dlq_rw', 'dlq_ro')
			AND (rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolbypassrls)`)
		check.Same(t, logins, 0, "of the roles may sign in or more")
	})

	postgrestest.Parallel(t, "MigratorNeedsCreateOnTheDatabaseAlone", func(t *testing.T) {
		empty(t)
		at := postgrestest.Empty(t)
		cfg := configOf(t, at)
		migrator, application := login(t, ""), login(t, "dlq_rw")
		cfg.User, cfg.Password = migrator, "p"
		super := check.Must(sqlx.Connect("postgres", at))(t)
		defer super.Close()
		exec(t, super, `GRANT CREATE ON DATABASE `+cfg.Name+` TO `+migrator)
		t.Cleanup(func() { dropOwned(t, at, migrator) })

		db := openConfig(t, cfg)
		check.NoError(t, migrate.Up(t.Context(), db.DB))
		check.NoError(t, migrate.Down(t.Context(), db.DB, migrate.All))
		check.NoError(t, migrate.Up(t.Context(), db.DB))

		cfg.User = application
		app := openConfig(t, cfg)
		exec(t, app, `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('o', 'e')`)
		auditIsAppendOnly(t, app, super)
		auditIsAppendOnly(t, app, db) // db has signed in as the owner of the tables
		wantDenied(t, app, foreign...)
		wantExactCounters(t, app)
	})

	postgrestest.Parallel(t, "DroppedUnderALivePoolHealsWithTheNextCredentials", func(t *testing.T) {
		first, second := login(t, "dlq_rw"), login(t, "dlq_rw")
		cfg := configOf(t, at)
		cfg.User, cfg.CredentialsFile = "", filepath.Join(t.TempDir(), "credentials")
		postgrestest.WriteSecret(t, cfg.CredentialsFile, "username: "+first+"\npassword: p\n")
		db := openConfig(t, cfg)
		store := New(db)
		for range 3 { // opens three connections, and prepares the statement on each
			held := postgrestest.HoldConnection(t, db)
			defer held.Close()
			check.Must(store.Counts(t.Context()))(t)
		}
		postgrestest.WantUser(t, db, first)

		postgrestest.WriteSecret(t, cfg.CredentialsFile, "username: "+second+"\npassword: p\n")
		postgrestest.AsAdmin(t, "DROP ROLE "+first)
		check.Must(store.Counts(t.Context()))(t)
		postgrestest.WantUser(t, db, second)
		check.Same(t, db.Stats().MaxOpenConnections, cfg.MaxOpenConns, "the pool has at most connections, want as before")
	})
}

// auditIsAppendOnly: the application may read the audit trail, append entries, and purge old ones, but it cannot change
// entries. Even the owner of the table cannot change entries with a plain statement.
func auditIsAppendOnly(t *testing.T, app, owner *sqlx.DB) {
	t.Helper()
	for _, ago := range []string{"500 days", "366 days", "364 days", "0"} {
		exec(t, app, `INSERT INTO dlq.audit (at, action, kind, object_id, actor)
			VALUES (now() - $1::interval, 'dead', 'message', gen_random_uuid(), 'alice')`, ago)
	}
	before := rowsAsText(t, app, "audit", "m.*")
	changes := []string{
		`UPDATE dlq.audit SET actor = 'nobody'`,
		`DELETE FROM dlq.audit`,
		`TRUNCATE dlq.audit`,
		`TRUNCATE dlq.audit CASCADE`,
		`MERGE INTO dlq.audit a USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE`,
		`INSERT INTO dlq.audit (id, at, action, kind, object_id, actor) OVERRIDING SYSTEM VALUE
		 SELECT id, at, action, kind, object_id, actor FROM dlq.audit LIMIT 1 ON CONFLICT (id) DO UPDATE SET actor = 'nobody'`,
	}
	wantDenied(t, owner, changes...)
	wantDenied(t, app, append(changes,
		`SET dlq.purging_audit = 'on'; DELETE FROM dlq.audit`,
		`SELECT * FROM dlq.audit FOR UPDATE`,
		`ALTER TABLE dlq.audit DISABLE TRIGGER ALL`,
		`DROP TABLE dlq.audit`,
		`CREATE OR REPLACE FUNCTION dlq.purge_audit(p_days INT, p_batch_size INT) RETURNS BIGINT LANGUAGE sql AS 'SELECT 0::bigint'`,
	)...)
	exec(t, app, `RESET dlq.purging_audit`)
	for _, args := range []string{"364, 10", "0, 10", "-1, 10", "NULL, 10", "365, 0", "365, NULL"} {
		_, err := app.Exec(`SELECT dlq.purge_audit(` + args + `)`)
		var refused *pq.Error
		check.True(t, errors.As(err, &refused) && refused.Code == "22023",
			"purge_audit(%s): got %v, want an invalid parameter", args, err)
	}
	check.Same(t, rowsAsText(t, app, "audit", "m.*"), before, "the trail became, want it as before")
	check.Same(t, check.Must(New(app).PurgeBookkeeping(t.Context(), 365, 365, 1))(t), 2, "purge of a year")
	check.Same(t, rowsAsText(t, app, "audit", "m.*"), before[2:], "the purge left")
	wantDenied(t, owner, `DELETE FROM dlq.audit`, // refused even in a session that has just called the purge function
		`SELECT dlq.purge_audit(365, 10); DELETE FROM dlq.audit`)
	exec(t, owner, `ALTER TABLE dlq.audit DISABLE TRIGGER USER`)
	exec(t, owner, `DELETE FROM dlq.audit`)
	exec(t, owner, `ALTER TABLE dlq.audit ENABLE TRIGGER USER`)
}

// foreign lists statements that only the owner of the tables may execute.
var foreign = []string{
	`CREATE TABLE dlq.mine (n INT)`,
	`ALTER TABLE dlq.dlq_messages ADD COLUMN mine INT`,
	`ALTER TABLE dlq.dlq_messages DISABLE TRIGGER ALL`,
	`DROP TABLE dlq.attempts`,
	`DROP SCHEMA dlq CASCADE`,
	`TRUNCATE dlq.dlq_messages`,
	`CREATE INDEX ON dlq.dlq_messages (error_message)`,
	`CREATE OR REPLACE PROCEDURE dlq.archive_old_dlq_messages(p_retention_days INT DEFAULT 30, p_batch_size INT DEFAULT 1000) LANGUAGE sql AS ''`,
	`SET session_replication_role = 'replica'`,
	// The functions that write counters run with the rights of their owner. If a role could use them as triggers on a
	// table of its own, it could write any number to the counters.
	`CREATE TEMP TABLE mine (n INT); CREATE TRIGGER t AFTER TRUNCATE ON mine EXECUTE FUNCTION dlq.count_truncated_messages()`,
	`CREATE TEMP TABLE mine (original_topic TEXT, dlq_topic_id INT, status TEXT);
	 CREATE TRIGGER t AFTER INSERT ON mine REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION dlq.count_inserted_messages()`,
}

func wantDenied(t *testing.T, db *sqlx.DB, statements ...string) {
	t.Helper()
	for _, s := range statements {
		_, err := db.Exec(s)
		var refused *pq.Error
		check.True(t, errors.As(err, &refused) && refused.Code == "42501", "%.90s: got %v, want permission denied", s, err)
	}
}

// login creates a role that may sign in with the password p. The role is a member of the role group, if that is not
// empty.
func login(t *testing.T, group string) string {
	t.Helper()
	postgrestest.URL(t) // migrating this database creates the group roles
	role := "login_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	postgrestest.AsAdmin(t, "CREATE ROLE "+role+" LOGIN PASSWORD 'p'")
	t.Cleanup(func() { postgrestest.AsAdmin(t, "DROP ROLE IF EXISTS "+role) })
	if group != "" {
		postgrestest.AsAdmin(t, "GRANT "+group+" TO "+role)
	}
	return role
}

// dropOwned drops everything that a role has created in a database, so that the role itself can be dropped.
func dropOwned(t *testing.T, at, role string) {
	t.Helper()
	db := check.Must(sqlx.Connect("postgres", at))(t)
	defer db.Close()
	exec(t, db, "DROP OWNED BY "+role+" CASCADE")
}

// configOf returns a Config for a database, without user and password.
func configOf(t *testing.T, at string) conn.Config {
	t.Helper()
	u := check.Must(url.Parse(at))(t)
	cfg := conn.DefaultConfig()
	cfg.Host, cfg.Name = u.Hostname(), strings.TrimPrefix(u.Path, "/")
	cfg.Port = check.Must(strconv.Atoi(u.Port()))(t)
	return cfg
}
