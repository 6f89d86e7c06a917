package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestOutcomePlans: looking for returns, for what was consumed and for what is due
// walks no table, however PostgreSQL plans it.
func TestOutcomePlans(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1) // plans and settings belong to one session
	seedMany(t, db)
	seedSent(t, db)
	list := func(format string) string {
		var parts []string
		for i := range 1000 {
			parts = append(parts, fmt.Sprintf(format, i))
		}
		return "'{" + strings.Join(parts, ",") + "}'"
	}
	var resolved uuid.UUID
	wantNil(t, db.Get(&resolved, `SELECT id FROM dlq.dlq_messages WHERE status = 'RESOLVED' LIMIT 1`))
	hashes, topics, bytes, one := list("%d77"), list("topic%d"), list(`"\\\\x%04d"`), list("%d")
	day := "86400000000"

	for _, c := range []struct {
		name, query string
		args        []string
		indexes     []string
	}{
		{"WhatWasSent", sentQuery, []string{day, "NULL", hashes, topics}, []string{"idx_attempts_record_hash", "idx_dlq_messages_claimed_hash"}},
		{
			"WhoSentIt", sameQuery,
			[]string{day, "NULL", hashes, topics, bytes, bytes, one, "'{}'", one, "'{" + strings.Repeat("f,", 999) + "f}'"},
			[]string{"idx_attempts_record_hash", "idx_dlq_messages_claimed_hash", "dlq_messages_pkey", "dlq_messages_archive_pkey", "edits_pkey", "returns_pkey"},
		},
		{"OneMessage", getQuery, []string{"'" + resolved.String() + "'", "-1"}, []string{"dlq_messages_pkey", "attempts_pkey", "committed_offsets_pkey"}},
		{"Page", listQuery, []string{"'topic1'", "0", "100", "65536", "16777216"}, []string{"attempts_pkey", "committed_offsets_pkey"}},
		{"Due", dueQuery, []string{"'{topic1,rare}'", "NULL", "NULL", "'" + uuid.Nil.String() + "'", "128", "1000", "'{orders}'", "'{gamma.dlq}'"}, []string{"idx_dlq_messages_due", "idx_dlq_messages_status"}},
		{"DueBehindAPlace", dueQuery, []string{"'{topic1,rare}'", "NULL", "now() - interval '40000 seconds'", "'" + resolved.String() + "'", "128", "1000", "'{orders}'", "'{gamma.dlq}'"}, []string{"idx_dlq_messages_due", "idx_dlq_messages_status"}},
		{"Stuck", stuckQuery, []string{"NULL", day}, []string{"idx_dlq_messages_status"}},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				plan := explain(t, db, mode, c.query, c.args)
				for _, table := range []string{"dlq_messages", "attempts", "edits", "returns", "committed_offsets", "dlq_messages_archive"} {
					if strings.Contains(plan, "Seq Scan on "+table+" ") {
						t.Errorf("it walks %s:\n%s", table, plan)
					}
				}
				for _, index := range c.indexes {
					if !strings.Contains(plan, index) {
						t.Errorf("it does not use %s:\n%s", index, plan)
					}
				}
			})
		}
	}
}

// seedSent lets every final message of seedMany have been sent, some be due again,
// and some have come back.
func seedSent(t *testing.T, db *sqlx.DB) {
	t.Helper()
	for _, query := range []string{
		`INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, retry_count, verdict, actor, started_at, ended_at,
			from_status, to_status, target_topic, target_topic_id, target_partition, target_offset, record_hash)
		 SELECT id, 0, gen_random_uuid(), 1, 1, 'a', now(), now(), 'RETRYING', 'RESOLVED', original_topic, 'x', 0,
			row_number() OVER (), hashtextextended(id::text, 0)
		 FROM dlq.dlq_messages WHERE status IN ('RESOLVED', 'DEAD')`,
		`INSERT INTO dlq.returns SELECT attempt_id, message_id, gen_random_uuid(), NULL, true, now() FROM dlq.attempts WHERE target_offset % 3 = 0`,
		`INSERT INTO dlq.committed_offsets SELECT 'g' || g, 'topic' || t, 'x', p, 10000, now()
		 FROM generate_series(0, 19) t, generate_series(0, 4) g, generate_series(0, 11) p`,
		`UPDATE dlq.dlq_messages SET outcome = 'published', consumer_group = 'g1' WHERE status = 'RESOLVED'`,
		`UPDATE dlq.dlq_messages SET next_attempt_at = now() - interval '1 minute' WHERE status = 'PENDING' AND original_topic <> 'rare'`,
		`INSERT INTO dlq.dlq_messages_archive (id, original_topic, error_message, status, dlq_topic_id)
		 SELECT gen_random_uuid(), 'topic1', 'boom', 'RESOLVED', 1 FROM generate_series(1, 20000)`,
		`ANALYZE dlq.attempts`, `ANALYZE dlq.returns`, `ANALYZE dlq.committed_offsets`, `ANALYZE dlq.dlq_messages`, `ANALYZE dlq.dlq_messages_archive`,
	} {
		exec(t, db, query)
	}
}

