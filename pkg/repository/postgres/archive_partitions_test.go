package postgres

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestArchiveMigration: the step that replaces the archive of 003, and its way down.
func TestArchiveMigration(t *testing.T) {
	t.Parallel()
	const before = 9

	t.Run("RefusesToReplaceAnArchiveWithRows", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		seedFinal(t, db, 20, "DEAD")
		wantNil(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-before)))
		exec(t, db, `CALL dlq.archive_old_dlq_messages()`)
		wantMoved(t, db, 0, 20)
		if err := migrate.Up(t.Context(), db.DB); err == nil || !strings.Contains(err.Error(), "dlq_messages_archive has rows") {
			t.Errorf("got %v, want a refusal that names the table", err)
		}
		wantMoved(t, db, 0, 20)
		exec(t, db, `CREATE TABLE public.dlq_archive_before AS TABLE dlq.dlq_messages_archive`)
		exec(t, db, `TRUNCATE dlq.dlq_messages_archive`)
		wantNil(t, migrate.Up(t.Context(), db.DB))
		wantNil(t, migrate.Check(t.Context(), db.DB))
	})

	t.Run("KeepsTheTenColumnsOnTheWayDown", func(t *testing.T) {
		t.Parallel()
		db := quarters(t)
		seedQuarters(t, db, 5)
		exec(t, db, `SELECT dlq.detach_archive_partitions(365)`)
		want := rowsAsText(t, db, "dlq_messages_archive", "("+strings.Join(theTen, ", ")+")")
		wantNil(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-before)))
		if got := rowsAsText(t, db, "dlq_messages_archive", "("+strings.Join(theTen, ", ")+")"); len(got) == 0 || !slices.Equal(got, want) {
			t.Errorf("got %d rows, want the %d of partitions that are not detached", len(got), len(want))
		}
	})

	t.Run("GivesUpBehindAReaderAndChangesNothing", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		wantNil(t, migrate.Down(t.Context(), db.DB, int(migrate.Latest()-before)))
		want := catalogue(t, db)
		reader, err := db.Beginx()
		wantNil(t, err)
		defer func() { _ = reader.Rollback() }()
		var n int
		wantNil(t, reader.Get(&n, `SELECT count(*) FROM dlq.dlq_messages_archive`))
		if err := migrate.Up(t.Context(), db.DB); err == nil || !strings.Contains(err.Error(), "lock timeout") {
			t.Errorf("behind a reader: got %v, want the lock timeout", err)
		}
		wantLines(t, "behind a reader", catalogue(t, db), want)
		wantNil(t, reader.Rollback())
		wantNil(t, migrate.Up(t.Context(), db.DB))
	})
}

