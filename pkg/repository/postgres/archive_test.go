package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestArchiveProcedure tests the archive procedure in two versions: that of the third migration, and the newest one.
func TestArchiveProcedure(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *sqlx.DB{
		"OfTheThirdMigration": func(t *testing.T) *sqlx.DB {
			db := bare(t)
			for _, s := range steps(t)[:3] {
				s.run(t, db, "up")
			}
			return db
		},
		"Newest": func(t *testing.T) *sqlx.DB { return postgrestest.Open(t) },
	} {
		postgrestest.Parallel(t, name+"/MovesEachRowOnceWhileRowsAreLocked", func(t *testing.T) {
			archiveUnderLocks(t, open(t))
		})
		postgrestest.Parallel(t, name+"/LeavesWhatIsYoungOrNotFinal", func(t *testing.T) {
			archiveLeaves(t, open(t))
		})
		postgrestest.Parallel(t, name+"/RefusesNonsense", func(t *testing.T) {
			db := open(t)
			seedTen(t, db, "DEAD", "2001-01-01")
			for _, args := range []string{"-1", "30, 0", "30, -5", "NULL", "30, NULL", "p_retention_days := -30"} {
				_, err := db.Exec(`CALL dlq.archive_old_dlq_messages(` + args + `)`)
				var refused *pq.Error
				check.True(t, errors.As(err, &refused) && refused.Code == "22023",
					"(%s): got %v, want an invalid parameter", args, err)
			}
			wantMoved(t, db, 1, 0)
		})
		postgrestest.Parallel(t, name+"/CommitsEachBatch", func(t *testing.T) {
			db := open(t)
			seedFinal(t, db, 105, "RESOLVED")
			exec(t, db, `CALL dlq.archive_old_dlq_messages(p_retention_days := 30, p_batch_size := 10)`)
			sizes := postgrestest.All[int](t, db, `SELECT count(*) FROM dlq.dlq_messages_archive GROUP BY xmin ORDER BY 1`)
			if len(sizes) < 11 || slices.Max(sizes) > 10 { // the archiver makes smaller batches on a slow machine
				t.Errorf("got transactions of %v rows, want at most 10 in each", sizes)
			}
		})
	}
}

// archiveUnderLocks: four archivers that run at the same time move all due messages except those that another session
// has locked: 600 of 1,500.
func archiveUnderLocks(t *testing.T, db *sqlx.DB) {
	seedFinal(t, db, 750, "RESOLVED")
	seedFinal(t, db, 750, "DEAD")
	before := allIDs(t, db, "dlq_messages")
	holder := check.Must(db.Beginx())(t)
	locked := postgrestest.All[uuid.UUID](t, holder, `SELECT id FROM dlq.dlq_messages ORDER BY md5(id::text) LIMIT 600 FOR UPDATE`)

	atOnce(t, 4, func(int) error {
		return check.Err(db.ExecContext(t.Context(), `CALL dlq.archive_old_dlq_messages(30, 100)`))
	})

	live, archived := allIDs(t, db, "dlq_messages"), allIDs(t, db, "dlq_messages_archive")
	slices.SortFunc(locked, compareIDs)
	check.True(t, slices.Equal(live, locked), "%d rows are live, want the %d locked ones", len(live), len(locked))
	both := slices.Concat(live, archived)
	slices.SortFunc(both, compareIDs)
	check.True(t, slices.Equal(both, before),
		"%d rows are in one of the two tables, want each of the %d in exactly one", len(both), len(before))

	check.NoError(t, holder.Rollback())
	exec(t, db, `CALL dlq.archive_old_dlq_messages()`)
	if archived = allIDs(t, db, "dlq_messages_archive"); !slices.Equal(archived, before) {
		t.Errorf("the later run leaves %d rows in the archive, want all %d", len(archived), len(before))
	}
	wantMoved(t, db, 0, 1500)
}

