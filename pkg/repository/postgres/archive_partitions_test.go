package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/ingest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/messages"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestArchiveMigration tests, up and down, the migration that replaces the archive table of migration 003.
func TestArchiveMigration(t *testing.T) {
	t.Parallel()
	const before = 9

	withDB(t, "RefusesToReplaceAnArchiveWithRows", func(t *testing.T, db *sqlx.DB) {
		seedFinal(t, db, 20, "DEAD")
		check.NoError(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-before)))
		exec(t, db, `CALL dlq.archive_old_dlq_messages()`)
		wantMoved(t, db, 0, 20)
		check.Says(t, migrate.Up(t.Context(), db.DB), "dlq_messages_archive has rows", "want a refusal that names the table")
		wantMoved(t, db, 0, 20)
		exec(t, db, `CREATE TABLE public.dlq_archive_before AS TABLE dlq.dlq_messages_archive`)
		exec(t, db, `TRUNCATE dlq.dlq_messages_archive`)
		check.NoError(t, migrate.Up(t.Context(), db.DB))
		check.NoError(t, migrate.Check(t.Context(), db.DB))
	})

	postgrestest.Parallel(t, "KeepsTheTenColumnsOnTheWayDown", func(t *testing.T) {
		db := quarters(t)
		seedQuarters(t, db, 5)
		exec(t, db, `SELECT dlq.detach_archive_partitions(365)`)
		want := rowsAsText(t, db, "dlq_messages_archive", "("+strings.Join(theTen, ", ")+")")
		check.NoError(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-before)))
		got := rowsAsText(t, db, "dlq_messages_archive", "("+strings.Join(theTen, ", ")+")")
		check.True(t, len(got) != 0 && slices.Equal(got, want),
			"got %d rows, want the %d of partitions that are not detached", len(got), len(want))
	})

	withDB(t, "GivesUpBehindAReaderAndChangesNothing", func(t *testing.T, db *sqlx.DB) {
		check.NoError(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-before)))
		want := catalogue(t, db)
		reader := begin(t, db)
		postgrestest.Get[int](t, reader, `SELECT count(*) FROM dlq.dlq_messages_archive`)
		check.Says(t, migrate.Up(t.Context(), db.DB), "lock timeout", "during a read, want the lock timeout")
		wantLines(t, "during a read", catalogue(t, db), want)
		check.NoError(t, reader.Rollback())
		check.NoError(t, migrate.Up(t.Context(), db.DB))
	})
}

