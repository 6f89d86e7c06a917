package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestErrorGroups(t *testing.T) {
	t.Parallel()

	t.Run("ForgetHoursAfterTheirLifeAndNoTotals", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id, created_at, updated_at)
			SELECT 'orders', 'boom', md5('g')::uuid, at, at FROM (
				SELECT now() - n * interval '1 day' AS at FROM unnest(ARRAY[0, 89, 91, 92, 93, 1000]) n) days`)
		n, err := New(db).PurgeBookkeeping(t.Context(), 365, 730, 3)
		if err != nil || n != 4 {
			t.Errorf("got %d, %v, want 4", n, err)
		}
		var hours, total int
		wantNil(t, db.Get(&hours, `SELECT count(*) FROM dlq.group_arrivals WHERE hour > '-infinity'`))
		wantNil(t, db.Get(&total, `SELECT sum(messages) FROM dlq.group_arrivals WHERE hour = '-infinity'`))
		if hours != 2 || total != 6 {
			t.Errorf("got %d hours and %d messages ever, want 2 and 6", hours, total)
		}
		for _, args := range []string{"-1, 10", "NULL, 10", "90, 0", "90, NULL"} {
			if _, err := db.Exec(`SELECT dlq.purge_arrivals(` + args + `)`); err == nil || !strings.Contains(err.Error(), "must") {
				t.Errorf("(%s): got %v, want a refusal", args, err)
			}
		}
	})

	t.Run("AreLeftAloneByWhoBringsNothingNew", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		store := New(db)
		f := entity.Fingerprint{Title: "boom"}
		wantNil(t, store.NoteFingerprints(t.Context(), []entity.Fingerprint{f}))
		put := func(at string) (version string) {
			t.Helper()
			exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id, created_at, updated_at)
				SELECT 'orders', 'boom', $1, at, at FROM (SELECT $2::timestamptz AS at) m`, f.ID(), at)
			wantNil(t, db.Get(&version, `SELECT ctid::text || last_seen::timestamptz(0) FROM dlq.error_groups`))
			return version
		}
		first := put("2026-01-01 10:00:00+00")
		if got := put("2026-01-01 10:00:59+00"); got != first {
			t.Errorf("a message within the minute wrote the group's row: got %s, want %s", got, first)
		}
		exec(t, db, `UPDATE dlq.dlq_messages SET status = 'RETRYING'`)
		exec(t, db, `UPDATE dlq.dlq_messages SET outcome = 'returned'`)
		later := put("2026-01-01 10:01:01+00")
		if later == first {
			t.Errorf("a message after a minute left the group's row at %s, want it written", later)
		}
		// A hot group's row is nobody's queue: who holds it holds up nobody else.
		tx, err := db.Beginx()
		wantNil(t, err)
		defer func() { _ = tx.Rollback() }()
		tx.MustExec(`SELECT FROM dlq.error_groups FOR UPDATE`)
		if got := put("2026-01-01 10:01:02+00"); got != later {
			t.Errorf("while it was locked: got %s, want %s", got, later)
		}
	})
}