func archiveLeaves(t *testing.T, db *sqlx.DB) {
	stay := map[uuid.UUID]string{
		seedTen(t, db, "PENDING", "2001-01-01"):  "pending",
		seedTen(t, db, "RETRYING", "2001-01-01"): "retrying",
	}
	for _, status := range []string{"RESOLVED", "DEAD"} {
		young := seedTen(t, db, status, "2001-01-01")
		exec(t, db, `UPDATE dlq.dlq_messages SET updated_at = now() - interval '29 days 23 hours' WHERE id = $1`, young)
		stay[young] = "young " + status
		old := seedTen(t, db, status, "2001-01-01")
		exec(t, db, `UPDATE dlq.dlq_messages SET updated_at = now() - interval '30 days 1 hour' WHERE id = $1`, old)
	}
	exec(t, db, `CALL dlq.archive_old_dlq_messages()`)
	wantMoved(t, db, len(stay), 2)
	for id, what := range stay {
		check.True(t, slices.Contains(allIDs(t, db, "dlq_messages"), id), "the %s row was moved, want it left", what)
	}
}

func TestArchiveOld(t *testing.T) {
	t.Parallel()

	withDB(t, "KeepsEveryColumnAsItWas", func(t *testing.T, db *sqlx.DB) {
		columns := columnsOf(t, db, "dlq_messages")
		for _, status := range []string{"RESOLVED", "DEAD"} {
			exec(t, db, fullRow(columns, status))
		}
		before := rowsAsText(t, db, "dlq_messages", "to_jsonb(m)")
		check.Require(t, len(before) == 2 && !strings.Contains(before[0], ": null"),
			"got rows %v, want two with every column filled", before)
		n, err := New(db).ArchiveOld(t.Context(), 30, 1000)
		check.Require(t, err == nil && n == 2, "got %d, %v, want 2", n, err)
		after := rowsAsText(t, db, "dlq_messages_archive", "to_jsonb(m) - 'archived_at'")
		check.Same(t, after, before, "rows of the archive")
		written := postgrestest.Get[int](t, db, `SELECT count(*) FROM dlq.dlq_messages_archive WHERE archived_at BETWEEN now() - interval '1 minute' AND now()`)
		check.Same(t, written, 2, "archived_at is the time of the move in rows")
	})

	withDB(t, "ArchiveHasTheColumnsOfTheTable", func(t *testing.T, db *sqlx.DB) {
		byName := func(a, b columnOf) int { return strings.Compare(a.Name, b.Name) }
		want := append(columnsOf(t, db, "dlq_messages"), columnOf{"archived_at", "timestamp with time zone"})
		got := columnsOf(t, db, "dlq_messages_archive")
		slices.SortFunc(want, byName)
		slices.SortFunc(got, byName)
		check.Same(t, got, want, "rows")
	})

	withDB(t, "TellsHowManyOverAllCallers", func(t *testing.T, db *sqlx.DB) {
		seedFinal(t, db, 400, "DEAD")
		var moved atomic.Int64
		atOnce(t, 4, func(int) error {
			n, err := New(db).ArchiveOld(t.Context(), 30, 30)
			moved.Add(n)
			return err
		})
		check.Same(t, moved.Load(), 400, "messages that all callers moved")
		check.Same(t, check.Must(New(db).ArchiveOld(t.Context(), 30, 30))(t), 0, "with nothing to do")
	})

	withDB(t, "LosesNothingWhenCancelled", func(t *testing.T, db *sqlx.DB) {
		seedFinal(t, db, 100, "RESOLVED")
		// When fifty messages are archived, the archiver's next batch waits for a lock that the test holds.
		exec(t, db, `CREATE FUNCTION public.wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF (SELECT count(*) FROM dlq.dlq_messages_archive) >= 50 THEN PERFORM pg_advisory_xact_lock(77); END IF; RETURN NEW; END $$`)
		exec(t, db, `CREATE TRIGGER wait BEFORE INSERT ON dlq.dlq_messages_archive FOR EACH ROW EXECUTE FUNCTION public.wait()`)
		holder := check.Must(db.Beginx())(t)
		holder.MustExec(`SELECT pg_advisory_xact_lock(77)`)

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		var said int64
		go func() {
			var err error
			said, err = New(db).ArchiveOld(ctx, 30, 5)
			ended <- err
		}()
		eventually(t, db, "the archiver waits", waitingQuery, "CALL%")
		cancel()
		check.Is(t, <-ended, context.Canceled, "want the cancellation")
		check.NoError(t, holder.Rollback())
		eventually(t, db, "the archiver is gone", `SELECT NOT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND query LIKE 'CALL%' AND state <> 'idle')`)
		live, archived := count(t, db, "dlq_messages"), count(t, db, "dlq_messages_archive")
		if live+archived != 100 || archived <= 45 || archived >= 55 { // the archiver makes smaller batches on a slow machine
			t.Errorf("got %d live and %d archived rows, want 50 and 50, or some of a batch less or more", live, archived)
		}
		check.True(t, said == int64(archived), "it said that %d were moved, want the %d that were", said, archived)
		check.Same(t, check.Must(New(db).ArchiveOld(t.Context(), 30, 5))(t), int64(live), "the next run, want the other")
		wantMoved(t, db, 0, 100)
		wantExactCounters(t, db)
	})

	withDB(t, "CountsWhatWasMovedBeforeABatchThatFails", func(t *testing.T, db *sqlx.DB) {
		db.SetMaxOpenConns(1) // one session for all calls, so that a wrong count would show if an earlier call left its count in the session
		seedFinal(t, db, 100, "RESOLVED")
		exec(t, db, `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF (SELECT count(*) FROM dlq.dlq_messages_archive) >= 50 THEN RAISE 'no room'; END IF; RETURN NEW; END $$`)
		exec(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON dlq.dlq_messages_archive FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
		moved, err := New(db).ArchiveOld(t.Context(), 30, 5)
		archived := count(t, db, "dlq_messages_archive")
		check.True(t, err != nil && archived != 0 && moved == int64(archived),
			"got %d and %v, want the %d that are in the archive, and the refusal", moved, err, archived)
		if moved, err := New(db).ArchiveOld(t.Context(), -1, 5); err == nil || moved != 0 {
			t.Errorf("got %d and %v of a call that did nothing, want 0 and its error", moved, err)
		}
	})
}

func TestPurgeArchive(t *testing.T) {
	db := freshDB(t)
	seedFinal(t, db, 9, "DEAD")
	check.Same(t, check.Must(New(db).ArchiveOld(t.Context(), 0, 100))(t), 9, "archived messages")
	live := seedTen(t, db, "RESOLVED", "2001-01-01")
	seedAttempts(t, db, 3)
	exec(t, db, `UPDATE dlq.dlq_messages_archive SET archived_at = now() - interval '364 days'`)
	exec(t, db, `UPDATE dlq.dlq_messages_archive SET archived_at = now() - interval '366 days'
		WHERE id IN (SELECT id FROM dlq.dlq_messages_archive LIMIT 7)`)

	store := New(db)
	check.Same(t, check.Must(store.PurgeArchive(t.Context(), 365, 2))(t), 7, "purged messages")
	wantMoved(t, db, 1, 2)
	for _, of := range []string{"attempts WHERE message_id", "edits WHERE message_id", "returns WHERE parent_id"} {
		table, _, _ := strings.Cut(of, " ")
		check.Same(t, count(t, db, table), 9, "%s", table)
		check.Same(t, count(t, db, of+" = $1", live), 3, "%s of the live message", table)
	}
	check.Same(t, check.Must(store.PurgeArchive(t.Context(), 365, 2))(t), 0, "again")
	for _, args := range [][2]int{{-1, 10}, {365, 0}} {
		check.True(t, check.Err(store.PurgeArchive(t.Context(), args[0], args[1])) != nil,
			"%v: got no error, want a refusal", args)
	}
}

// seedAttempts inserts the given number of attempts for every message, live or archived, and a return and an edit for
// each attempt.
func seedAttempts(t *testing.T, db *sqlx.DB, each int) {
	t.Helper()
	exec(t, db, `INSERT INTO dlq.attempts (message_id, attempt_no, retry_count, attempt_id, actor, started_at, ended_at, from_status, to_status, target_topic)
		SELECT id, n, n, gen_random_uuid(), 'a', now(), now(), 'RETRYING', 'DEAD', 'orders'
		FROM (SELECT id FROM dlq.dlq_messages_archive UNION ALL SELECT id FROM dlq.dlq_messages) m, generate_series(1, $1::int) n`, each)
	exec(t, db, `INSERT INTO dlq.returns (attempt_id, parent_id, child_id, by_content, returned_at)
		SELECT attempt_id, message_id, gen_random_uuid(), false, now() FROM dlq.attempts`)
	exec(t, db, `INSERT INTO dlq.edits (message_id, attempt_id, set_value, set_key, set_headers, record_hash, created_at)
		SELECT message_id, attempt_id, true, false, false, 7, now() FROM dlq.attempts`)
}

// TestDelete: deleting a message also deletes its attempts, its edits, and the rows that record its returns.
func TestDelete(t *testing.T) {
	db := freshDB(t)
	gone, stays := seedTen(t, db, "DEAD", "2001-01-01"), seedTen(t, db, "DEAD", "2001-01-01")
	seedAttempts(t, db, 3)
	check.NoError(t, New(db).Delete(t.Context(), gone, entity.By("alice")))
	for _, of := range []string{"attempts WHERE message_id = $1", "edits WHERE message_id = $1", "returns WHERE parent_id = $1"} {
		check.Same(t, count(t, db, of, gone), 0, "%s of the deleted message", of)
		check.Same(t, count(t, db, of, stays), 3, "%s of the other message", of)
	}
}

// TestPurgeBookkeepingOfRepeats: rows of dlq.recent_records are deleted after a day, and rows of dlq.repeats when their
// message is neither live nor archived.
func TestPurgeBookkeepingOfRepeats(t *testing.T) {
	db := freshDB(t)
	exec(t, db, `INSERT INTO dlq.recent_records SELECT gen_random_uuid(), gen_random_uuid(), now() - n * interval '1 hour' FROM generate_series(1, 48) n`)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message) VALUES ('orders', 'boom')`)
	exec(t, db, `INSERT INTO dlq.repeats (message_id) SELECT id FROM dlq.dlq_messages UNION ALL SELECT gen_random_uuid() FROM generate_series(1, 25)`)
	check.Same(t, check.Must(New(db).PurgeBookkeeping(t.Context(), 365, 400, 10))(t), 25+25, "deleted rows")
	check.Same(t, count(t, db, "recent_records"), 23, "rows of the last day")
	check.Same(t, count(t, db, "repeats"), 1, "rows of messages that exist")
}

func TestPurgeBookkeeping(t *testing.T) {
	t.Parallel()
	tables := []string{"idempotency_keys", "redrives", "redrive_batches", "returns", "audit"}
	wantRows := func(t *testing.T, db *sqlx.DB, want ...int) {
		t.Helper()
		for i, table := range tables {
			check.Same(t, count(t, db, table), want[i], "rows of %s", table)
		}
	}

	withDB(t, "DeletesWhatHadItsTimeAndNothingElse", func(t *testing.T, db *sqlx.DB) {
		seedBookkeeping(t, db, 25, "1000d") // the oldest rows come first, because production also inserts older rows earlier
		seedBookkeeping(t, db, 25, "366d")  // redrives and returns are old enough to be deleted, audit entries are not
		seedBookkeeping(t, db, 25, "364d")  // redrives and returns are too young to be deleted
		seedBookkeeping(t, db, 25, "29d")   // idempotency keys are old enough to be deleted
		seedBookkeeping(t, db, 25, "23h")   // idempotency keys are too young to be deleted
		seedBookkeeping(t, db, 25, "0")
		countDeletes(t, db, tables...)
		n, err := New(db).PurgeBookkeeping(t.Context(), 365, 400, 10)
		if want := int64(4*25 + 2*25 + 2*25 + 25); err != nil || n != want {
			t.Errorf("got %d, %v, want %d", n, err, want)
		}
		// PurgeBookkeeping deletes neither unfinished redrives nor returns whose attempts still exist.
		wantRows(t, db, 2*25, 6*25+4*25, 2*(6*25+4*25), 6*25+4*25, 5*25)
		most := postgrestest.All[string](t, db, `SELECT t || ' ' || max(n) FROM public.deletes GROUP BY t ORDER BY 1`)
		if want := []string{"audit 10", "idempotency_keys 10", "redrive_batches 20", "redrives 10", "returns 10"}; !slices.Equal(most, want) {
			t.Errorf("most rows by one statement: got %q, want %q", most, want)
		}
		check.Same(t, check.Must(New(db).PurgeBookkeeping(t.Context(), 365, 400, 10))(t), 0, "again")
	})

	withDB(t, "DeletesEditsOfMessagesThatAreNowhere", func(t *testing.T, db *sqlx.DB) {
		live, archived := seedTen(t, db, "DEAD", "2026-01-01 00:00:00+00"), seedTen(t, db, "DEAD", "2001-01-01 00:00:00+00")
		check.NoError(t, check.Err(New(db).ArchiveOld(t.Context(), 365, 10)))
		for _, id := range []uuid.UUID{live, archived, uuid.New(), uuid.New(), uuid.New()} {
			exec(t, db, `INSERT INTO dlq.edits (message_id, attempt_id, set_value, set_key, set_headers, record_hash, created_at)
				VALUES ($1, gen_random_uuid(), false, false, false, 0, now())`, id)
		}
		n := check.Must(New(db).PurgeBookkeeping(t.Context(), 365, 730, 2))(t)
		check.Same(t, n, 3, "want the 3 of messages that are gone")
		for _, id := range []uuid.UUID{live, archived} {
			check.Same(t, count(t, db, "edits WHERE message_id = $1", id), 1, "edits of a message that is there")
		}
	})

	withDB(t, "CountsByTheStoresClock", func(t *testing.T, db *sqlx.DB) {
		seedBookkeeping(t, db, 1, "0")
		store := New(db, WithClock(func() time.Time { return time.Now().Add(25 * time.Hour) }))
		check.Same(t, check.Must(store.PurgeBookkeeping(t.Context(), 365, 730, 10))(t), 1, "a day later, want the key")
	})

	withDB(t, "LeavesKeysThatSomebodyHolds", func(t *testing.T, db *sqlx.DB) {
		seedBookkeeping(t, db, 3, "2d")
		holder := begin(t, db)
		postgrestest.All[string](t, holder, `SELECT key FROM dlq.idempotency_keys LIMIT 1 FOR UPDATE`)
		check.Same(t, check.Must(New(db).PurgeBookkeeping(t.Context(), 365, 730, 10))(t), 2, "want the 2 others")
	})

	withDB(t, "OneKindThatFailsDoesNotKeepItFromTheOthers", func(t *testing.T, db *sqlx.DB) {
		seedBookkeeping(t, db, 3, "1000d")
		exec(t, db, `CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$`)
		exec(t, db, `CREATE TRIGGER refuse BEFORE DELETE ON dlq.idempotency_keys FOR EACH ROW EXECUTE FUNCTION public.refuse()`)
		n, err := New(db).PurgeBookkeeping(t.Context(), 365, 730, 10)
		check.True(t, err != nil && strings.Contains(err.Error(), "purge idempotency keys") && n == 9,
			"got %d, %v, want the 9 others and the failure", n, err)
	})

	withDB(t, "StopsWithItsContext", func(t *testing.T, db *sqlx.DB) {
		seedBookkeeping(t, db, 3, "1000d")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if n, err := New(db).PurgeBookkeeping(ctx, 365, 730, 10); !errors.Is(err, context.Canceled) || n != 0 {
			t.Errorf("got %d, %v, want the cancellation", n, err)
		}
		wantRows(t, db, 3, 6, 12, 6, 3)
	})

	withDB(t, "RefusesNonsense", func(t *testing.T, db *sqlx.DB) {
		seedBookkeeping(t, db, 3, "29d")
		for _, args := range [][3]int{{-1, 730, 10}, {365, 364, 10}, {365, -1, 10}, {365, 730, 0}} {
			if n, err := New(db).PurgeBookkeeping(t.Context(), args[0], args[1], args[2]); err == nil || n != 0 {
				t.Errorf("%v: got %d, %v, want a refusal", args, n, err)
			}
		}
		wantRows(t, db, 3, 6, 12, 6, 3)
	})
}

// seedBookkeeping inserts n rows of each of these kinds, created and ended at the time that the parameter ago says:
// idempotency keys; finished redrives with two batches each; unfinished redrives; returns; returns whose attempts still
// exist; entries of the audit trail.
func seedBookkeeping(t *testing.T, db *sqlx.DB, n int, ago string) {
	t.Helper()
	exec(t, db, `INSERT INTO dlq.idempotency_keys (principal, key, request, operation_id, owner, lease_expires_at, created_at)
		SELECT 'p', gen_random_uuid(), '', gen_random_uuid(), gen_random_uuid(), now(), now() - $2::interval
		FROM generate_series(1, $1::int)`, n, ago)
	exec(t, db, `INSERT INTO dlq.redrives (id, action, state, actor, selection, options, created_at, updated_at, ended_at, selected, left_out, canary_passed, ordered)
		SELECT gen_random_uuid(), 'retry', CASE i WHEN 1 THEN 'finished' ELSE 'stopped' END, 'a', '{}', '{}',
			now() - $2::interval, now() - $2::interval, CASE i WHEN 1 THEN now() - $2::interval END, 1, '{}', true, false
		FROM generate_series(1, $1::int), generate_series(1, 2) i`, n, ago)
	exec(t, db, `INSERT INTO dlq.redrive_batches (redrive_id, batch_no, first_item, canary, message_ids)
		SELECT id, b, b, false, '{}' FROM dlq.redrives, generate_series(0, 1) b ON CONFLICT DO NOTHING`)
	exec(t, db, `INSERT INTO dlq.returns (attempt_id, parent_id, child_id, by_content, returned_at)
		SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), i = 1, now() - $2::interval
		FROM generate_series(1, $1::int), generate_series(1, 2) i`, n, ago)
	exec(t, db, `INSERT INTO dlq.attempts (message_id, attempt_no, retry_count, attempt_id, actor, started_at, ended_at, from_status, to_status, target_topic)
		SELECT parent_id, 1, 1, attempt_id, 'a', now(), now(), 'RETRYING', 'RESOLVED', 'orders' FROM dlq.returns WHERE by_content
		ON CONFLICT DO NOTHING`)
	exec(t, db, `INSERT INTO dlq.audit (at, action, kind, object_id, actor)
		SELECT now() - $2::interval, 'dead', 'message', gen_random_uuid(), 'a' FROM generate_series(1, $1::int)`, n, ago)
}

// countDeletes records in public.deletes how many rows each statement deletes.
func countDeletes(t *testing.T, db *sqlx.DB, tables ...string) {
	t.Helper()
	exec(t, db, `CREATE TABLE public.deletes (t TEXT, n INT)`)
	exec(t, db, `CREATE FUNCTION public.count_deletes() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO public.deletes SELECT TG_TABLE_NAME, count(*) FROM gone HAVING count(*) > 0; RETURN NULL; END $$`)
	for _, table := range tables {
		exec(t, db, `CREATE TRIGGER count_deletes AFTER DELETE ON dlq.`+table+`
			REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION public.count_deletes()`)
	}
}

// count returns the number of rows of a table. The parameter names the table; a WHERE condition may follow the name.
func count(t *testing.T, db *sqlx.DB, of string, args ...any) (n int) {
	t.Helper()
	check.NoError(t, db.Get(&n, `SELECT count(*) FROM dlq.`+of, args...))
	return n
}

func TestTryLock(t *testing.T) {
	db := freshDB(t)
	first, second := New(db), New(db)
	unlock, ok, err := first.TryLock(t.Context())
	check.Require(t, err == nil && ok, "got %v, %v, want the lock", ok, err)
	if u, ok, err := second.TryLock(t.Context()); err != nil || ok || u != nil {
		t.Errorf("while it is held: got %v, %v, want neither lock nor error", ok, err)
	}
	unlock()

	ctx, cancel := context.WithCancel(t.Context())
	if unlock, ok, err = second.TryLock(ctx); err != nil || !ok {
		t.Fatalf("after unlock: got %v, %v, want the lock", ok, err)
	}
	cancel()
	unlock()
	if unlock, ok, err = first.TryLock(t.Context()); err != nil || !ok {
		t.Fatalf("after a cancelled caller unlocked: got %v, %v, want the lock", ok, err)
	}
	exec(t, first.db.Pool, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	eventually(t, first.db.Pool, "the dead holder's lock is free", `SELECT NOT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory'
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`)
	unlock()
	if unlock, ok, err = first.TryLock(t.Context()); err != nil || !ok {
		t.Fatalf("after the holder died: got %v, %v, want the lock", ok, err)
	}
	unlock()
}

// waitingQuery reports whether a session of this database waits for a lock in a query that matches the pattern $1.
const waitingQuery = `SELECT EXISTS (SELECT FROM pg_stat_activity
	WHERE datname = current_database() AND query LIKE $1 AND wait_event_type = 'Lock')`

func seedFinal(t *testing.T, db *sqlx.DB, n int, status string) {
	t.Helper()
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, created_at, updated_at)
		SELECT 'orders', 'boom', $2, now() - interval '40 days' + n * interval '1 second', now() - interval '31 days'
		FROM generate_series(1, $1::int) n`, n, status)
}

