package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/audit"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/ingest"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/insight"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/messages"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/redrives"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestPlans: no hot query scans the table, neither with a custom plan for its arguments nor with a generic plan.
func TestPlans(t *testing.T) {
	db := freshDB(t)
	db.SetMaxOpenConns(1) // plans and settings belong to one session
	seedMany(t, db)
	ids := getAll[uuid.UUID](t, db, `SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' ORDER BY md5(id::text) LIMIT 32`)
	list := func(values ...string) string { return "'{" + strings.Join(values, ",") + "}'" }
	repeat := func(value string) string {
		return list(strings.Split(strings.Repeat(value+" ", len(ids)-1)+value, " ")...)
	}
	texts := check.Each(ids, func(id uuid.UUID) string { return id.String() })
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
		query, _ := insight.TrailQuery(q, insight.SeenTopics{All: true})
		return query
	}
	someID, now := uuid.New(), time.Now()

	wantPlans(t, db, []string{"dlq_messages", "attempts", "edits", "returns", "audit", "idempotency_keys"}, []plan{
		{"FirstPageOfATopic", messages.ListQuery, []string{"'topic1'", "0", "20", "65536", "16777216"}, []string{"idx_dlq_messages_original_topic", "idx_dlq_messages_dlq_topic"}},
		{"FirstPageOfADeadLetterTopic", messages.ListQuery, []string{"'orders.dlq'", "0", "20", "65536", "16777216"}, []string{"idx_dlq_messages_original_topic", "idx_dlq_messages_dlq_topic"}},
		{"LaterPageOfATopic", messages.ListQuery, []string{"'topic1'", "400", "100", "65536", "16777216"}, []string{"idx_dlq_messages_original_topic"}},
		{"PageOfAnUnknownTopic", messages.ListQuery, []string{"'nobody'", "0", "20", "65536", "16777216"}, nil},
		{"OneMessage", messages.GetQuery, []string{"'" + texts[0] + "'", "-1"}, []string{"dlq_messages_pkey"}},
		{"ClaimWithoutWaiting", messages.ClaimWays[messages.ClaimWay{}], claims, []string{"dlq_messages_pkey"}},
		{"ClaimThatWaits", messages.ClaimWays[messages.ClaimWay{Wait: true}], claims, []string{"dlq_messages_pkey"}},
		{"ClaimWithEdits", messages.ClaimWays[messages.ClaimWay{Wait: true, Edited: true}], with(claims, wanted, wanted, repeat("topic1"),
			repeat("true"), repeat("v"), repeat("true"), repeat("k"), repeat("true"), repeat("h"), repeat("p"), repeat("7"),
		), []string{"dlq_messages_pkey", "edits_pkey"}},
		{"Finish", messages.FinishQuery, finished, []string{"dlq_messages_pkey", "edits_pkey"}},
		{"History", messages.HistoryQuery, []string{"'" + texts[0] + "'"}, []string{"attempts_pkey", "edits_pkey"}},
		{"MapOne", messages.MapQuery, with(with(one, "'payments'", "false"), noLease...), []string{"dlq_messages_pkey"}},
		{"MapMany", messages.MapQuery, with(with(many, "'payments'", "false"), lease...), []string{"dlq_messages_pkey"}},
		{"Load", messages.LoadQuery, []string{wanted, "1000000"}, []string{"dlq_messages_pkey"}},
		{"Expired", messages.ExpiredQuery, []string{"NULL", "NULL", "'00000000-0000-0000-0000-000000000000'", "100"}, []string{"idx_dlq_messages_status"}},
		{"ExpiredBehindAPlace", messages.ExpiredQuery, []string{"NULL", "now() - interval '40000 seconds'", "'" + texts[0] + "'", "100"}, []string{"idx_dlq_messages_status"}},
		{"ExpiredOne", messages.ExpiredOneQuery, []string{"NULL", "'" + texts[0] + "'"}, []string{"dlq_messages_pkey"}},
		{"DeleteOne", messages.DeleteQuery, with(one, noLease...), []string{"dlq_messages_pkey", "attempts_pkey", "edits_pkey", "returns_pkey"}},
		{"DeleteMany", messages.DeleteQuery, with(many, lease...), []string{"dlq_messages_pkey", "attempts_pkey", "edits_pkey", "returns_pkey"}},
		{"RequeueOne", messages.RequeueQuery, with(one, noLease...), []string{"dlq_messages_pkey"}},
		{"RequeueMany", messages.RequeueQuery, with(many, lease...), []string{"dlq_messages_pkey"}},
		{"GiveUpOne", messages.GiveUpQuery, with(one, noLease...), []string{"dlq_messages_pkey"}},
		{"GiveUpMany", messages.GiveUpQuery, with(many, lease...), []string{"dlq_messages_pkey"}},
		{"PurgeOfTheArchive", messages.PurgeQuery, []string{"365", "1000"}, []string{"idx_dlq_messages_archive_archived_at", "attempts_pkey", "edits_pkey", "returns_pkey"}},
		{"PurgeOfKeys", insight.PurgeKeysQuery, []string{"NULL", "86400000000", "1000"}, []string{"idx_idempotency_keys_created_at"}},
		{"OpenKey", insight.OpenKeyQuery, key, []string{"idempotency_keys_pkey"}},
		{"Trail", trail(repository.TrailQuery{}), []string{"100"}, []string{"audit_pkey"}},
		{"TrailBelowAnEntry", trail(repository.TrailQuery{Before: 1}), []string{"50000", "100"}, []string{"audit_pkey"}},
		{"TrailOfAnObject", trail(repository.TrailQuery{ObjectID: someID}), []string{"'" + texts[0] + "'", "100"}, []string{"idx_audit_object"}},
		{"TrailOfAnObjectBelowAnEntry", trail(repository.TrailQuery{ObjectID: someID, Before: 1}), []string{"'" + texts[0] + "'", "50000", "100"}, []string{"idx_audit_object"}},
		{"TrailOfAnActor", trail(repository.TrailQuery{Actor: "a"}), []string{"'alice'", "100"}, []string{"audit_pkey"}},
		{"TrailAfter", trail(repository.TrailQuery{After: now}), []string{"now() - interval '1 hour'", "100"}, []string{"idx_audit_at"}},
		{"TrailOfARequest", trail(repository.TrailQuery{RequestID: "r"}), []string{"'req_7'", "100"}, []string{"idx_audit_request"}},
		{"Performed", audit.PerformedQuery, []string{"'" + texts[0] + "'"}, []string{"idx_audit_operation"}},
		{"Record", audit.RecordQuery, []string{
			"NULL", "'unmask'", "'alice'", "NULL", "NULL", "NULL", "'" + texts[0] + "'", "'list'",
			"'" + uuid.Nil.String() + "'", "NULL", "NULL", "NULL", "NULL", "NULL",
		}, []string{"idx_audit_operation"}},
		{"Replaced", insight.ReplacedQuery, []string{"'" + texts[0] + "'"}, []string{"idx_audit_operation"}},
		{"PerformedOn", audit.PerformedOnQuery, []string{"'" + texts[0] + "'", "'dead'", wanted}, []string{"idx_audit_object"}},
	})
}