func TestCreateArchivePartitions(t *testing.T) {
	t.Parallel()
	const following = `SELECT count(*) FROM dlq.archive_partitions
		WHERE until_at > date_trunc('quarter', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'`
	wantQuarters := func(t *testing.T, db *sqlx.DB, want int) {
		t.Helper()
		var got int
		wantNil(t, db.Get(&got, following))
		if got != want {
			t.Errorf("got %d quarters from now on, want %d", got, want)
		}
	}

	t.Run("MakesWhatIsMissingAndNothingElse", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		store := New(db)
		wantQuarters(t, db, 2) // by the migration
		for _, c := range []struct{ ahead, made int }{{0, 0}, {1, 0}, {4, 3}, {4, 0}, {2, 0}} {
			if n, err := store.CreatePartitions(t.Context(), c.ahead); err != nil || n != int64(c.made) {
				t.Errorf("%d ahead: got %d, %v, want %d", c.ahead, n, err, c.made)
			}
		}
		wantQuarters(t, db, 5)
		var wrong int
		wantNil(t, db.Get(&wrong, `SELECT count(*) FROM dlq.archive_partitions
			WHERE name <> to_char((until_at - interval '1 day') AT TIME ZONE 'UTC', '"dlq_messages_archive_"YYYY"q"Q')
			   OR NOT EXISTS (SELECT FROM pg_inherits WHERE inhparent = 'dlq.dlq_messages_archive'::regclass AND inhrelid = ('dlq.' || name)::regclass)`))
		if wrong != 0 {
			t.Errorf("%d partitions have another name than their quarter or are none, want none", wrong)
		}
		for _, ahead := range []int{-1, 41} {
			if _, err := store.CreatePartitions(t.Context(), ahead); err == nil {
				t.Errorf("%d ahead: got no error, want a refusal", ahead)
			}
		}
	})

	t.Run("MakesThemAllAlike", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
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
			var parts []string
			wantNil(t, db.Select(&parts, `SELECT name FROM dlq.archive_partitions ORDER BY until_at`))
			for _, part := range parts {
				var is string
				wantNil(t, db.Get(&is, of, part))
				alike = append(alike, is)
			}
			if alike[0] == "" || len(slices.Compact(alike)) != 1 {
				t.Errorf("got %q, want the same of each", alike)
			}
		}
	})

	t.Run("ForManyCallersAtOnce", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		made, errs := make([]int64, 8), make([]error, 8)
		var all sync.WaitGroup
		for i := range made {
			all.Go(func() { made[i], errs[i] = New(db).CreatePartitions(t.Context(), 5) })
		}
		all.Wait()
		wantNil(t, errors.Join(errs...))
		sum := int64(0)
		for _, n := range made {
			sum += n
		}
		if sum != 4 {
			t.Errorf("the callers made %v, want 4 in all", made)
		}
		wantQuarters(t, db, 6)
	})

	t.Run("WithoutWaitingForReadersAndWriters", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		other, err := db.Beginx()
		wantNil(t, err)
		defer func() { _ = other.Rollback() }()
		other.MustExec(`INSERT INTO dlq.dlq_messages_archive (original_topic, error_message) VALUES ('orders', 'boom')`)
		if n, err := New(db).CreatePartitions(t.Context(), 2); err != nil || n != 1 {
			t.Errorf("beside a writer: got %d, %v, want 1", n, err)
		}
	})

	t.Run("IsDoneByTheProcedureToo", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
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
			if got := count(t, db, table); got != want {
				t.Errorf("got %d %s, want %d", got, table, want)
			}
		}
	}
	// due are the rows of partitions that are due as a whole, and of those that are
	// not.
	due := func(t *testing.T, db *sqlx.DB) (whole, partly, young int) {
		t.Helper()
		var n struct {
			Whole  int `db:"whole"`
			Partly int `db:"partly"`
			Young  int `db:"young"`
		}
		wantNil(t, db.Get(&n, `
			WITH line AS (SELECT max(until_at) AS until_at FROM dlq.archive_partitions WHERE until_at <= now() - interval '365 days')
			SELECT count(*) FILTER (WHERE archived_at < until_at) AS whole,
				count(*) FILTER (WHERE archived_at >= until_at AND archived_at < now() - interval '365 days') AS partly,
				count(*) FILTER (WHERE archived_at >= now() - interval '365 days') AS young
			FROM dlq.dlq_messages_archive, line`))
		if n.Whole == 0 || n.Young == 0 {
			t.Fatalf("got %+v, want some of each", n)
		}
		return n.Whole, n.Partly, n.Young
	}

	t.Run("TakesWholeQuartersWithAllThatBelongsToThem", func(t *testing.T) {
		t.Parallel()
		db := quarters(t)
		seedQuarters(t, db, 5)
		whole, partly, young := due(t, db)
		store := New(db)
		if n, err := store.PurgePartitions(t.Context(), 365, 3); err != nil || n != int64(whole) {
			t.Errorf("got %d, %v, want %d", n, err, whole)
		}
		wantMoved(t, db, 0, partly+young)
		wantOf(t, db, partly+young)
		wantKeptIDs(t, db)
		if got := count(t, db, "archive_partitions WHERE until_at <= now() - interval '365 days'"); got != 0 {
			t.Errorf("got %d partitions that are due, want none", got)
		}
		var tables int
		wantNil(t, db.Get(&tables, `SELECT count(*) FROM pg_tables WHERE schemaname = 'dlq' AND tablename LIKE 'dlq_messages_archive_2%'`))
		if want := count(t, db, "archive_partitions"); tables != want {
			t.Errorf("got %d tables, want the %d partitions", tables, want)
		}
		if n, err := store.PurgePartitions(t.Context(), 365, 3); err != nil || n != 0 {
			t.Errorf("again: got %d, %v, want 0", n, err)
		}
		if n, err := store.PurgeArchive(t.Context(), 365, 3); err != nil || n != int64(partly) {
			t.Errorf("by rows: got %d, %v, want %d", n, err, partly)
		}
		wantMoved(t, db, 0, young)
		for _, table := range belongings {
			if got := count(t, db, table); got != young {
				t.Errorf("by rows: got %d %s, want %d", got, table, young)
			}
		}
	})

	t.Run("EndsWhatACrashLeft", func(t *testing.T) {
		t.Parallel()
		db := quarters(t)
		seedQuarters(t, db, 5)
		whole, partly, young := due(t, db)
		var gone uuid.UUID
		wantNil(t, db.Get(&gone, `SELECT id FROM dlq.dlq_messages_archive ORDER BY archived_at LIMIT 1`))
		store := New(db)

		var taken int
		wantNil(t, db.Get(&taken, `SELECT dlq.detach_archive_partitions(365)`))
		if taken < 2 {
			t.Fatalf("got %d partitions, want some", taken)
		}
		wantMoved(t, db, 0, partly+young) // in no list any more
		if _, err := store.GetArchived(t.Context(), gone, 0); !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("one of a partition that was taken off: got %v, want that there is none", err)
		}
		if _, err := store.Restore(t.Context(), gone, entity.By("alice")); !errors.Is(err, entity.ErrNotFound) {
			t.Errorf("restore of it: got %v, want that there is none", err)
		}
		wantOf(t, db, whole+partly+young)

		var n int
		wantNil(t, db.Get(&n, `SELECT dlq.purge_detached(3)`))
		if n != 3 {
			t.Errorf("got %d, want a batch of 3", n)
		}
		wantOf(t, db, whole+partly+young-3)

		tx, err := db.Beginx() // which dies with the batch
		wantNil(t, err)
		wantNil(t, tx.Get(&n, `SELECT dlq.purge_detached(100)`))
		wantNil(t, tx.Rollback())
		wantOf(t, db, whole+partly+young-3)

		if n, err := store.PurgePartitions(t.Context(), 365, 4); err != nil || n != int64(whole-3) {
			t.Errorf("the next run: got %d, %v, want the other %d", n, err, whole-3)
		}
		wantMoved(t, db, 0, partly+young)
		wantOf(t, db, partly+young)
		if got := count(t, db, "archive_partitions WHERE detached_at IS NOT NULL"); got != 0 {
			t.Errorf("got %d partitions that were not dropped, want none", got)
		}
	})

	t.Run("LeavesWhatSomebodyReadsToTheRows", func(t *testing.T) {
		t.Parallel()
		db := quarters(t)
		seedQuarters(t, db, 2)
		whole, partly, young := due(t, db)
		reader, err := db.Beginx()
		wantNil(t, err)
		defer func() { _ = reader.Rollback() }()
		var seen int
		wantNil(t, reader.Get(&seen, `SELECT count(*) FROM dlq.dlq_messages_archive`))
		store := New(db)
		if n, err := store.PurgePartitions(t.Context(), 365, 10); err != nil || n != 0 {
			t.Errorf("behind a reader: got %d, %v, want 0", n, err)
		}
		if n, err := store.PurgeArchive(t.Context(), 365, 10); err != nil || n != int64(whole+partly) {
			t.Errorf("by rows: got %d, %v, want %d", n, err, whole+partly)
		}
		wantNil(t, reader.Rollback())
		if n, err := store.PurgePartitions(t.Context(), 365, 10); err != nil || n != 0 {
			t.Errorf("of nothing: got %d, %v, want 0", n, err)
		}
		if got := count(t, db, "archive_partitions WHERE until_at <= now() - interval '365 days'"); got != 0 {
			t.Errorf("got %d empty partitions that are due, want none", got)
		}
		wantMoved(t, db, 0, young)
	})

	t.Run("SharesTheWork", func(t *testing.T) {
		t.Parallel()
		db := quarters(t)
		seedQuarters(t, db, 20)
		whole, partly, young := due(t, db)
		purged, errs := make([]int64, 4), make([]error, 4)
		var all sync.WaitGroup
		for i := range purged {
			all.Go(func() { purged[i], errs[i] = New(db).PurgePartitions(t.Context(), 365, 7) })
		}
		all.Wait()
		wantNil(t, errors.Join(errs...))
		rest, err := New(db).PurgePartitions(t.Context(), 365, 7)
		wantNil(t, err)
		if sum := purged[0] + purged[1] + purged[2] + purged[3] + rest; sum != int64(whole) {
			t.Errorf("the callers tell of %v and %d, want %d in all", purged, rest, whole)
		}
		wantOf(t, db, partly+young)
	})

	t.Run("RefusesNonsense", func(t *testing.T) {
		t.Parallel()
		db := quarters(t)
		for _, args := range [][2]int{{-1, 10}, {365, 0}} {
			if _, err := New(db).PurgePartitions(t.Context(), args[0], args[1]); err == nil {
				t.Errorf("%v: got no error, want a refusal", args)
			}
		}
		for _, call := range []string{"detach_archive_partitions(-1)", "detach_archive_partitions(NULL)", "purge_detached(0)", "purge_detached(NULL)", "create_archive_partitions(NULL)"} {
			_, err := db.Exec(`SELECT dlq.` + call)
			var refused *pq.Error
			if !errors.As(err, &refused) || refused.Code != "22023" {
				t.Errorf("%s: got %v, want an invalid parameter", call, err)
			}
		}
	})
}