// TestPurgeGroups: a table of causes must not grow for ever, and no count may be lost
// by its getting smaller.
func TestPurgeGroups(t *testing.T) {
	t.Parallel()
	// put stores a message of a group that came so long ago; it is gone again unless
	// it stays.
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
		wantNil(t, db.Get(&n, `SELECT (SELECT count(*) FROM dlq.error_groups WHERE id = md5($1)::uuid)
			+ 10 * (SELECT sum(messages) IS NOT NULL FROM dlq.group_counters WHERE group_id = md5($1)::uuid)::int
			+ 100 * (SELECT sum(messages) IS NOT NULL FROM dlq.group_arrivals WHERE group_id = md5($1)::uuid)::int`, group))
		return n
	}
	purge := func(t *testing.T, db *sqlx.DB) (n int) {
		t.Helper()
		wantNil(t, db.Get(&n, `SELECT dlq.purge_groups(90, 2)`))
		return n
	}

	t.Run("OfWhichNothingIsLeftAndNothingCame", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
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
			if got := rows(t, db, group); got != want {
				t.Errorf("%s: rows of group, counters, arrivals: got %03d, want %03d", group, got, want)
			}
		}
		for _, args := range []string{"-1, 10", "NULL, 10", "90, 0", "90, NULL"} {
			if _, err := db.Exec(`SELECT dlq.purge_groups(` + args + `)`); err == nil || !strings.Contains(err.Error(), "must") {
				t.Errorf("(%s): got %v, want a refusal", args, err)
			}
		}
	})

	t.Run("NotWhileAMessageOfItComes", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		put(t, db, "old", "91d", false)
		tx, err := db.Beginx()
		wantNil(t, err)
		defer func() { _ = tx.Rollback() }()
		tx.MustExec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id) VALUES ('orders', 'boom', md5('old')::uuid)`)
		if n := purge(t, db); n != 0 {
			t.Errorf("purged %d groups while a message came, want 0", n)
		}
		wantNil(t, tx.Commit())
		if n := purge(t, db); n != 0 {
			t.Errorf("purged %d groups that have a message, want 0", n)
		}
		wantExactCounters(t, db)
	})

	t.Run("AndAMessageThatComesMeanwhileBeginsItAnew", func(t *testing.T) {
		t.Parallel()
		db := postgrestest.Open(t)
		put(t, db, "old", "91d", false)
		put(t, db, "other", "91d", true)
		tx, err := db.Beginx()
		wantNil(t, err)
		defer func() { _ = tx.Rollback() }()
		var gone int
		wantNil(t, tx.Get(&gone, `SELECT dlq.purge_groups(90, 2)`))
		if gone != 1 {
			t.Fatalf("purged %d groups, want 1", gone)
		}
		done := make(chan error, 1)
		go func() {
			_, err := db.Exec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, group_id)
				VALUES ('orders', 'boom', md5('old')::uuid), ('orders', 'boom', md5('other')::uuid)`)
			done <- err
		}()
		eventually(t, db, "the ingester waits for the purge",
			`SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`)
		wantNil(t, tx.Commit())
		wantNil(t, <-done)
		var arrived, counted, fresh int
		wantNil(t, db.Get(&arrived, `SELECT sum(messages) FROM dlq.group_arrivals WHERE group_id = md5('old')::uuid AND hour = '-infinity'`))
		wantNil(t, db.Get(&counted, `SELECT sum(messages) FROM dlq.group_counters WHERE group_id = md5('old')::uuid`))
		wantNil(t, db.Get(&fresh, `SELECT count(*) FROM dlq.error_groups WHERE id = md5('old')::uuid AND first_seen > now() - interval '1 hour' AND regressed_at IS NULL`))
		if arrived != 1 || counted != 1 || fresh != 1 {
			t.Errorf("got %d arrivals, %d messages and %d new groups, want 1 of each", arrived, counted, fresh)
		}
		wantExactCounters(t, db)
	})
}

// seedGroups puts in 1,000 groups and topics as seedMany has messages.
func seedGroups(t *testing.T, db *sqlx.DB) {
	t.Helper()
	exec(t, db, `INSERT INTO dlq.error_groups (id, title) SELECT md5((n)::text)::uuid, 'group ' || n FROM generate_series(0, 999) n`)
	seedMany(t, db)
	exec(t, db, `UPDATE dlq.dlq_messages SET group_id = md5((abs(hashtext(id::text)) % 1000)::text)::uuid`)
	for _, table := range []string{"dlq_messages", "error_groups", "group_counters", "group_arrivals", "message_counters", "audit"} {
		exec(t, db, `VACUUM ANALYZE dlq.`+table)
	}
}