func TestCreateArchivePartitions(t *testing.T) {
	t.Parallel()
	const following = `SELECT count(*) FROM dlq.archive_partitions
		WHERE until_at > date_trunc('quarter', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'`
	wantQuarters := func(t *testing.T, db *sqlx.DB, want int) {
		t.Helper()
		check.Same(t, postgrestest.Get[int](t, db, following), want, "quarters from now on")
	}

	withDB(t, "MakesWhatIsMissingAndNothingElse", func(t *testing.T, db *sqlx.DB) {
		store := New(db)
		wantQuarters(t, db, 2) // the migration created the partitions of the present and of the next quarter
		for _, c := range []struct{ ahead, made int }{{0, 0}, {1, 0}, {4, 3}, {4, 0}, {2, 0}} {
			check.Same(t, check.Must(store.CreatePartitions(t.Context(), c.ahead))(t), int64(c.made), "%d ahead", c.ahead)
		}
		wantQuarters(t, db, 5)
		wrong := postgrestest.Get[int](t, db, `SELECT count(*) FROM dlq.archive_partitions
			WHERE name <> to_char((until_at - interval '1 day') AT TIME ZONE 'UTC', '"dlq_messages_archive_"YYYY"q"Q')
			   OR NOT EXISTS (SELECT FROM pg_inherits WHERE inhparent = 'dlq.dlq_messages_archive'::regclass AND inhrelid = ('dlq.' || name)::regclass)`)
		check.Same(t, wrong, 0, "partitions have another name than their quarter or are none")
		for _, ahead := range []int{-1, 41} {
			check.True(t, check.Err(store.CreatePartitions(t.Context(), ahead)) != nil,
				"%d ahead: got no error, want a refusal", ahead)
		}
	})

	withDB(t, "MakesThemAllAlike", func(t *testing.T, db *sqlx.DB) {
		for _, of := range []string{
			`SELECT string_agg(concat_ws(' ', attname, attstorage, attnotnull, pg_get_expr(adbin, adrelid)), ', ' ORDER BY attnum)
			 FROM pg_attribute LEFT JOIN pg_attrdef ON (adrelid, adnum) = (attrelid, attnum)
			 WHERE attrelid = ('dlq.' || $1)::regclass AND attnum > 0 AND NOT attisdropped`,
			`SELECT string_agg(replace(pg_get_indexdef(indexrelid), $1, 'p'), ', ' ORDER BY indexrelid::regclass::text)
			 FROM pg_index WHERE indrelid = ('dlq.' || $1)::regclass`,
			`SELECT concat_ws(' ', reloptions::text, relacl::text) FROM pg_class WHERE oid = ('dlq.' || $1)::regclass`,
			`SELECT string_agg(pg_get_constraintdef(oid), ', ' ORDER BY conname) FROM pg_constraint
			 WHERE conrelid = ('dlq.' || $1)::regclass`,
		} {
			var alike []string
			parts := postgrestest.All[string](t, db, `SELECT name FROM dlq.archive_partitions ORDER BY until_at`)
			for _, part := range parts {
				is := postgrestest.Get[string](t, db, of, part)
				alike = append(alike, is)
			}
			check.True(t, alike[0] != "" && len(slices.Compact(alike)) == 1, "got %q, want the same of each", alike)
		}
	})

	withDB(t, "ForManyCallersAtOnce", func(t *testing.T, db *sqlx.DB) {
		var made atomic.Int64
		atOnce(t, 8, func(int) error {
			n, err := New(db).CreatePartitions(t.Context(), 5)
			made.Add(n)
			return err
		})
		check.Same(t, made.Load(), 4, "partitions that all callers made")
		wantQuarters(t, db, 6)
	})

	withDB(t, "WithoutWaitingForReadersAndWriters", func(t *testing.T, db *sqlx.DB) {
		other := begin(t, db)
		other.MustExec(`INSERT INTO dlq.dlq_messages_archive (original_topic, error_message) VALUES ('orders', 'boom')`)
		check.Same(t, check.Must(New(db).CreatePartitions(t.Context(), 2))(t), 1, "during a write")
	})

	withDB(t, "IsDoneByTheProcedureToo", func(t *testing.T, db *sqlx.DB) {
		withoutPartitions(t, db)
		seedFinal(t, db, 25, "DEAD")
		exec(t, db, `CALL dlq.archive_old_dlq_messages(30, 10)`)
		wantMoved(t, db, 0, 25)
		wantQuarters(t, db, 2)
		wantKeptIDs(t, db)
	})
}