// fullRow returns a statement that inserts a row with a value in every column.
func fullRow(columns []columnOf, status string) string {
	var names, values []string
	for _, c := range columns {
		value := c.sample()
		switch c.Name {
		case "id":
			value = "gen_random_uuid()"
		case "status":
			value = "'" + status + "'"
		}
		names, values = append(names, c.Name), append(values, value)
	}
	return fmt.Sprintf("INSERT INTO dlq.dlq_messages (%s) VALUES (%s)", strings.Join(names, ", "), strings.Join(values, ", "))
}

func rowsAsText(t *testing.T, db *sqlx.DB, table, expression string) (rows []string) {
	t.Helper()
	check.NoError(t, db.Select(&rows, `SELECT (`+expression+`)::text FROM dlq.`+table+` m ORDER BY id`))
	return rows
}

func allIDs(t *testing.T, db *sqlx.DB, table string) (ids []uuid.UUID) {
	t.Helper()
	check.NoError(t, db.Select(&ids, `SELECT id FROM dlq.`+table+` ORDER BY id`))
	return ids
}

func compareIDs(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) }

func wantMoved(t *testing.T, db *sqlx.DB, live, archived int) {
	t.Helper()
	if l, a := len(allIDs(t, db, "dlq_messages")), len(allIDs(t, db, "dlq_messages_archive")); l != live || a != archived {
		t.Errorf("got %d live and %d archived rows, want %d and %d", l, a, live, archived)
	}
}
