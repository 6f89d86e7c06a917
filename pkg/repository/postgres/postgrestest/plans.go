package postgrestest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
)

// Plan is a statement, with the names of the indexes that its plan must use.
type Plan = struct {
	Name, Query   string
	Args, Indexes []string
}

// WantPlans checks two plans of each statement, the custom plan for its arguments and the generic plan. Neither plan
// may scan any of the given tables completely. Both plans must use the indexes of the Plan, and may use the index of
// claims only if the Plan lists it.
func WantPlans(t *testing.T, db *sqlx.DB, tables []string, plans []Plan) {
	t.Helper()
	for _, c := range plans {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			if mode == "force_generic_plan" && strings.HasPrefix(c.Name, "Trail") {
				continue // the store never prepares this statement, so it has no generic plan
			}
			t.Run(c.Name+"/"+mode, func(t *testing.T) {
				text := Explain(t, db, mode, c.Query, c.Args)
				for _, table := range tables {
					WantWalks(t, text, table, c.Indexes)
				}
				const claims = "idx_dlq_messages_claimed_hash"
				check.True(t, slices.Contains(c.Indexes, claims) || !strings.Contains(text, claims), "it reads all claims:\n%s", text)
			})
		}
	}
}

// Explain returns the plan of a query; mode is the plan_cache_mode, and args are the SQL literals of the query's
// arguments.
func Explain(t testing.TB, db *sqlx.DB, mode, query string, args []string) string {
	t.Helper()
	Exec(t, db, `SET plan_cache_mode = `+mode)
	Exec(t, db, `PREPARE explained AS `+query)
	defer Exec(t, db, `DEALLOCATE explained`)
	lines := All[string](t, db, `EXPLAIN EXECUTE explained(`+strings.Join(args, ", ")+`)`)
	return asOneTable(t, db, strings.Join(lines, "\n"))
}

// Planned returns the custom plan of a query, that is, the plan for its arguments.
func Planned(t testing.TB, db *sqlx.DB, query string, args []any) string {
	t.Helper()
	lines := All[string](t, db, `EXPLAIN `+query, args...)
	return asOneTable(t, db, strings.Join(lines, "\n"))
}

// WantWalks checks that a plan does not scan the table completely, and that it uses the indexes.
func WantWalks(t testing.TB, plan, table string, indexes []string) {
	t.Helper()
	check.True(t, !strings.Contains(plan, "Seq Scan on "+table), "it walks %s:\n%s", table, plan)
	for _, index := range indexes {
		check.True(t, strings.Contains(plan, index), "it does not use %s:\n%s", index, plan)
	}
}

// asOneTable returns the plan with the name of the archive's table in place of the names of its partitions. It does not
// show sequential scans of empty partitions, and of days with few documents, as scans.
func asOneTable(t testing.TB, db *sqlx.DB, plan string) string {
	t.Helper()
	// The rows of a test begin some hours ago, so yesterday's partition may have few rows, which are fastest to read as a
	// whole.
	for _, part := range All[string](t, db, `SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'dlq.message_documents'::regclass`) {
		if Get[bool](t, db, `SELECT count(*) < 5000 FROM `+part) {
			name := strings.TrimPrefix(part, "dlq.")
			plan = strings.ReplaceAll(plan, "Seq Scan on "+name, "Small scan of "+name)
		}
	}
	parts := All[string](t, db, `SELECT name FROM dlq.archive_partitions`)
	for _, part := range parts {
		empty := Get[bool](t, db, `SELECT NOT EXISTS (SELECT FROM dlq.`+part+`)`)
		if empty {
			plan = strings.ReplaceAll(plan, "Seq Scan on "+part, "Nothing on "+part)
		}
		plan = strings.ReplaceAll(plan, part, "dlq_messages_archive")
	}
	return plan
}

// SeedMany inserts 50,000 messages of 21 topics: most of them are final, some pending, few retrying. It also inserts
// 20,000 archived messages, an attempt with a return and an edit for every archived message and for 20,000 others, and
// the rows of SeedAudit.
func SeedMany(t testing.TB, db *sqlx.DB) {
	t.Helper()
	Exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('orders.dlq'), ('payments.dlq')`)
	Exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, created_at, dlq_topic_id, value, headers, claim_expires_at)
		SELECT CASE WHEN n % 10000 = 0 THEN 'rare' ELSE 'topic' || n % 20 END, 'boom ' || n,
			CASE WHEN n % 1000 = 7 THEN 'RETRYING' WHEN n % 5 = 0 THEN 'PENDING' WHEN n % 2 = 0 THEN 'DEAD' ELSE 'RESOLVED' END,
			now() - n * interval '1 second', 1 + n % 2, '{"order": 1}', '\x00', now() - interval '1 minute'
		FROM generate_series(1, 50000) n`)
	// The archiver moves many messages in one transaction, so these messages have the same archived_at.
	Exec(t, db, `INSERT INTO dlq.dlq_messages_archive (original_topic, error_message, status, archived_at)
		SELECT 'orders', 'boom', 'DEAD', now() - n / 100 * interval '1 hour' FROM generate_series(1, 20000) n`)
	Exec(t, db, `INSERT INTO dlq.attempts (message_id, attempt_no, retry_count, attempt_id, actor, started_at, ended_at, from_status, to_status, target_topic)
		SELECT id, 1, 1, gen_random_uuid(), 'alice', now(), now(), 'RETRYING', status, 'orders'
		FROM ((SELECT id, status FROM dlq.dlq_messages LIMIT 20000) UNION ALL SELECT id, status FROM dlq.dlq_messages_archive) m`)
	Exec(t, db, `INSERT INTO dlq.returns (attempt_id, parent_id, child_id, by_content, returned_at)
		SELECT attempt_id, message_id, gen_random_uuid(), false, now() FROM dlq.attempts`)
	Exec(t, db, `INSERT INTO dlq.edits (message_id, attempt_id, set_value, value, set_key, set_headers, record_hash, created_at)
		SELECT message_id, attempt_id, true, 'v', false, false, hashtextextended(attempt_id::text, 0), now() FROM dlq.attempts`)
	SeedAudit(t, db)
	Exec(t, db, `ANALYZE dlq.dlq_messages, dlq.dlq_messages_archive, dlq.attempts, dlq.edits, dlq.returns`)
	Exec(t, db, `ANALYZE dlq.topics`)
	Exec(t, db, `ANALYZE dlq.message_counters`)
	rows := Get[int](t, db, `SELECT count(*) FROM dlq.dlq_messages`)
	check.Require(t, rows == 50_000, "got %d rows, want 50000", rows)
}