func TestPurgePartitions(t *testing.T) {
	t.Parallel()
	belongings := []string{"attempts", "edits", "returns", "message_documents", "archive_ids"}
	wantOf := func(t *testing.T, db *sqlx.DB, want int) {
		t.Helper()
		for _, table := range belongings {
			check.Same(t, count(t, db, table), want, "%s", table)
		}
	}
	// due counts the archived messages: whole are those in partitions that can be purged as a whole, partly are those
	// that must be purged in a partition with younger messages, and young are those that must not be purged yet.
	due := func(t *testing.T, db *sqlx.DB) (whole, partly, young int) {
		t.Helper()
		var n struct {
			Whole  int `db:"whole"`
			Partly int `db:"partly"`
			Young  int `db:"young"`
		}
		check.NoError(t, db.Get(&n, `
			WITH line AS (SELECT max(until_at) AS until_at FROM dlq.archive_partitions WHERE until_at <= now() - interval '365 days')
			SELECT count(*) FILTER (WHERE archived_at < until_at) AS whole,
				count(*) FILTER (WHERE archived_at >= until_at AND archived_at < now() - interval '365 days') AS partly,
				count(*) FILTER (WHERE archived_at >= now() - interval '365 days') AS young
			FROM dlq.dlq_messages_archive, line`))
		check.Require(t, n.Whole != 0 && n.Young != 0, "got %+v, want some of each", n)
		return n.Whole, n.Partly, n.Young
	}

	postgrestest.Parallel(t, "TakesWholeQuartersWithAllThatBelongsToThem", func(t *testing.T) {
		db := quarters(t)
		seedQuarters(t, db, 5)
		whole, partly, young := due(t, db)
		store := New(db)
		check.Same(t, check.Must(store.PurgePartitions(t.Context(), 365, 3))(t), int64(whole), "purged messages")
		wantMoved(t, db, 0, partly+young)
		wantOf(t, db, partly+young)
		wantKeptIDs(t, db)
		got := count(t, db, "archive_partitions WHERE until_at <= now() - interval '365 days'")
		check.Same(t, got, 0, "partitions that are due")
		tables := postgrestest.Get[int](t, db, `SELECT count(*) FROM pg_tables WHERE schemaname = 'dlq' AND tablename LIKE 'dlq_messages_archive_2%'`)
		check.Same(t, tables, count(t, db, "archive_partitions"), "tables, want the partitions")
		check.Same(t, check.Must(store.PurgePartitions(t.Context(), 365, 3))(t), 0, "again")
		check.Same(t, check.Must(store.PurgeArchive(t.Context(), 365, 3))(t), int64(partly), "by rows")
		wantMoved(t, db, 0, young)
		for _, table := range belongings {
			check.Same(t, count(t, db, table), young, "by rows: got %s", table)
		}
	})

	postgrestest.Parallel(t, "EndsWhatACrashLeft", func(t *testing.T) {
		db := quarters(t)
		seedQuarters(t, db, 5)
		whole, partly, young := due(t, db)
		gone := postgrestest.Get[uuid.UUID](t, db, `SELECT id FROM dlq.dlq_messages_archive ORDER BY archived_at LIMIT 1`)
		store := New(db)

		taken := postgrestest.Get[int](t, db, `SELECT dlq.detach_archive_partitions(365)`)
		check.Require(t, taken >= 2, "got %d partitions, want some", taken)
		wantMoved(t, db, 0, partly+young) // messages of a detached partition are no longer in the archive
		check.Is(t, check.Err(store.GetArchived(t.Context(), gone, 0)), entity.ErrNotFound,
			"one of a partition that was taken off, want that there is none")
		check.Is(t, check.Err(store.Restore(t.Context(), gone, entity.By("alice"))), entity.ErrNotFound,
			"restore of it, want that there is none")
		wantOf(t, db, whole+partly+young)

		n := postgrestest.Get[int](t, db, `SELECT dlq.purge_detached(3)`)
		check.Same(t, n, 3, "want a batch of 3")
		wantOf(t, db, whole+partly+young-3)

		tx, err := db.Beginx() // a purge of one batch in this transaction is rolled back
		check.NoError(t, err)
		check.NoError(t, tx.Get(&n, `SELECT dlq.purge_detached(100)`))
		check.NoError(t, tx.Rollback())
		wantOf(t, db, whole+partly+young-3)

		check.Same(t, check.Must(store.PurgePartitions(t.Context(), 365, 4))(t), int64(whole-3), "the next run, want the other")
		wantMoved(t, db, 0, partly+young)
		wantOf(t, db, partly+young)
		check.Same(t, count(t, db, "archive_partitions WHERE detached_at IS NOT NULL"), 0, "partitions that were not dropped")
	})

	postgrestest.Parallel(t, "LeavesWhatSomebodyReadsToTheRows", func(t *testing.T) {
		db := quarters(t)
		seedQuarters(t, db, 2)
		whole, partly, young := due(t, db)
		reader := begin(t, db)
		postgrestest.Get[int](t, reader, `SELECT count(*) FROM dlq.dlq_messages_archive`)
		store := New(db)
		check.Same(t, check.Must(store.PurgePartitions(t.Context(), 365, 10))(t), 0, "during a read")
		check.Same(t, check.Must(store.PurgeArchive(t.Context(), 365, 10))(t), int64(whole+partly), "by rows")
		check.NoError(t, reader.Rollback())
		check.Same(t, check.Must(store.PurgePartitions(t.Context(), 365, 10))(t), 0, "of nothing")
		got := count(t, db, "archive_partitions WHERE until_at <= now() - interval '365 days'")
		check.Same(t, got, 0, "empty partitions that are due")
		wantMoved(t, db, 0, young)
	})

	postgrestest.Parallel(t, "SharesTheWork", func(t *testing.T) {
		db := quarters(t)
		seedQuarters(t, db, 20)
		whole, partly, young := due(t, db)
		var purged atomic.Int64
		purge := func(int) error {
			n, err := New(db).PurgePartitions(t.Context(), 365, 7)
			purged.Add(n)
			return err
		}
		atOnce(t, 4, purge)
		check.NoError(t, purge(0)) // purges what the four parallel calls have left
		check.Same(t, purged.Load(), int64(whole), "messages that all callers purged")
		wantOf(t, db, partly+young)
	})

	postgrestest.Parallel(t, "RefusesNonsense", func(t *testing.T) {
		db := quarters(t)
		for _, args := range [][2]int{{-1, 10}, {365, 0}} {
			check.True(t, check.Err(New(db).PurgePartitions(t.Context(), args[0], args[1])) != nil,
				"%v: got no error, want a refusal", args)
		}
		for _, call := range []string{"detach_archive_partitions(-1)", "detach_archive_partitions(NULL)", "purge_detached(0)", "purge_detached(NULL)", "create_archive_partitions(NULL)"} {
			_, err := db.Exec(`SELECT dlq.` + call)
			var refused *pq.Error
			check.True(t, errors.As(err, &refused) && refused.Code == "22023", "%s: got %v, want an invalid parameter", call, err)
		}
	})
}