// TestConsumptionIsLookedUpOnlyWhereItMatters: rows that were not published cost
// nothing.
func TestConsumptionIsLookedUpOnlyWhereItMatters(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	seedMany(t, db)
	exec(t, db, `PREPARE page AS `+listQuery)
	var lines []string
	wantNil(t, db.Select(&lines, `EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) EXECUTE page('topic1', 0, 100, 65536, 16777216)`))
	plan := strings.Join(lines, "\n")
	at := strings.Index(plan, "attempts_pkey")
	if at < 0 || !strings.Contains(strings.SplitN(plan[at:], "\n", 2)[0], "never executed") {
		t.Errorf("the attempts of messages that were not published are read:\n%s", plan)
	}
}

// TestDueIsBounded: what nobody retries holds up nobody who is.
func TestDueIsBounded(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	store := New(db)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, next_attempt_at)
		SELECT 'other', 'boom', now() - interval '1 day' + n * interval '1 millisecond', CASE WHEN n % 2 = 0 THEN now() - interval '1 hour' END
		FROM generate_series(1, 20000) n`)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, next_attempt_at)
		VALUES ('mine', 'boom', NULL), ('mine', 'boom', now() - interval '1 second')`)
	exec(t, db, `ANALYZE dlq.dlq_messages`)
	q := repository.DueQuery{Topics: []string{"mine"}, Limit: 32}
	first, next, err := store.Due(t.Context(), q)
	wantNil(t, err)
	if len(first) != 1 || next == (repository.Place{}) {
		t.Errorf("the first call has %d messages and goes on at %+v, want the touched one, and a place", len(first), next)
	}
	calls := 1
	for found := len(first); found == 1 && calls < 100; calls++ {
		q.After = next
		var ids []uuid.UUID
		ids, next, err = store.Due(t.Context(), q)
		wantNil(t, err)
		found = len(ids)
	}
	if want := 20000/dueWalk + 1; calls != want || next != (repository.Place{}) {
		t.Errorf("found it with call %d, next %+v, want call %d, the last", calls, next, want)
	}
}

// BenchmarkDue asks for what is due behind many messages of other topics.
func BenchmarkDue(b *testing.B) {
	db := postgrestest.Open(b)
	store := New(db)
	db.MustExec(`INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, value, next_attempt_at)
		SELECT 'other', 'boom', now() - interval '1 day' + n * interval '1 millisecond', convert_to(repeat('x', 300), 'UTF8'),
			CASE WHEN n % 2 = 0 THEN now() - interval '1 hour' END
		FROM generate_series(1, 1000000) n`)
	db.MustExec(`INSERT INTO dlq.dlq_messages (original_topic, error_message) SELECT 'mine', 'boom' FROM generate_series(1, 100)`)
	db.MustExec(`VACUUM ANALYZE dlq.dlq_messages`)
	q := repository.DueQuery{Topics: []string{"mine"}, Limit: 128}
	b.ResetTimer()
	var worst time.Duration
	var calls int
	for b.Loop() {
		start := time.Now()
		_, next, err := store.Due(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		worst = max(worst, time.Since(start))
		calls++
		q.After = next
	}
	b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
}
