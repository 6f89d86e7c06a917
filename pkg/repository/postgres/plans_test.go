package postgres

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

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
	claims := []string{wanted, wanted, repeat("topic1"), repeat("0"), repeat("0"), repeat("false"), "30000000", "NULL", repeat("id"), repeat("actor")}
	finished := []string{wanted, wanted, repeat("a"), repeat("1"), repeat("x"), repeat("x"), repeat("0"), repeat("0"), repeat("0"), "10", "NULL"}

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
		{"ClaimWithoutWaiting", claimSkipping, claims, []string{"dlq_messages_pkey"}},
		{"ClaimThatWaits", claimWaiting, claims, []string{"dlq_messages_pkey"}},
		{"Finish", finishQuery, finished, []string{"dlq_messages_pkey"}},
		{"Load", loadQuery, []string{wanted, "1000000"}, []string{"dlq_messages_pkey"}},
		{"Expired", expiredQuery, []string{"NULL", "NULL", "'00000000-0000-0000-0000-000000000000'", "100"}, []string{"idx_dlq_messages_status"}},
		{"ExpiredBehindAPlace", expiredQuery, []string{"NULL", "now() - interval '40000 seconds'", "'" + texts[0] + "'", "100"}, []string{"idx_dlq_messages_status"}},
		{"ExpiredOne", expiredOneQuery, []string{"NULL", "'" + texts[0] + "'"}, []string{"dlq_messages_pkey"}},
		{"SelectionOfARareTopic", selectQuery, []string{"'rare'"}, []string{"idx_dlq_messages"}},
		{"Delete", deleteQuery, []string{"'" + texts[0] + "'"}, []string{"dlq_messages_pkey"}},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				plan := explain(t, db, mode, c.query, c.args)
				if strings.Contains(plan, "Seq Scan on dlq_messages") {
					t.Errorf("it walks the table:\n%s", plan)
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
	return strings.Join(lines, "\n")
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
	exec(t, db, `ANALYZE dlq.dlq_messages`)
	exec(t, db, `ANALYZE dlq.topics`)
	exec(t, db, `ANALYZE dlq.message_counters`)
	var rows int
	wantNil(t, db.Get(&rows, `SELECT count(*) FROM dlq.dlq_messages`))
	if rows != 50_000 {
		t.Fatalf("got %d rows, want 50000", rows)
	}
}