func TestArchivedIDs(t *testing.T) {
	t.Parallel()
	const put = `INSERT INTO dlq.dlq_messages_archive (id, original_topic, error_message, archived_at) VALUES ($1, 'orders', 'boom', $2)`
	ago := func(days int) time.Time { return time.Now().Add(-time.Duration(days) * 24 * time.Hour) }

	postgrestest.Parallel(t, "AreThereOnceOverAllQuarters", func(t *testing.T) {
		db := quarters(t)
		for range 5 {
			id := uuid.New()
			errs := make([]error, 8)
			var all sync.WaitGroup
			for i := range errs {
				all.Go(func() { _, errs[i] = db.Exec(put, id, ago(i*92)) })
			}
			all.Wait()
			refused := 0
			for _, err := range errs {
				if failed := (*pq.Error)(nil); errors.As(err, &failed) && failed.Code == "23505" && strings.Contains(failed.Message, id.String()) {
					refused++
				} else if err != nil {
					t.Errorf("got %v, want a refusal that names %s", err, id)
				}
			}
			check.True(t, refused == 7 && count(t, db, "dlq_messages_archive WHERE id = $1", id) == 1,
				"%d of 8 were refused, want 7 and one row", refused)
		}
		wantKeptIDs(t, db)
	})

	postgrestest.Parallel(t, "RefuseASecondMoveThatLosesNothing", func(t *testing.T) {
		db := quarters(t)
		id := seedTen(t, db, "DEAD", "2001-01-01")
		exec(t, db, put, id, ago(200))
		_, err := New(db).ArchiveOld(t.Context(), 30, 10)
		var refused *pq.Error
		check.True(t, errors.As(err, &refused) && refused.Code == "23505" && strings.Contains(err.Error(), id.String()),
			"got %v, want a refusal that names %s", err, id)
		wantMoved(t, db, 1, 1)
	})

	postgrestest.Parallel(t, "FollowEveryChange", func(t *testing.T) {
		db := quarters(t)
		seedQuarters(t, db, 4)
		some := postgrestest.All[uuid.UUID](t, db, `SELECT id FROM dlq.dlq_messages_archive ORDER BY id LIMIT 3`)
		for _, change := range []string{
			`UPDATE dlq.dlq_messages_archive SET outcome = 'returned'`,
			`UPDATE dlq.dlq_messages_archive SET archived_at = archived_at + interval '80 days' WHERE archived_at < now() - interval '100 days'`,
			`UPDATE dlq.dlq_messages_archive SET id = gen_random_uuid(), archived_at = now() WHERE id = '` + some[0].String() + `'`,
			`UPDATE dlq.dlq_messages_archive SET id = gen_random_uuid() WHERE id = '` + some[1].String() + `'`,
			`DELETE FROM dlq.dlq_messages_archive WHERE id = '` + some[2].String() + `'`,
			`DELETE FROM dlq.dlq_messages_archive WHERE archived_at < now() - interval '200 days'`,
			`MERGE INTO dlq.dlq_messages_archive a USING (SELECT gen_random_uuid() AS id) n ON a.id = n.id
			 WHEN NOT MATCHED THEN INSERT (id, original_topic, error_message) VALUES (n.id, 'orders', 'boom')`,
		} {
			exec(t, db, change)
			wantKeptIDs(t, db)
		}
		var last [2]uuid.UUID
		check.NoError(t, db.Get(&last[0], `SELECT id FROM dlq.dlq_messages_archive ORDER BY id LIMIT 1`))
		check.NoError(t, db.Get(&last[1], `SELECT id FROM dlq.dlq_messages_archive ORDER BY id OFFSET 1 LIMIT 1`))
		if _, err := db.Exec(`UPDATE dlq.dlq_messages_archive SET id = $1, archived_at = archived_at - interval '100 days' WHERE id = $2`, last[0], last[1]); err == nil {
			t.Error("a change to another's id: got no error, want a refusal")
		}
		exec(t, db, `TRUNCATE dlq.dlq_messages_archive`)
		wantKeptIDs(t, db)
	})

	postgrestest.Parallel(t, "AreRestoredFromAnyQuarter", func(t *testing.T) {
		db := quarters(t)
		seedQuarters(t, db, 1)
		store := New(db)
		ids := allIDs(t, db, "dlq_messages_archive")
		for _, id := range ids {
			check.Same(t, check.Must(store.GetArchived(t.Context(), id, 100))(t).ID, id, "get")
			m := check.Must(store.Restore(t.Context(), id, entity.By("alice")))(t)
			check.Same(t, m.Status, entity.Pending, "restore, want it pending")
		}
		wantMoved(t, db, len(ids), 0)
		wantKeptIDs(t, db)
		exec(t, db, `UPDATE dlq.dlq_messages SET status = 'DEAD', updated_at = now() - interval '1 year'`)
		check.Same(t, check.Must(store.ArchiveOld(t.Context(), 30, 3))(t), int64(len(ids)), "again")
		wantKeptIDs(t, db)
	})

	postgrestest.Parallel(t, "AreExactWhateverHappensAtOnce", func(t *testing.T) {
		db := quarters(t)
		seedQuarters(t, db, 10)
		seedFinal(t, db, 300, "DEAD")
		all := slices.Concat(allIDs(t, db, "dlq_messages"), allIDs(t, db, "dlq_messages_archive"))
		store := New(db)
		var work sync.WaitGroup
		errs := make([]error, 8)
		for i := range 3 {
			work.Go(func() { _, errs[i] = store.ArchiveOld(t.Context(), 30, 10) })
			work.Go(func() {
				for n, id := range all {
					if n%3 != i {
						continue
					}
					if _, err := store.Restore(t.Context(), id, entity.By("alice")); err != nil && !errors.Is(err, entity.ErrNotFound) {
						errs[3+i] = err
					}
				}
			})
		}
		work.Go(func() { _, errs[6] = store.PurgePartitions(t.Context(), 365, 5) })
		work.Go(func() { _, errs[7] = store.PurgeArchive(t.Context(), 365, 5) })
		work.Wait()
		check.NoError(t, errors.Join(errs...))
		wantKeptIDs(t, db)
		wantExactCounters(t, db)
		both := postgrestest.Get[int](t, db, `SELECT count(*) FROM dlq.dlq_messages JOIN dlq.dlq_messages_archive USING (id)`)
		check.Same(t, both, 0, "rows in both tables")
	})
}