func TestArchivedIDs(t *testing.T) {
	t.Parallel()
	const put = `INSERT INTO dlq.dlq_messages_archive (id, original_topic, error_message, archived_at) VALUES ($1, 'orders', 'boom', $2)`
	ago := func(days int) time.Time { return time.Now().Add(-time.Duration(days) * 24 * time.Hour) }

	t.Run("AreThereOnceOverAllQuarters", func(t *testing.T) {
		t.Parallel()
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
			if refused != 7 || count(t, db, "dlq_messages_archive WHERE id = $1", id) != 1 {
				t.Errorf("%d of 8 were refused, want 7 and one row", refused)
			}
		}
		wantKeptIDs(t, db)
	})

	t.Run("RefuseASecondMoveThatLosesNothing", func(t *testing.T) {
		t.Parallel()
		db := quarters(t)
		id := seedTen(t, db, "DEAD", "2001-01-01")
		exec(t, db, put, id, ago(200))
		_, err := New(db).ArchiveOld(t.Context(), 30, 10)
		var refused *pq.Error
		if !errors.As(err, &refused) || refused.Code != "23505" || !strings.Contains(err.Error(), id.String()) {
			t.Errorf("got %v, want a refusal that names %s", err, id)
		}
		wantMoved(t, db, 1, 1)
	})

	t.Run("FollowEveryChange", func(t *testing.T) {
		t.Parallel()
		db := quarters(t)
		seedQuarters(t, db, 4)
		var some []uuid.UUID
		wantNil(t, db.Select(&some, `SELECT id FROM dlq.dlq_messages_archive ORDER BY id LIMIT 3`))
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
		wantNil(t, db.Get(&last[0], `SELECT id FROM dlq.dlq_messages_archive ORDER BY id LIMIT 1`))
		wantNil(t, db.Get(&last[1], `SELECT id FROM dlq.dlq_messages_archive ORDER BY id OFFSET 1 LIMIT 1`))
		if _, err := db.Exec(`UPDATE dlq.dlq_messages_archive SET id = $1, archived_at = archived_at - interval '100 days' WHERE id = $2`, last[0], last[1]); err == nil {
			t.Error("a change to another's id: got no error, want a refusal")
		}
		exec(t, db, `TRUNCATE dlq.dlq_messages_archive`)
		wantKeptIDs(t, db)
	})

	t.Run("AreRestoredFromAnyQuarter", func(t *testing.T) {
		t.Parallel()
		db := quarters(t)
		seedQuarters(t, db, 1)
		store := New(db)
		ids := allIDs(t, db, "dlq_messages_archive")
		for _, id := range ids {
			if m, err := store.GetArchived(t.Context(), id, 100); err != nil || m.ID != id {
				t.Errorf("get: got %v, %v, want %s", m.ID, err, id)
			}
			if m, err := store.Restore(t.Context(), id, entity.By("alice")); err != nil || m.Status != entity.Pending {
				t.Errorf("restore: got %v, %v, want it pending", m.Status, err)
			}
		}
		wantMoved(t, db, len(ids), 0)
		wantKeptIDs(t, db)
		exec(t, db, `UPDATE dlq.dlq_messages SET status = 'DEAD', updated_at = now() - interval '1 year'`)
		if n, err := store.ArchiveOld(t.Context(), 30, 3); err != nil || n != int64(len(ids)) {
			t.Errorf("again: got %d, %v, want %d", n, err, len(ids))
		}
		wantKeptIDs(t, db)
	})

	t.Run("AreExactWhateverHappensAtOnce", func(t *testing.T) {
		t.Parallel()
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
		wantNil(t, errors.Join(errs...))
		wantKeptIDs(t, db)
		wantExactCounters(t, db)
		var both int
		wantNil(t, db.Get(&both, `SELECT count(*) FROM dlq.dlq_messages JOIN dlq.dlq_messages_archive USING (id)`))
		if both != 0 {
			t.Errorf("%d rows are in both tables, want none", both)
		}
	})
}