// SeedAudit inserts 20,000 audit entries and 20,000 idempotency keys. A third of the audit entries have the ids of a
// request and of an operation.
func SeedAudit(t testing.TB, db *sqlx.DB) {
	t.Helper()
	Exec(t, db, `INSERT INTO dlq.audit (at, action, kind, object_id, actor, request_id, operation_id, call_id)
		SELECT now() - (40000 - n) * interval '1 minute', 'attempt', 'message', gen_random_uuid(), CASE WHEN n % 3 = 0 THEN 'alice' ELSE 'auto' END,
			CASE WHEN n % 3 = 0 THEN 'req_' || n END, CASE WHEN n % 3 = 0 THEN gen_random_uuid() END, CASE WHEN n % 3 = 0 THEN gen_random_uuid() END
		FROM generate_series(1, 20000) n`)
	Exec(t, db, `INSERT INTO dlq.idempotency_keys (principal, key, request, operation_id, owner, lease_expires_at, created_at)
		SELECT 'alice', 'key' || n, '', gen_random_uuid(), gen_random_uuid(), now(), now() - n * interval '3 seconds' FROM generate_series(1, 20000) n`)
	Exec(t, db, `ANALYZE dlq.audit, dlq.idempotency_keys`)
}

// SeedSent adds an acknowledged attempt to every final message of SeedMany, and a return to a third of these attempts.
// It makes the PENDING messages due for automatic retry, except those of the topic rare, and adds committed offsets and
// 20,000 archived messages.
func SeedSent(t testing.TB, db *sqlx.DB) {
	t.Helper()
	for _, query := range []string{
		`INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, retry_count, verdict, actor, started_at, ended_at,
			from_status, to_status, target_topic, target_topic_id, target_partition, target_offset, record_hash)
		 SELECT id, 0, gen_random_uuid(), 1, 'acknowledged', 'a', now(), now(), 'RETRYING', 'RESOLVED', original_topic, 'x', 0,
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
		Exec(t, db, query)
	}
}

// StoreDocuments stores search documents by SQL. The parameter from is a FROM clause that selects the messages under
// the alias m. text and terms are SQL expressions for the columns of the documents; they may use m.
func StoreDocuments(t testing.TB, db *sqlx.DB, text, terms, from string, args ...any) {
	t.Helper()
	for _, s := range []struct {
		query string
		args  []any
	}{
		{`SELECT dlq.create_document_partitions(ARRAY(SELECT m.created_at FROM ` + from + `))`, nil},
		{`INSERT INTO dlq.message_documents (message_id, created_at, version, text, terms) SELECT m.id, m.created_at, 1, ` + text + `, ` + terms + ` FROM ` + from, args},
	} {
		Exec(t, db, s.query, s.args...)
	}
}

// SeedBehind inserts 2,000 messages and sets the indexer's position to the middle of them. It stores documents for the
// last 35 messages before this position and for the first 5 after it, and returns the ids of these 40 messages, the
// newest first.
func SeedBehind(t testing.TB, db *sqlx.DB) (newest []uuid.UUID) {
	t.Helper()
	Exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, error_class, created_at)
		SELECT 'orders', n::text, 'x', now() - (3000 - n) * interval '1 second' FROM generate_series(1, 2000) n`)
	StoreDocuments(t, db, `'boom'`, `'{}'`, `dlq.dlq_messages m WHERE error_message::int BETWEEN 966 AND 1005`)
	Exec(t, db, `UPDATE dlq.search_index SET version = 1, found_until = m.created_at, walked_at = m.created_at
		FROM dlq.dlq_messages m WHERE m.error_message = '1001'`)
	check.NoError(t, db.Select(&newest, `SELECT m.id FROM dlq.dlq_messages m JOIN dlq.message_documents d ON d.message_id = m.id
		ORDER BY m.created_at DESC`))
	check.Require(t, len(newest) == 40, "%d documents, want 40", len(newest))
	return newest
}