// TestArchivePruning: a query by id reads only one partition of the archive, and a purge reads only partitions that
// contain due messages.
func TestArchivePruning(t *testing.T) {
	t.Parallel()
	db := quarters(t)
	db.SetMaxOpenConns(1)
	seedQuarters(t, db, 50)
	exec(t, db, `ANALYZE dlq.dlq_messages_archive, dlq.archive_ids`)
	id := postgrestest.Get[uuid.UUID](t, db, `SELECT id FROM dlq.dlq_messages_archive ORDER BY archived_at OFFSET 100 LIMIT 1`)
	one := "'" + id.String() + "'"
	page, args := search.PageQuery(messages.FromArchive, search.Listed(messages.FromArchive, repository.SearchQuery{Archived: true, Limit: 1}, search.Scope{}, search.LeaveOut))
	for i, arg := range args {
		page = strings.ReplaceAll(page, fmt.Sprintf("$%d::", i+1), fmt.Sprintf("%v::", arg))
	}
	for _, c := range []struct {
		name, query string
		args        []string
		most        int // maximum number of partitions that the query may scan
	}{
		{"Get", messages.GetArchivedQuery, []string{one, "-1"}, 1},
		{"Restore", messages.RestoreQuery, []string{one, "NULL", "'alice'", "NULL", "NULL", "NULL", "NULL", "0"}, 1},
		{"Parent", ingest.ParentQuery, []string{"'{" + id.String() + "}'", "'{" + id.String() + "}'", "'{orders}'", "'{1}'", "'{true}'"}, 1},
		{"Page", page, nil, len(partitions(t, db)) + 1},          // a page may read the index of each partition
		{"Purge", messages.PurgeQuery, []string{"700", "10"}, 4}, // reads no partition that is younger than the cut-off
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				exec(t, db, `SET plan_cache_mode = `+mode)
				exec(t, db, `PREPARE pruned AS `+c.query)
				defer exec(t, db, `DEALLOCATE pruned`)
				with := ""
				if len(c.args) > 0 {
					with = "(" + strings.Join(c.args, ", ") + ")"
				}
				tx := db.MustBegin()
				defer func() { _ = tx.Rollback() }()
				lines := postgrestest.All[string](t, tx, `EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, COSTS OFF) EXECUTE pruned`+with)
				scans := 0
				for _, line := range lines {
					if partitionScan.MatchString(line) && !strings.Contains(line, "never executed") {
						scans++
					}
				}
				check.True(t, scans != 0 && scans <= c.most,
					"got %d scans of partitions, want 1 to %d:\n%s", scans, c.most, strings.Join(lines, "\n"))
			})
		}
	}
}

