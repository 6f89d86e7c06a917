package postgres

import (
	"testing"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestErrorGroups(t *testing.T) {
	t.Parallel()

	withDB(t, "ForgetHoursAfterTheirLifeAndNoTotals", func(t *testing.T, db *sqlx.DB) {
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id, created_at, updated_at)
			SELECT 'orders', 'boom', md5('g')::uuid, at, at FROM (
				SELECT now() - n * interval '1 day' AS at FROM unnest(ARRAY[0, 89, 91, 92, 93, 1000]) n) days`)
		n, err := New(db).PurgeBookkeeping(t.Context(), 365, 730, 3)
		check.True(t, err == nil && n == 4, "got %d, %v, want 4", n, err)
		var hours, total int
		check.NoError(t, db.Get(&hours, `SELECT count(*) FROM dlq.group_arrivals WHERE hour > '-infinity'`))
		check.NoError(t, db.Get(&total, `SELECT sum(messages) FROM dlq.group_arrivals WHERE hour = '-infinity'`))
		check.True(t, hours == 2 && total == 6, "got %d hours and %d messages ever, want 2 and 6", hours, total)
		for _, args := range []string{"-1, 10", "NULL, 10", "90, 0", "90, NULL"} {
			check.Says(t, check.Err(db.Exec(`SELECT dlq.purge_arrivals(`+args+`)`)), "must", "(%s), want a refusal", args)
		}
	})

	withDB(t, "AreLeftAloneByWhoBringsNothingNew", func(t *testing.T, db *sqlx.DB) {
		store := New(db)
		f := entity.Fingerprint{Title: "boom"}
		check.NoError(t, store.SaveFingerprints(t.Context(), []entity.Fingerprint{f}))
		put := func(at string) (version string) {
			t.Helper()
			exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id, created_at, updated_at)
				SELECT 'orders', 'boom', $1, at, at FROM (SELECT $2::timestamptz AS at) m`, f.ID(), at)
			check.NoError(t, db.Get(&version, `SELECT ctid::text || last_seen::timestamptz(0) FROM dlq.error_groups`))
			return version
		}
		first := put("2026-01-01 10:00:00+00")
		check.Same(t, put("2026-01-01 10:00:59+00"), first, "a message within the minute wrote the group's row")
		exec(t, db, `UPDATE dlq.dlq_messages SET status = 'RETRYING'`)
		exec(t, db, `UPDATE dlq.dlq_messages SET outcome = 'returned'`)
		later := put("2026-01-01 10:01:01+00")
		check.True(t, later != first, "a message after a minute left the group's row at %s, want it written", later)
		// A session that stores a message must not wait for a session that has locked the row of the message's error
		// group.
		tx := begin(t, db)
		tx.MustExec(`SELECT FROM dlq.error_groups FOR UPDATE`)
		check.Same(t, put("2026-01-01 10:01:02+00"), later, "while it was locked")
	})
}

