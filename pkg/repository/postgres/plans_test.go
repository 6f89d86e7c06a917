package postgres

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestPlans: no hot query walks the table, neither when PostgreSQL plans it for
// its arguments nor when it has settled on a plan for all arguments.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1) // plans and settings belong to one session
	seedMany(t, db)
	var ids []uuid.UUID
	wantNil(t, db.Select(&ids, `SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' ORDER BY md5(id::text) LIMIT 32`))
	list := func(values ...string) string { return "'{" + strings.Join(values, ",") + "}'" }
	repeat := func(value string) string {
		return list(strings.Split(strings.Repeat(value+" ", len(ids)-1)+value, " ")...)
	}
	var texts []string
	for _, id := range ids {
		texts = append(texts, id.String())
	}
	wanted := list(texts...)
	cause := []string{"'alice'", "NULL", "NULL", "NULL", "NULL"}
	with := func(first []string, more ...string) []string { return append(slices.Clone(first), more...) }
	claims := with([]string{
		wanted, wanted, repeat("topic1"), repeat("0"), repeat("0"), repeat("false"), repeat("id"), wanted,
		"30000000", "NULL", "true",
	}, append(slices.Clone(cause), repeat("topic1"))...)
	finished := with([]string{
		wanted, wanted, repeat("3"), repeat("x"), repeat("x"), repeat("0"), repeat("0"), repeat("0"),
		"10", "NULL",
	}, append(slices.Clone(cause), "true")...)
	one, many := with([]string{list(texts[0]), "NULL"}, cause...), with([]string{wanted, "NULL"}, cause...)
	noLease, lease := []string{"NULL", "0", "NULL"}, []string{"'" + texts[0] + "'", "1", "'" + texts[1] + "'"}
	key := []string{"'alice'", "'key7'", "'\\x01'", "'" + texts[0] + "'", "'" + texts[0] + "'", "30000000", "86400000000", "NULL"}
	trail := func(q repository.TrailQuery) string {
		query, _ := trailQuery(q, seenTopics{all: true})
		return query
	}
	someID, now := uuid.New(), time.Now()

	for _, c := range []struct {
		name, query string
		args        []string
		indexes     []string
	}{
		{"FirstPageOfATopic", listQuery, []string{"'topic1'", "0", "20", "65536", "16777216"}, []string{"idx_dlq_messages_original_topic", "idx_dlq_messages_dlq_topic"}},
		{"FirstPageOfADeadLetterTopic", listQuery, []string{"'orders.dlq'", "0", "20", "65536", "16777216"}, []string{"idx_dlq_messages_original_topic", "idx_dlq_messages_dlq_topic"}},
		{"LaterPageOfATopic", listQuery, []string{"'topic1'", "400", "100", "65536", "16777216"}, []string{"idx_dlq_messages_original_topic"}},
		{"PageOfAnUnknownTopic", listQuery, []string{"'nobody'", "0", "20", "65536", "16777216"}, nil},
		{"OneMessage", getQuery, []string{"'" + texts[0] + "'", "-1"}, []string{"dlq_messages_pkey"}},
		{"ClaimWithoutWaiting", claimWays[claimWay{}], claims, []string{"dlq_messages_pkey"}},
		{"ClaimThatWaits", claimWays[claimWay{wait: true}], claims, []string{"dlq_messages_pkey"}},
		{"ClaimWithEdits", claimWays[claimWay{wait: true, edited: true}], with(claims, wanted, wanted, repeat("topic1"),
			repeat("true"), repeat("v"), repeat("true"), repeat("k"), repeat("true"), repeat("h"), repeat("p"), repeat("7"),
		), []string{"dlq_messages_pkey", "edits_pkey"}},
		{"Finish", finishQuery, finished, []string{"dlq_messages_pkey", "edits_pkey"}},
		{"History", historyQuery, []string{"'" + texts[0] + "'"}, []string{"attempts_pkey", "edits_pkey"}},
		{"MapOne", mapQuery, with(with(one, "'payments'", "false"), noLease...), []string{"dlq_messages_pkey"}},
		{"MapMany", mapQuery, with(with(many, "'payments'", "false"), lease...), []string{"dlq_messages_pkey"}},
		{"Load", loadQuery, []string{wanted, "1000000"}, []string{"dlq_messages_pkey"}},
		{"Expired", expiredQuery, []string{"NULL", "NULL", "'00000000-0000-0000-0000-000000000000'", "100"}, []string{"idx_dlq_messages_status"}},
		{"ExpiredBehindAPlace", expiredQuery, []string{"NULL", "now() - interval '40000 seconds'", "'" + texts[0] + "'", "100"}, []string{"idx_dlq_messages_status"}},
		{"ExpiredOne", expiredOneQuery, []string{"NULL", "'" + texts[0] + "'"}, []string{"dlq_messages_pkey"}},
		{"DeleteOne", deleteQuery, with(one, noLease...), []string{"dlq_messages_pkey", "attempts_pkey", "edits_pkey", "returns_pkey"}},
		{"DeleteMany", deleteQuery, with(many, lease...), []string{"dlq_messages_pkey", "attempts_pkey", "edits_pkey", "returns_pkey"}},
		{"RequeueOne", requeueQuery, with(one, noLease...), []string{"dlq_messages_pkey"}},
		{"RequeueMany", requeueQuery, with(many, lease...), []string{"dlq_messages_pkey"}},
		{"GiveUpOne", giveUpQuery, with(one, noLease...), []string{"dlq_messages_pkey"}},
		{"GiveUpMany", giveUpQuery, with(many, lease...), []string{"dlq_messages_pkey"}},
		{"PurgeOfTheArchive", purgeQuery, []string{"365", "1000"}, []string{"idx_dlq_messages_archive_archived_at", "attempts_pkey", "edits_pkey", "returns_pkey"}},
		{"PurgeOfKeys", purgeKeysQuery, []string{"NULL", "86400000000", "1000"}, []string{"idx_idempotency_keys_created_at"}},
		{"OpenKey", openKeyQuery, key, []string{"idempotency_keys_pkey"}},
		{"Trail", trail(repository.TrailQuery{}), []string{"100"}, []string{"audit_pkey"}},
		{"TrailBelowAnEntry", trail(repository.TrailQuery{Before: 1}), []string{"50000", "100"}, []string{"audit_pkey"}},
		{"TrailOfAnObject", trail(repository.TrailQuery{ObjectID: someID}), []string{"'" + texts[0] + "'", "100"}, []string{"idx_audit_object"}},
		{"TrailOfAnObjectBelowAnEntry", trail(repository.TrailQuery{ObjectID: someID, Before: 1}), []string{"'" + texts[0] + "'", "50000", "100"}, []string{"idx_audit_object"}},
		{"TrailOfAnActor", trail(repository.TrailQuery{Actor: "a"}), []string{"'alice'", "100"}, []string{"audit_pkey"}},
		{"TrailAfter", trail(repository.TrailQuery{After: now}), []string{"now() - interval '1 hour'", "100"}, []string{"idx_audit_at"}},
		{"TrailOfARequest", trail(repository.TrailQuery{RequestID: "r"}), []string{"'req_7'", "100"}, []string{"idx_audit_request"}},
		{"Performed", performedQuery, []string{"'" + texts[0] + "'"}, []string{"idx_audit_operation"}},
		{"Record", recordQuery, []string{
			"NULL", "'unmask'", "'alice'", "NULL", "NULL", "NULL", "'" + texts[0] + "'", "'list'",
			"'" + uuid.Nil.String() + "'", "NULL", "NULL", "NULL", "NULL", "NULL",
		}, []string{"idx_audit_operation"}},
		{"Replaced", replacedQuery, []string{"'" + texts[0] + "'"}, []string{"idx_audit_operation"}},
		{"PerformedOn", performedOnQuery, []string{"'" + texts[0] + "'", "'dead'", wanted}, []string{"idx_audit_object"}},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			if mode == "force_generic_plan" && strings.HasPrefix(c.name, "Trail") {
				continue // never prepared
			}
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				plan := explain(t, db, mode, c.query, c.args)
				for _, table := range []string{"dlq_messages", "attempts", "edits", "returns", "audit", "idempotency_keys"} {
					if strings.Contains(plan, "Seq Scan on "+table) {
						t.Errorf("it walks %s:\n%s", table, plan)
					}
				}
				if strings.Contains(plan, "idx_dlq_messages_claimed_hash") {
					t.Errorf("it reads all claims:\n%s", plan)
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

// explain returns the plan of a query with literal arguments.
func explain(t *testing.T, db *sqlx.DB, mode, query string, args []string) string {
	t.Helper()
	exec(t, db, `SET plan_cache_mode = `+mode)
	exec(t, db, `PREPARE explained AS `+query)
	defer exec(t, db, `DEALLOCATE explained`)
	var lines []string
	wantNil(t, db.Select(&lines, `EXPLAIN EXECUTE explained(`+strings.Join(args, ", ")+`)`))
	return asOneTable(t, db, strings.Join(lines, "\n"))
}

// asOneTable writes the archive's name into a plan for those of its partitions. To
// walk one that is empty is no walk.
func asOneTable(t *testing.T, db *sqlx.DB, plan string) string {
	t.Helper()
	var parts []string
	wantNil(t, db.Select(&parts, `SELECT name FROM dlq.archive_partitions`))
	for _, part := range parts {
		var empty bool
		wantNil(t, db.Get(&empty, `SELECT NOT EXISTS (SELECT FROM dlq.`+part+`)`))
		if empty {
			plan = strings.ReplaceAll(plan, "Seq Scan on "+part, "Nothing on "+part)
		}
		plan = strings.ReplaceAll(plan, part, "dlq_messages_archive")
	}
	return plan
}

// seedMany puts in 50,000 messages of 20 topics: most of them are final, some
// pending, few retrying.
func seedMany(t *testing.T, db *sqlx.DB) {
	t.Helper()
	exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('orders.dlq'), ('payments.dlq')`)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, created_at, dlq_topic_id, value, headers, claim_expires_at)
		SELECT CASE WHEN n % 10000 = 0 THEN 'rare' ELSE 'topic' || n % 20 END, 'boom ' || n,
			CASE WHEN n % 1000 = 7 THEN 'RETRYING' WHEN n % 5 = 0 THEN 'PENDING' WHEN n % 2 = 0 THEN 'DEAD' ELSE 'RESOLVED' END,
			now() - n * interval '1 second', 1 + n % 2, '{"order": 1}', '\x00', now() - interval '1 minute'
		FROM generate_series(1, 50000) n`)
	// The archiver moves many messages at one moment.
	exec(t, db, `INSERT INTO dlq.dlq_messages_archive (original_topic, error_message, status, archived_at)
		SELECT 'orders', 'boom', 'DEAD', now() - n / 100 * interval '1 hour' FROM generate_series(1, 20000) n`)
	exec(t, db, `INSERT INTO dlq.attempts (message_id, attempt_no, retry_count, attempt_id, actor, started_at, ended_at, from_status, to_status, target_topic)
		SELECT id, 1, 1, gen_random_uuid(), 'alice', now(), now(), 'RETRYING', status, 'orders'
		FROM (SELECT id, status FROM dlq.dlq_messages UNION ALL SELECT id, status FROM dlq.dlq_messages_archive) m`)
	exec(t, db, `INSERT INTO dlq.returns (attempt_id, parent_id, child_id, by_content, returned_at)
		SELECT attempt_id, message_id, gen_random_uuid(), false, now() FROM dlq.attempts`)
	exec(t, db, `INSERT INTO dlq.edits (message_id, attempt_id, set_value, value, set_key, set_headers, record_hash, created_at)
		SELECT message_id, attempt_id, true, 'v', false, false, hashtextextended(attempt_id::text, 0), now() FROM dlq.attempts`)
	exec(t, db, `INSERT INTO dlq.audit (at, action, kind, object_id, actor, request_id, operation_id)
		SELECT now() - (100000 - n) * interval '1 minute', 'attempt', 'message', m.id, CASE WHEN n % 3 = 0 THEN 'alice' ELSE 'auto' END,
			CASE WHEN n % 3 = 0 THEN 'req_' || n END, CASE WHEN n % 3 = 0 THEN gen_random_uuid() END
		FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM dlq.dlq_messages) m`)
	exec(t, db, `INSERT INTO dlq.idempotency_keys (principal, key, request, operation_id, owner, lease_expires_at, created_at)
		SELECT 'alice', 'key' || n, '', gen_random_uuid(), gen_random_uuid(), now(), now() - n * interval '3 seconds' FROM generate_series(1, 20000) n`)
	exec(t, db, `ANALYZE dlq.dlq_messages, dlq.dlq_messages_archive, dlq.attempts, dlq.edits, dlq.returns, dlq.audit, dlq.idempotency_keys`)
	exec(t, db, `ANALYZE dlq.topics`)
	exec(t, db, `ANALYZE dlq.message_counters`)
	var rows int
	wantNil(t, db.Get(&rows, `SELECT count(*) FROM dlq.dlq_messages`))
	if rows != 50_000 {
		t.Fatalf("got %d rows, want 50000", rows)
	}
}