var partitionScan = regexp.MustCompile(`Scan .*on dlq_messages_archive_\d{4}q\d`)

func partitions(t *testing.T, db *sqlx.DB) (names []string) {
	t.Helper()
	check.NoError(t, db.Select(&names, `SELECT name FROM dlq.archive_partitions`))
	return names
}

// quarters returns a database whose archive has a partition for each quarter from two years ago to the next quarter,
// and one partition for everything older.
func quarters(t *testing.T) *sqlx.DB {
	t.Helper()
	db := postgrestest.Open(t)
	withoutPartitions(t, db)
	exec(t, db, `SET timezone = 'UTC'; CREATE TABLE public.began AS SELECT date_trunc('quarter', now() - interval '2 years') AS at; RESET timezone`)
	exec(t, db, `DO $$ DECLARE v_until TIMESTAMPTZ; v_name TEXT; BEGIN
		SELECT at INTO v_until FROM public.began;
		v_name := to_char((v_until - interval '1 day') AT TIME ZONE 'UTC', '"dlq_messages_archive_"YYYY"q"Q');
		EXECUTE format('CREATE TABLE dlq.%I PARTITION OF dlq.dlq_messages_archive FOR VALUES FROM (MINVALUE) TO (%L)', v_name, v_until);
		INSERT INTO dlq.archive_partitions (name, until_at) VALUES (v_name, v_until);
	END $$`)
	n := check.Must(New(db).CreatePartitions(t.Context(), 1))(t)
	check.Require(t, n == 10, "got %d, want the 10 quarters from two years ago to the next", n)
	return db
}