// TestArchivePruning: what is looked for by its id is looked for in one partition.
func TestArchivePruning(t *testing.T) {
	t.Parallel()
	db := quarters(t)
	db.SetMaxOpenConns(1)
	seedQuarters(t, db, 50)
	exec(t, db, `ANALYZE dlq.dlq_messages_archive, dlq.archive_ids`)
	var id uuid.UUID
	wantNil(t, db.Get(&id, `SELECT id FROM dlq.dlq_messages_archive ORDER BY archived_at OFFSET 100 LIMIT 1`))
	one := "'" + id.String() + "'"
	page, args := pageQuery(fromArchive, listed(fromArchive, repository.SearchQuery{Archived: true, Limit: 1}, names{}, leaveOut))
	for i, arg := range args {
		page = strings.ReplaceAll(page, fmt.Sprintf("$%d::", i+1), fmt.Sprintf("%v::", arg))
	}
	for _, c := range []struct {
		name, query string
		args        []string
		most        int // scans of partitions
	}{
		{"Get", getArchivedQuery, []string{one, "-1"}, 1},
		{"Restore", restoreQuery, []string{one, "NULL", "'alice'", "NULL", "NULL", "NULL", "NULL"}, 1},
		{"Parent", parentQuery, []string{"'{" + id.String() + "}'", "'{" + id.String() + "}'", "'{orders}'", "'{1}'", "'{true}'"}, 1},
		{"Page", page, nil, len(partitions(t, db)) + 1}, // the walk looks at each
		{"Purge", purgeQuery, []string{"700", "10"}, 4}, // those before the cut-off alone
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
				var lines []string
				wantNil(t, tx.Select(&lines, `EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF, COSTS OFF) EXECUTE pruned`+with))
				scans := 0
				for _, line := range lines {
					if partitionScan.MatchString(line) && !strings.Contains(line, "never executed") {
						scans++
					}
				}
				if scans == 0 || scans > c.most {
					t.Errorf("got %d scans of partitions, want 1 to %d:\n%s", scans, c.most, strings.Join(lines, "\n"))
				}
			})
		}
	}
}