// TestPurgeGroups: old error groups without messages are deleted, so that their table does not grow forever. The
// counters of error groups stay exact.
func TestPurgeGroups(t *testing.T) {
	t.Parallel()
	// put stores a message that arrived in an error group as long ago as the parameter ago says. Unless stays is true,
	// put then deletes the message.
	put := func(t *testing.T, db *sqlx.DB, group, ago string, stays bool) {
		t.Helper()
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, group_id, created_at, updated_at)
			SELECT 'orders', 'boom', 'DEAD', md5($1)::uuid, at, at FROM (SELECT now() - $2::interval AS at) m`, group, ago)
		if !stays {
			exec(t, db, `DELETE FROM dlq.dlq_messages WHERE group_id = md5($1)::uuid`, group)
		}
	}
	rows := func(t *testing.T, db *sqlx.DB, group string) (n int) {
		t.Helper()
		check.NoError(t, db.Get(&n, `SELECT (SELECT count(*) FROM dlq.error_groups WHERE id = md5($1)::uuid)
			+ 10 * (SELECT sum(messages) IS NOT NULL FROM dlq.group_counters WHERE group_id = md5($1)::uuid)::int
			+ 100 * (SELECT sum(messages) IS NOT NULL FROM dlq.group_arrivals WHERE group_id = md5($1)::uuid)::int`, group))
		return n
	}
	purge := func(t *testing.T, db *sqlx.DB) (n int) {
		t.Helper()
		check.NoError(t, db.Get(&n, `SELECT dlq.purge_groups(90, 2)`))
		return n
	}

	withDB(t, "OfWhichNothingIsLeftAndNothingCame", func(t *testing.T, db *sqlx.DB) {
		for _, group := range []string{"old1", "old2", "old3", "noted", "linked", "muted", "archived", "live"} {
			put(t, db, group, "91d", group == "live" || group == "archived")
		}
		put(t, db, "young", "89d", false)
		exec(t, db, `INSERT INTO dlq.group_annotations (group_id, original_topic, note) VALUES (md5('noted')::uuid, '*', 'n')`)
		exec(t, db, `INSERT INTO dlq.group_annotations (group_id, original_topic, link) VALUES (md5('linked')::uuid, 'orders', 'l')`)
		exec(t, db, `INSERT INTO dlq.group_annotations (group_id, original_topic, muted) VALUES (md5('muted')::uuid, 'orders', true), (md5('old1')::uuid, 'orders', false)`)
		exec(t, db, `WITH m AS (DELETE FROM dlq.dlq_messages WHERE group_id = md5('archived')::uuid RETURNING id, group_id)
			INSERT INTO dlq.dlq_messages_archive (id, original_topic, error_message, retry_count, max_retries, status, created_at, updated_at, group_id)
			SELECT id, 'orders', '', 0, 3, 'DEAD', now(), now(), group_id FROM m`)
		if n, err := New(db).PurgeBookkeeping(t.Context(), 365, 730, 2); err != nil || n != 3+5 {
			t.Errorf("got %d, %v, want 3 groups and the 5 old hours of the others", n, err)
		}
		for group, want := range map[string]int{
			"old1": 0, "old2": 0, "old3": 0, "noted": 111, "linked": 111, "muted": 111, "archived": 111, "live": 111, "young": 111,
		} {
			check.Same(t, rows(t, db, group), want, "%s: rows of group, counters, arrivals", group)
		}
		for _, args := range []string{"-1, 10", "NULL, 10", "90, 0", "90, NULL"} {
			check.Says(t, check.Err(db.Exec(`SELECT dlq.purge_groups(`+args+`)`)), "must", "(%s), want a refusal", args)
		}
	})

	withDB(t, "AtOnceAfterAnErasure", func(t *testing.T, db *sqlx.DB) { // as docs/archive.md says
		put(t, db, "erased", "1m", false)
		put(t, db, "live", "1m", true)
		check.Same(t, postgrestest.Get[int](t, db, `SELECT dlq.purge_groups(0, 1000)`), 1, "purged groups")
		check.Same(t, rows(t, db, "erased"), 0, "rows of the group without messages")
	})

	withDB(t, "NotWhileAMessageOfItComes", func(t *testing.T, db *sqlx.DB) {
		put(t, db, "old", "91d", false)
		tx := begin(t, db)
		tx.MustExec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id) VALUES ('orders', 'boom', md5('old')::uuid)`)
		check.Same(t, purge(t, db), 0, "purged groups while a message came")
		check.NoError(t, tx.Commit())
		check.Same(t, purge(t, db), 0, "purged groups that have a message")
		wantExactCounters(t, db)
	})

	withDB(t, "AndAMessageThatComesMeanwhileBeginsItAnew", func(t *testing.T, db *sqlx.DB) {
		put(t, db, "old", "91d", false)
		put(t, db, "other", "91d", true)
		tx := begin(t, db)
		gone := postgrestest.Get[int](t, tx, `SELECT dlq.purge_groups(90, 2)`)
		check.Require(t, gone == 1, "purged %d groups, want 1", gone)
		done := make(chan error, 1)
		go func() {
			_, err := db.Exec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id)
				VALUES ('orders', 'boom', md5('old')::uuid), ('orders', 'boom', md5('other')::uuid)`)
			done <- err
		}()
		eventually(t, db, "the ingester waits for the purge",
			`SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`)
		check.NoError(t, tx.Commit())
		check.NoError(t, <-done)
		var arrived, counted, fresh int
		check.NoError(t, db.Get(&arrived, `SELECT sum(messages) FROM dlq.group_arrivals WHERE group_id = md5('old')::uuid AND hour = '-infinity'`))
		check.NoError(t, db.Get(&counted, `SELECT sum(messages) FROM dlq.group_counters WHERE group_id = md5('old')::uuid`))
		check.NoError(t, db.Get(&fresh, `SELECT count(*) FROM dlq.error_groups WHERE id = md5('old')::uuid AND first_seen > now() - interval '1 hour' AND regressed_at IS NULL`))
		check.True(t, arrived == 1 && counted == 1 && fresh == 1,
			"got %d arrivals, %d messages and %d new groups, want 1 of each", arrived, counted, fresh)
		wantExactCounters(t, db)
	})
}