func withoutPartitions(t *testing.T, db *sqlx.DB) {
	t.Helper()
	for _, name := range partitions(t, db) {
		exec(t, db, `DROP TABLE dlq.`+name)
	}
	exec(t, db, `DELETE FROM dlq.archive_partitions`)
}

// seedQuarters inserts the given number of messages for each of nine quarters, but none in the future. Each message has
// an attempt, an edit, a return and a document in the search index.
func seedQuarters(t *testing.T, db *sqlx.DB, each int) {
	t.Helper()
	exec(t, db, `INSERT INTO dlq.dlq_messages_archive (original_topic, error_message, status, created_at, archived_at)
		SELECT 'orders', 'boom', 'DEAD', x.moment, x.moment
		FROM public.began b, generate_series(0, 8) q, generate_series(1, $1::int) n,
			LATERAL (SELECT least(b.at - interval '10 days' + q * interval '3 months' + n * interval '1 second', now()) AS moment) x`, each)
	seedAttempts(t, db, 1)
	postgrestest.StoreDocuments(t, db, `''`, `'{}'`, `dlq.dlq_messages_archive m`)
}

// wantKeptIDs checks that dlq.archive_ids contains exactly the ids of the messages in the archive.
func wantKeptIDs(t *testing.T, db *sqlx.DB) {
	t.Helper()
	wrong := postgrestest.Get[int](t, db, `SELECT count(*) FROM dlq.archive_ids i FULL JOIN dlq.dlq_messages_archive a USING (id, archived_at)
		WHERE i.id IS NULL OR a.error_message IS NULL`)
	check.Same(t, wrong, 0, "ids are not kept as the archive has them")
}

// TestDeletesByPlaceAreRefused: a DELETE by ctid from the archive is refused. A ctid is unique only within a partition,
// so the statement would also delete rows of other partitions.
func TestDeletesByPlaceAreRefused(t *testing.T) {
	db := freshDB(t)
	exec(t, db, `INSERT INTO dlq.dlq_messages_archive (id, original_topic, error_message, archived_at)
		SELECT gen_random_uuid(), 'orders', 'boom', now() - n * interval '200 days' FROM generate_series(0, 2) n`)
	_, err := db.ExecContext(t.Context(), `DELETE FROM dlq.dlq_messages_archive WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM dlq.dlq_messages_archive WHERE archived_at < now() - make_interval(days => 365) LIMIT 10))`)
	check.Says(t, err, "delete by id", "want a refusal that says how to delete")
	check.Same(t, count(t, db, "dlq_messages_archive"), 3, "messages that are left")
	check.Same(t, check.Must(New(db).PurgeArchive(t.Context(), 365, 10))(t), 1, "PurgeArchive, want the one that is due")
}