var partitionScan = regexp.MustCompile(`Scan .*on dlq_messages_archive_\d{4}q\d`)

func partitions(t *testing.T, db *sqlx.DB) (names []string) {
	t.Helper()
	wantNil(t, db.Select(&names, `SELECT name FROM dlq.archive_partitions`))
	return names
}

// quarters is a database whose archive has partitions for two years.
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
	if n, err := New(db).CreatePartitions(t.Context(), 1); err != nil || n != 10 {
		t.Fatalf("got %d, %v, want the 10 quarters from two years ago to the next", n, err)
	}
	return db
}

func withoutPartitions(t *testing.T, db *sqlx.DB) {
	t.Helper()
	for _, name := range partitions(t, db) {
		exec(t, db, `DROP TABLE dlq.`+name)
	}
	exec(t, db, `DELETE FROM dlq.archive_partitions`)
}

// seedQuarters puts each messages into every partition of quarters but the next,
// with an attempt, an edit, a return and a document each.
func seedQuarters(t *testing.T, db *sqlx.DB, each int) {
	t.Helper()
	exec(t, db, `INSERT INTO dlq.dlq_messages_archive (original_topic, error_message, status, created_at, archived_at)
		SELECT 'orders', 'boom', 'DEAD', x.moment, x.moment
		FROM public.began b, generate_series(0, 8) q, generate_series(1, $1::int) n,
			LATERAL (SELECT least(b.at - interval '10 days' + q * interval '3 months' + n * interval '1 second', now()) AS moment) x`, each)
	exec(t, db, `INSERT INTO dlq.attempts (message_id, attempt_no, retry_count, attempt_id, actor, started_at, ended_at, from_status, to_status, target_topic)
		SELECT id, 1, 1, gen_random_uuid(), 'a', now(), now(), 'RETRYING', 'DEAD', 'orders' FROM dlq.dlq_messages_archive`)
	exec(t, db, `INSERT INTO dlq.returns (attempt_id, parent_id, child_id, by_content, returned_at)
		SELECT attempt_id, message_id, gen_random_uuid(), false, now() FROM dlq.attempts`)
	exec(t, db, `INSERT INTO dlq.edits (message_id, attempt_id, set_value, set_key, set_headers, record_hash, created_at)
		SELECT message_id, attempt_id, true, false, false, 7, now() FROM dlq.attempts`)
	storeDocuments(t, db, `''`, `'{}'`, `dlq.dlq_messages_archive m`)
}