// plan is a statement and the indexes that its plan must use.
type plan struct {
	name, query   string
	args, indexes []string
}

// wantPlans checks the custom and the generic plans: they scan none of tables, and not the claims unless that index
// is among the plan's own.
func wantPlans(t *testing.T, db *sqlx.DB, tables []string, plans []plan) {
	t.Helper()
	for _, c := range plans {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			if mode == "force_generic_plan" && strings.HasPrefix(c.name, "Trail") {
				continue // never prepared
			}
			t.Run(c.name+"/"+mode, func(t *testing.T) {
				text := explain(t, db, mode, c.query, c.args)
				for _, table := range tables {
					wantWalks(t, text, table, c.indexes)
				}
				const claims = "idx_dlq_messages_claimed_hash"
				check.True(t, slices.Contains(c.indexes, claims) || !strings.Contains(text, claims), "it reads all claims:\n%s", text)
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
	lines := getAll[string](t, db, `EXPLAIN EXECUTE explained(`+strings.Join(args, ", ")+`)`)
	return asOneTable(t, db, strings.Join(lines, "\n"))
}

// asOneTable replaces the partitions in a plan by the archive's name. Scanning an empty partition does not count.
func asOneTable(t *testing.T, db *sqlx.DB, plan string) string {
	t.Helper()
	parts := getAll[string](t, db, `SELECT name FROM dlq.archive_partitions`)
	for _, part := range parts {
		empty := getOne[bool](t, db, `SELECT NOT EXISTS (SELECT FROM dlq.`+part+`)`)
		if empty {
			plan = strings.ReplaceAll(plan, "Seq Scan on "+part, "Nothing on "+part)
		}
		plan = strings.ReplaceAll(plan, part, "dlq_messages_archive")
	}
	return plan
}

// seedMany inserts 50,000 messages of 20 topics: most of them are final, some pending, few retrying.
func seedMany(t *testing.T, db *sqlx.DB) {
	t.Helper()
	exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('orders.dlq'), ('payments.dlq')`)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, status, created_at, dlq_topic_id, value, headers, claim_expires_at)
		SELECT CASE WHEN n % 10000 = 0 THEN 'rare' ELSE 'topic' || n % 20 END, 'boom ' || n,
			CASE WHEN n % 1000 = 7 THEN 'RETRYING' WHEN n % 5 = 0 THEN 'PENDING' WHEN n % 2 = 0 THEN 'DEAD' ELSE 'RESOLVED' END,
			now() - n * interval '1 second', 1 + n % 2, '{"order": 1}', '\x00', now() - interval '1 minute'
		FROM generate_series(1, 50000) n`)
	// The archiver gives many messages the same archived_at.
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
	rows := getOne[int](t, db, `SELECT count(*) FROM dlq.dlq_messages`)
	check.Require(t, rows == 50_000, "got %d rows, want 50000", rows)
}

// TestOutcomePlans: queries for returns, consumption and due messages scan no table, with any plan.
func TestOutcomePlans(t *testing.T) {
	db := freshDB(t)
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
	resolved := getOne[uuid.UUID](t, db, `SELECT id FROM dlq.dlq_messages WHERE status = 'RESOLVED' LIMIT 1`)
	hashes, topics, bytes, one := list("%d77"), list("topic%d"), list(`"\\\\x%04d"`), list("%d")
	day := "86400000000"

	wantPlans(t, db, []string{"dlq_messages ", "attempts ", "edits ", "returns ", "committed_offsets ", "dlq_messages_archive "}, []plan{
		{"WhatWasSent", ingest.SentQuery, []string{day, "NULL", hashes, topics}, []string{"idx_attempts_record_hash", "idx_dlq_messages_claimed_hash"}},
		{
			"WhoSentIt", ingest.SameQuery,
			[]string{day, "NULL", hashes, topics, bytes, bytes, one, "'{}'", one, "'{" + strings.Repeat("f,", 999) + "f}'"},
			[]string{"idx_attempts_record_hash", "idx_dlq_messages_claimed_hash", "dlq_messages_pkey", "dlq_messages_archive_pkey", "edits_pkey", "returns_pkey"},
		},
		{"OneMessage", messages.GetQuery, []string{"'" + resolved.String() + "'", "-1"}, []string{"dlq_messages_pkey", "attempts_pkey", "committed_offsets_pkey"}},
		{"Page", messages.ListQuery, []string{"'topic1'", "0", "100", "65536", "16777216"}, []string{"attempts_pkey", "committed_offsets_pkey"}},
		{"Due", messages.DueQuery, []string{"'{topic1,rare}'", "NULL", "NULL", "'" + uuid.Nil.String() + "'", "128", "1000", "'{orders}'", "'{gamma.dlq}'"}, []string{"idx_dlq_messages_due", "idx_dlq_messages_status"}},
		{"DueBehindAPlace", messages.DueQuery, []string{"'{topic1,rare}'", "NULL", "now() - interval '40000 seconds'", "'" + resolved.String() + "'", "128", "1000", "'{orders}'", "'{gamma.dlq}'"}, []string{"idx_dlq_messages_due", "idx_dlq_messages_status"}},
		{"Stuck", messages.StuckQuery, []string{"NULL", day}, []string{"idx_dlq_messages_status"}},
	})
}

// seedSent marks every final message of seedMany as sent; some are due again, and some have come back.
func seedSent(t *testing.T, db *sqlx.DB) {
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
		exec(t, db, query)
	}
}

// TestConsumptionIsLookedUpOnlyWhereItMatters: it costs nothing for rows that were not published.
func TestConsumptionIsLookedUpOnlyWhereItMatters(t *testing.T) {
	db := freshDB(t)
	db.SetMaxOpenConns(1)
	seedMany(t, db)
	exec(t, db, `PREPARE page AS `+messages.ListQuery)
	lines := getAll[string](t, db, `EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) EXECUTE page('topic1', 0, 100, 65536, 16777216)`)
	plan := strings.Join(lines, "\n")
	at := strings.Index(plan, "attempts_pkey")
	check.True(t, at >= 0 && strings.Contains(strings.SplitN(plan[at:], "\n", 2)[0], "never executed"),
		"the attempts of messages that were not published are read:\n%s", plan)
}

// TestDueIsBounded: messages without automatic retry do not delay others.
func TestDueIsBounded(t *testing.T) {
	db := freshDB(t)
	store := New(db)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, next_attempt_at)
		SELECT 'other', 'boom', now() - interval '1 day' + n * interval '1 millisecond', CASE WHEN n % 2 = 0 THEN now() - interval '1 hour' END
		FROM generate_series(1, 20000) n`)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, next_attempt_at)
		VALUES ('mine', 'boom', NULL), ('mine', 'boom', now() - interval '1 second')`)
	exec(t, db, `ANALYZE dlq.dlq_messages`)
	q := repository.DueQuery{Topics: []string{"mine"}, Limit: 32}
	first, next, err := store.Due(t.Context(), q)
	check.NoError(t, err)
	check.True(t, len(first) == 1 && next != (repository.Cursor{}),
		"the first call has %d messages and goes on at %+v, want the touched one, and a place", len(first), next)
	calls := 1
	for found := len(first); found == 1 && calls < 100; calls++ {
		q.After = next
		var ids []uuid.UUID
		ids, next, err = store.Due(t.Context(), q)
		check.NoError(t, err)
		found = len(ids)
	}
	want := 20000/messages.DueWalk + 1
	check.True(t, calls == want && next == (repository.Cursor{}),
		"found it with call %d, next %+v, want call %d, the last", calls, next, want)
}