// TestGroupPlans: groups and topics walk neither messages nor, but for the order by
// what is open, all of the counters or arrivals.
func TestGroupPlans(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	seedGroups(t, db)
	day := repository.Trend{Since: time.Now().Add(-24 * time.Hour), Until: time.Now()}
	all, some := seenTopics{all: true}, seenTopics{names: []string{"topic1", "topic2", "rare"}}
	place := &repository.GroupPlace{Key: time.Now().Add(-time.Minute).UnixMicro(), ID: uuid.New()}
	for _, c := range []struct {
		name    string
		made    *groupsQuery
		sums    bool // of everybody's counters
		indexes []string
	}{
		{"FirstPage", pageOfGroups(repository.GroupQuery{Limit: 20, Trend: day}, all), false, []string{"idx_error_groups_last_seen", "group_counters_pkey", "group_arrivals_pkey"}},
		{"OpenOnes", pageOfGroups(repository.GroupQuery{Limit: 20, Open: true}, all), false, []string{"idx_error_groups_last_seen", "group_counters_pkey"}},
		{"OpenOnesBehindAPlace", pageOfGroups(repository.GroupQuery{Limit: 20, Open: true, After: place}, all), false, []string{"idx_error_groups_last_seen", "group_counters_pkey"}},
		{"OpenOnesOfSomeTopics", pageOfGroups(repository.GroupQuery{Limit: 20, Open: true, After: place}, some), false, []string{"idx_group_arrivals_hour", "group_counters_pkey"}},
		{"ByFirstSeen", pageOfGroups(repository.GroupQuery{Limit: 20, Sort: repository.GroupsByFirstSeen, After: place}, all), false, []string{"idx_error_groups_first_seen"}},
		{"OfARareTopic", pageOfGroups(repository.GroupQuery{Limit: 20, Topic: "rare", Open: true}, some), false, []string{"idx_group_counters_topic"}},
		{"ByOpen", pageOfGroups(repository.GroupQuery{Limit: 20, Sort: repository.GroupsByOpen, Open: true}, all), true, []string{"group_arrivals_pkey"}},
		{"One", oneGroup(uuid.New(), some, day), false, []string{"error_groups_pkey", "group_counters_pkey", "group_arrivals_pkey"}},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				plan := explain(t, db, mode, c.made.text, literals(c.made.args))
				tables := []string{"dlq_messages", "group_arrivals"}
				if !c.sums {
					tables = append(tables, "group_counters")
				}
				for _, table := range tables {
					wantWalks(t, plan, table, nil)
				}
				wantWalks(t, plan, "audit", c.indexes)
			})
		}
	}
	for _, c := range []struct {
		name, query string
		args        []string
		indexes     []string
	}{
		{"Topics", topicsQuery, []string{"NULL", "NULL", "NULL", "1001", "100"}, []string{"idx_dlq_messages_pending", "idx_dlq_messages_original_topic"}},
		{"SomeTopics", topicsQuery, []string{"'{topic1,rare}'", "'{1}'", "NULL", "1001", "100"}, []string{"idx_dlq_messages_pending", "idx_dlq_messages_original_topic"}},
		{"Annotate", annotateQuery, slices.Concat([]string{"'" + uuid.NewString() + "'", "NULL", "'a'", "NULL", "NULL", "NULL"}, []string{"'" + uuid.NewString() + "'", "'note'", "NULL", "true", "'x'", "NULL"}), []string{"error_groups_pkey", "idx_audit_operation"}},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				plan := explain(t, db, mode, c.query, c.args)
				wantWalks(t, plan, "dlq_messages", c.indexes)
				wantWalks(t, plan, "audit", nil)
			})
		}
	}
}

// literals are arguments as SQL has them.
func literals(args []any) []string {
	all := make([]string, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case []byte: // the only list there is
			all[i] = "'{topic1,topic2,rare}'"
		case time.Time:
			all[i] = "'" + arg.Format(time.RFC3339Nano) + "'"
		case int, int64:
			all[i] = fmt.Sprint(arg)
		default:
			all[i] = fmt.Sprintf("'%v'", arg)
		}
	}
	return all
}