// wantKeptIDs compares what is kept of the archive's ids with the archive.
func wantKeptIDs(t *testing.T, db *sqlx.DB) {
	t.Helper()
	var wrong int
	wantNil(t, db.Get(&wrong, `SELECT count(*) FROM dlq.archive_ids i FULL JOIN dlq.dlq_messages_archive a USING (id, archived_at)
		WHERE i.id IS NULL OR a.error_message IS NULL`))
	if wrong != 0 {
		t.Errorf("%d ids are not kept as the archive has them, want none", wrong)
	}
}

// TestDeletesByPlaceAreRefused: they would delete rows of other partitions too.
func TestDeletesByPlaceAreRefused(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	exec(t, db, `INSERT INTO dlq.dlq_messages_archive (id, original_topic, error_message, archived_at)
		SELECT gen_random_uuid(), 'orders', 'boom', now() - n * interval '200 days' FROM generate_series(0, 2) n`)
	_, err := db.ExecContext(t.Context(), `DELETE FROM dlq.dlq_messages_archive WHERE ctid = ANY (ARRAY(
		SELECT ctid FROM dlq.dlq_messages_archive WHERE archived_at < now() - make_interval(days => 365) LIMIT 10))`)
	if err == nil || !strings.Contains(err.Error(), "delete by id") {
		t.Errorf("got %v, want a refusal that says how to delete", err)
	}
	if n := count(t, db, "dlq_messages_archive"); n != 3 {
		t.Errorf("%d are left, want 3", n)
	}
	if n, err := New(db).PurgeArchive(t.Context(), 365, 10); err != nil || n != 1 {
		t.Errorf("PurgeArchive = %d, %v, want the one that is due", n, err)
	}
}