// BenchmarkDue finds due messages after many messages of other topics.
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
		check.NoError(b, err)
		worst = max(worst, time.Since(start))
		calls++
		q.After = next
	}
	b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
}

// TestSelectionPlans: a selection uses indexes and does not read the messages of other topics. It is always planned
// for its arguments.
func TestSelectionPlans(t *testing.T) {
	db := freshDB(t)
	db.SetMaxOpenConns(1)
	seedMany(t, db)
	exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('rare.dlq')`)
	exec(t, db, `UPDATE dlq.dlq_messages SET dlq_topic_id = (SELECT id FROM dlq.topics WHERE name = 'rare.dlq') WHERE original_topic = 'rare'`)
	exec(t, db, `ANALYZE dlq.dlq_messages`)
	store := New(db)
	scopes := search.NewScopes(store.db)
	ids := getAll[uuid.UUID](t, db, `SELECT id FROM dlq.dlq_messages ORDER BY md5(id::text) LIMIT 200`)
	visible := check.Must(entity.ParseTopicPatterns("visible", "topic1*"))(t)
	retry := func(change func(*repository.NewRedrive)) repository.NewRedrive {
		r := retryAll("topic1")
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		redrive repository.NewRedrive
		indexes []string
	}{
		"Topic":               {retryAll("topic1"), []string{"idx_dlq_messages"}},
		"RareTopic":           {retryAll("rare"), []string{"idx_dlq_messages_original_topic"}},
		"Unknown":             {retryAll("nobody"), []string{"idx_dlq_messages_original_topic"}},
		"DeadLetterTopic":     {retryAll("orders.dlq"), []string{"idx_dlq_messages_original_topic"}},
		"RareDeadLetterTopic": {retryAll("rare.dlq"), []string{"idx_dlq_messages_original_topic", "idx_dlq_messages_dlq_topic"}},
		"TopicAndTimes": {retry(func(r *repository.NewRedrive) {
			r.Selection.CreatedAfter, r.Selection.CreatedBefore = time.Now().Add(-time.Hour), time.Now()
		}), []string{"idx_dlq_messages"}},
		"IDs": {retry(func(r *repository.NewRedrive) { r.Selection = entity.Selection{IDs: ids} }), []string{"dlq_messages_pkey"}},
		"IDsOfATopic": {retry(func(r *repository.NewRedrive) {
			r.Selection = entity.Selection{IDs: ids, Filter: entity.Filter{Topic: "topic1"}}
		}), []string{"dlq_messages_pkey"}},
		"IDsOfWhatIsVisible": {retry(func(r *repository.NewRedrive) {
			r.Selection = entity.Selection{IDs: ids, Filter: entity.Filter{Visible: &visible}}
		}), []string{"dlq_messages_pkey"}},
	} {
		t.Run(name, func(t *testing.T) {
			query, args, err := redrives.Creation(t.Context(), store.db, scopes, c.redrive)
			check.NoError(t, err)
			plan := planned(t, db, query, args)
			wantWalks(t, plan, "dlq_messages", c.indexes)
			survey := check.Must(redrives.NewSelection(t.Context(), scopes, c.redrive, 1))(t)
			wantWalks(t, planned(t, db, survey.Within(redrives.PreviewQuery), survey.Values), "dlq_messages", c.indexes)
		})
	}
}

// planned returns the plan of a query for its arguments.
func planned(t *testing.T, db *sqlx.DB, query string, args []any) string {
	t.Helper()
	lines := getAll[string](t, db, `EXPLAIN `+query, args...)
	return asOneTable(t, db, strings.Join(lines, "\n"))
}

func wantWalks(t *testing.T, plan, table string, indexes []string) {
	t.Helper()
	check.True(t, !strings.Contains(plan, "Seq Scan on "+table), "it walks %s:\n%s", table, plan)
	for _, index := range indexes {
		check.True(t, strings.Contains(plan, index), "it does not use %s:\n%s", index, plan)
	}
}

// TestRedrivePlans: the frequent queries for a redrive read neither the batches of other redrives nor messages.
func TestRedrivePlans(t *testing.T) {
	db := freshDB(t)
	db.SetMaxOpenConns(1)
	seedRedrives(t, db)
	var id, message string
	check.NoError(t, db.Get(&id, `SELECT id FROM dlq.redrives WHERE state = 'running' LIMIT 1`))
	check.NoError(t, db.Get(&message, `SELECT message_ids[1] FROM dlq.redrive_batches LIMIT 1`))
	quote := func(text string) string { return "'" + text + "'" }
	id = quote(id)
	ids := quote("{" + message + "," + message + "}")
	wantPlans(t, db, []string{"redrives", "redrive_batches", "dlq_messages", "attempts", "returns"}, []plan{
		{"Lease", redrives.LeaseQuery, []string{id, "NULL", id, "30000000"}, []string{"redrives_pkey", "redrive_batches_pkey"}},
		{"Renew", redrives.RenewQuery, []string{id, "NULL", "30000000"}, []string{"idx_redrive_batches_held"}},
		{"Save", redrives.SaveBatchQuery, []string{id, "3", id, "'{1}'", "'{1}'", "'{x}'", "'{0}'", "'{5}'", "'[]'"}, []string{"idx_redrive_batches_held"}},
		{"Look", redrives.RedriveQuery, []string{id}, []string{"redrives_pkey", "idx_returns_redrive"}},
		{"FirstPageOfAnActor", redrives.RedrivesOfActor, []string{"NULL", id, "'{}'", "20", "'alice'"}, []string{"idx_redrives_"}},
		{"FirstPage", redrives.RedrivesOfAll, []string{"NULL", id, "'{}'", "20"}, []string{"idx_redrives_created_at"}},
		{"Items", redrives.RedriveItemsQuery, []string{id, "50", "20", "'{}'", "''"}, []string{"redrive_batches_pkey", "idx_returns_redrive"}},
		{"FailedItems", redrives.RedriveItemsQuery, []string{id, "0", "100", "'{2,3}'", "''"}, []string{"redrive_batches_pkey"}},
		{"ReturnedItems", redrives.RedriveItemsQuery, []string{id, "0", "100", "'{}'", "'returned'"}, []string{"redrive_batches_pkey", "idx_returns_redrive"}},
		{"Outcomes", redrives.RedriveOutcomesQuery, []string{id, "false"}, []string{"redrive_batches_pkey"}},
		{"Finish", redrives.MoveRedriveQuery, []string{id, "NULL", "'a'", "NULL", "NULL", "NULL", "NULL", "'finished'", "''", "false", "'{running}'", "'finish'"}, []string{"redrives_pkey"}},
		{"Attempts", redrives.AttemptsOfQuery, []string{id, ids}, []string{"attempts_pkey", "dlq_messages_pkey"}},
	})
}

// seedRedrives inserts 3,000 redrives of 6 batches each, most of them finished, with their messages, attempts and
// returns.
func seedRedrives(t *testing.T, db *sqlx.DB) {
	t.Helper()
	seedMany(t, db)
	exec(t, db, `INSERT INTO dlq.redrives (id, action, state, actor, selection, options, created_at, updated_at, selected,
			left_out, canary_passed, ordered)
		SELECT gen_random_uuid(), 'retry', CASE WHEN n % 50 = 0 THEN 'running' ELSE 'finished' END, 'alice', '{}', '{}',
			now() - n * interval '1 hour', now(), 120, '{}', true, false
		FROM generate_series(1, 3000) n`)
	exec(t, db, `INSERT INTO dlq.redrive_batches (redrive_id, batch_no, first_item, canary, message_ids, done, succeeded)
		SELECT r.id, b, b * 20, false, ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 20)), r.state = 'finished' OR b < 2,
			CASE WHEN r.state = 'finished' OR b < 2 THEN 20 ELSE 0 END
		FROM dlq.redrives r, generate_series(0, 5) b`)
	exec(t, db, `INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, retry_count, actor, started_at, ended_at,
			from_status, to_status, target_topic, redrive_id)
		SELECT id, 99, gen_random_uuid(), 1, 'alice', now(), now(), 'RETRYING', 'RESOLVED', 'topic1', gen_random_uuid()
		FROM dlq.dlq_messages WHERE status = 'RESOLVED'`)
	exec(t, db, `INSERT INTO dlq.returns (attempt_id, parent_id, child_id, redrive_id, by_content, returned_at)
		SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), false, now()
		FROM generate_series(1, 20000)`)
	for _, table := range []string{"redrives", "redrive_batches", "attempts", "returns"} {
		exec(t, db, fmt.Sprintf(`ANALYZE dlq.%s`, table))
	}
}

// TestActivityPlans: arrivals are read from the rows of the requested time only, and never from the messages;
// deleting old rows reads one end of an index.
func TestActivityPlans(t *testing.T) {
	db := freshDB(t)
	db.SetMaxOpenConns(1) // plans and settings belong to one session
	exec(t, db, `INSERT INTO dlq.activity
		SELECT 'topic' || topic, minutes, date_bin(minutes * interval '1 minute', now(), 'epoch') - n * minutes * interval '1 minute', 3, 1
		FROM (VALUES (5, 24), (60, 8 * 24)) s (minutes, steps), generate_series(0, steps) n, generate_series(1, 200) topic`)
	exec(t, db, `VACUUM ANALYZE dlq.activity`)
	span := func(of, minutes string) []string {
		return []string{minutes, "now() - interval '" + of + "'", "now()", "3600000000"}
	}
	for _, c := range []struct {
		name, query string
		args        []string
		index       string
	}{
		{"Hour", insight.ArrivalsQuery, span("1 hour", "5"), "idx_activity_at"},
		{"Day", insight.ArrivalsQuery, span("1 day", "60"), "idx_activity_at"},
		{"HourOfATopic", insight.ArrivalsOfTopicsQuery, append(span("1 hour", "5"), "'{topic7}'"), "activity"},
		{"WeekOfATopic", insight.ArrivalsOfTopicsQuery, append(span("7 days", "60"), "'{topic7}'"), "activity_pkey"},
		{"Topics", insight.ActivityTopicsQuery + " AND $1", []string{"true"}, "activity_pkey"},
		{"Store", search.StoreDocumentsQuery, []string{
			"'{" + uuid.NewString() + "}'", "'{a}'", "'{\"{}\"}'", "1", "NULL", "7200000000", "691200000000",
		}, "idx_activity_at"},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			plan := explain(t, db, mode, c.query, c.args)
			check.True(t, !strings.Contains(plan, "Seq Scan on activity") && strings.Contains(plan, c.index),
				"%s, %s: it does not use %s:\n%s", c.name, mode, c.index, plan)
			check.True(t, c.name == "Store" || !strings.Contains(plan, "dlq_messages"),
				"%s, %s: it looks at messages:\n%s", c.name, mode, plan)
		}
	}
}

// TestActivityForgets deletes old rows in parts, and skips rows that other sessions have locked.
func TestActivityForgets(t *testing.T) {
	t.Parallel()
	f := newFinder(t)
	exec(t, f.db, `INSERT INTO dlq.activity SELECT 'orders', 60, $1::timestamptz - (9 + n) * interval '1 day', 1, 0 FROM generate_series(1, 1500) n`, f.now)
	exec(t, f.db, `INSERT INTO dlq.activity SELECT 'orders', 5, $1::timestamptz - (3 + n) * interval '1 hour', 1, 0 FROM generate_series(1, 500) n`, f.now)
	exec(t, f.db, `INSERT INTO dlq.activity VALUES ('orders', 60, $1, 1, 0)`, f.now.Add(-7*24*time.Hour))
	holder := check.Must(f.db.Beginx())(t)
	defer func() { _ = holder.Rollback() }()
	old := `SELECT FROM dlq.activity WHERE at < $1::timestamptz - interval '1509 days' FOR UPDATE`
	check.Must(holder.Exec(old, f.now.Add(time.Hour)))(t)
	for _, want := range []int{500 + 1 + 2, 1 + 1 + 4, 1 + 1 + 6} {
		f.insert(f.db, 0) // of its own topic
		f.work()
		check.Same(t, count(t, f.db, "activity"), want, "rows that are left")
	}
}
