package messages

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// TestPlans: no query that runs often scans the table of messages, neither with the custom plan for its arguments nor
// with the generic plan.
func TestPlans(t *testing.T) {
	db := postgrestest.Many.Fresh(t)
	db.SetMaxOpenConns(1) // one session for all statements, because plans and settings belong to a session
	ids := postgrestest.All[uuid.UUID](t, db, `SELECT id FROM dlq.dlq_messages WHERE status = 'PENDING' ORDER BY md5(id::text) LIMIT 32`)
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

	postgrestest.WantPlans(t, db, []string{"dlq_messages", "attempts", "edits", "returns", "audit"}, []postgrestest.Plan{
		{"FirstPageOfATopic", listQuery, []string{"'topic1'", "0", "20", "65536", "16777216"}, []string{"idx_dlq_messages_original_topic", "idx_dlq_messages_dlq_topic"}},
		{"FirstPageOfADeadLetterTopic", listQuery, []string{"'orders.dlq'", "0", "20", "65536", "16777216"}, []string{"idx_dlq_messages_original_topic", "idx_dlq_messages_dlq_topic"}},
		{"LaterPageOfATopic", listQuery, []string{"'topic1'", "400", "100", "65536", "16777216"}, []string{"idx_dlq_messages_original_topic"}},
		{"PageOfAnUnknownTopic", listQuery, []string{"'nobody'", "0", "20", "65536", "16777216"}, nil},
		{"OneMessage", getQuery, []string{"'" + texts[0] + "'", "-1"}, []string{"dlq_messages_pkey"}},
		{"ClaimWithoutWaiting", claimWays[claimWay{}], claims, []string{"dlq_messages_pkey"}},
		{"ClaimThatWaits", claimWays[claimWay{Wait: true}], claims, []string{"dlq_messages_pkey"}},
		{"ClaimWithEdits", claimWays[claimWay{Wait: true, Edited: true}], with(claims, wanted, wanted, repeat("topic1"),
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
		{"Restore", RestoreQuery, []string{"'" + uuid.NewString() + "'", "NULL", "'alice'", "NULL", "NULL", "NULL", "NULL", "0"}, []string{"dlq_messages_archive_pkey"}},
		{"PurgeOfTheArchive", PurgeQuery, []string{"365", "1000"}, []string{"idx_dlq_messages_archive_archived_at", "attempts_pkey", "edits_pkey", "returns_pkey"}},
	})
}

// TestOutcomePlans: the queries for consumed and due messages scan no table, neither with the custom plan for their
// arguments nor with the generic plan.
func TestOutcomePlans(t *testing.T) {
	db := postgrestest.Many.Fresh(t)
	db.SetMaxOpenConns(1) // one session for all statements, because plans and settings belong to a session
	postgrestest.SeedSent(t, db)
	resolved := postgrestest.Get[uuid.UUID](t, db, `SELECT id FROM dlq.dlq_messages WHERE status = 'RESOLVED' LIMIT 1`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.auto_sends SELECT message_id, attempt_id, target_topic, now() - random() * interval '20 minutes'
		FROM dlq.attempts WHERE to_status = 'RESOLVED' ON CONFLICT DO NOTHING`)
	postgrestest.Exec(t, db, `ANALYZE dlq.auto_sends`)
	day := "86400000000"

	postgrestest.WantPlans(t, db, []string{"dlq_messages ", "attempts ", "edits ", "returns ", "committed_offsets ", "dlq_messages_archive ", "auto_sends "}, []postgrestest.Plan{
		{"OneMessage", getQuery, []string{"'" + resolved.String() + "'", "-1"}, []string{"dlq_messages_pkey", "attempts_pkey", "committed_offsets_pkey", "idx_share_records_position"}},
		{"Page", listQuery, []string{"'topic1'", "0", "100", "65536", "16777216"}, []string{"attempts_pkey", "committed_offsets_pkey", "idx_share_records_position"}},
		{"Due", dueQuery, []string{"'{topic1,rare}'", "NULL", "NULL", "'" + uuid.Nil.String() + "'", "128", "1000", "'{orders}'", "'{gamma.dlq}'"}, []string{"idx_dlq_messages_due", "idx_dlq_messages_status"}},
		{"DueBehindAPlace", dueQuery, []string{"'{topic1,rare}'", "NULL", "now() - interval '40000 seconds'", "'" + resolved.String() + "'", "128", "1000", "'{orders}'", "'{gamma.dlq}'"}, []string{"idx_dlq_messages_due", "idx_dlq_messages_status"}},
		{"WatchAuto", watchAutoQuery, []string{"'{topic1}'", "NULL", "'" + uuid.NewString() + "'", "10000000", "600000000", "2000", "60000000"}, []string{
			"idx_auto_sends_topic", "dlq_messages_pkey", "attempts_pkey", "committed_offsets_pkey",
		}},
		{"Stuck", stuckQuery, []string{"NULL", day}, []string{"idx_dlq_messages_status"}},
	})
}

// TestConsumptionIsLookedUpOnlyWhereItMatters: for messages that were not published, a page reads no attempts, which it
// would need in order to look up committed offsets.
func TestConsumptionIsLookedUpOnlyWhereItMatters(t *testing.T) {
	db := postgrestest.Many.Fresh(t)
	db.SetMaxOpenConns(1)
	postgrestest.Exec(t, db, `PREPARE page AS `+listQuery)
	lines := postgrestest.All[string](t, db, `EXPLAIN (ANALYZE, TIMING OFF, SUMMARY OFF) EXECUTE page('topic1', 0, 100, 65536, 16777216)`)
	plan := strings.Join(lines, "\n")
	at := strings.Index(plan, "attempts_pkey")
	check.True(t, at >= 0 && strings.Contains(strings.SplitN(plan[at:], "\n", 2)[0], "never executed"),
		"the attempts of messages that were not published are read:\n%s", plan)
}

// TestDueIsBounded: Due reads at most dueWalk messages of topics without automatic retry in each call, and these
// messages do not delay the due messages of other topics that have earlier attempts.
func TestDueIsBounded(t *testing.T) {
	db := postgrestest.Fresh(t)
	schedule := NewSchedule(conn.New(db, nil))
	postgrestest.Exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, next_attempt_at)
		SELECT 'other', 'boom', now() - interval '1 day' + n * interval '1 millisecond', CASE WHEN n % 2 = 0 THEN now() - interval '1 hour' END
		FROM generate_series(1, 20000) n`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, next_attempt_at)
		VALUES ('mine', 'boom', NULL), ('mine', 'boom', now() - interval '1 second')`)
	postgrestest.Exec(t, db, `ANALYZE dlq.dlq_messages`)
	q := repository.DueQuery{Topics: []string{"mine"}, Limit: 32}
	first, next, err := schedule.Due(t.Context(), q)
	check.NoError(t, err)
	check.True(t, len(first) == 1 && next != (repository.Cursor{}),
		"the first call has %d messages and goes on at %+v, want the touched one, and a place", len(first), next)
	calls := 1
	for found := len(first); found == 1 && calls < 100; calls++ {
		q.After = next
		var ids []uuid.UUID
		ids, next, err = schedule.Due(t.Context(), q)
		check.NoError(t, err)
		found = len(ids)
	}
	want := 20000/dueWalk + 1
	check.True(t, calls == want && next == (repository.Cursor{}),
		"found it with call %d, next %+v, want call %d, the last", calls, next, want)
}

// BenchmarkDue finds due messages that come after many messages of topics without automatic retry.
func BenchmarkDue(b *testing.B) {
	db := postgrestest.Open(b)
	schedule := NewSchedule(conn.New(db, nil))
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
		_, next, err := schedule.Due(b.Context(), q)
		check.NoError(b, err)
		worst = max(worst, time.Since(start))
		calls++
		q.After = next
	}
	b.ReportMetric(float64(worst.Milliseconds()), "worst-ms")
}

// TestListPlans: a page is read along an index that contains only messages of the page's topic. This is also true when
// ten topics receive messages at the same time: then every time range contains messages of each topic, so that
// PostgreSQL could expect a scan of all messages to be cheap.
func TestListPlans(t *testing.T) {
	db := postgrestest.Fresh(t)
	db.SetMaxOpenConns(1) // one session for all statements, because plans and settings belong to a session
	postgrestest.Exec(t, db, `INSERT INTO dlq.topics (name) SELECT 'topic' || n || '.dlq' FROM generate_series(0, 9) n`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, dlq_topic_id, value, headers)
		SELECT 'topic' || n % 10, 'boom ' || n, now() - (20000 - n) * interval '1 second', 1 + n % 10, '{"order": 1}', '\x00'
		FROM generate_series(1, 20000) n`)
	postgrestest.Exec(t, db, `VACUUM ANALYZE dlq.dlq_messages`)
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		for _, topic := range []string{"topic1", "topic1.dlq", "nobody"} {
			for name, plan := range map[string]string{
				"FirstPage": postgrestest.Explain(t, db, mode, firstPageQuery(20), []string{"'" + topic + "'"}),
				"LaterPage": postgrestest.Explain(t, db, mode, listQuery, []string{"'" + topic + "'", "40", "20", "65536", "16777216"}),
			} {
				postgrestest.WantWalks(t, plan, "dlq_messages", []string{"idx_dlq_messages_original_topic", "idx_dlq_messages_dlq_topic", "dlq_messages_pkey"})
				check.True(t, !strings.Contains(plan, "idx_dlq_messages_created_at"),
					"%s of %s, %s: it walks all messages:\n%s", name, topic, mode, plan)
			}
		}
	}
}

// duePlan runs the query for due messages of topic orders, and returns the plan that PostgreSQL executed.
func duePlan(t *testing.T, db *sqlx.DB) string {
	t.Helper()
	postgrestest.Exec(t, db, `VACUUM ANALYZE dlq.dlq_messages`)
	postgrestest.Exec(t, db, `VACUUM ANALYZE dlq.share_records`)
	return strings.Join(postgrestest.All[string](t, db, "EXPLAIN (ANALYZE) "+dueQuery,
		"{orders}", nil, nil, uuid.Nil, 100, dueWalk, "{}", "{}"), "\n")
}

// seedShares inserts messages of a share group with the given status, and for each message a row of dlq.share_records
// with the given state.
func seedShares(t *testing.T, db *sqlx.DB, messages int, status entity.Status, state entity.Completion) {
	t.Helper()
	postgrestest.Exec(t, db, `INSERT INTO dlq.dlq_messages (id, original_topic, error_message, status, dialect, created_at)
		SELECT gen_random_uuid(), 'orders', 'boom', $2, 'sharegroup', now() - interval '1 day' FROM generate_series(1, $1::int)`, messages, status)
	postgrestest.Exec(t, db, `INSERT INTO dlq.share_records (message_id, share_group, topic, partition, position, digest, state)
		SELECT id, 'g', 'orders', 0, row_number() OVER (), sha256('x'), $1 FROM dlq.dlq_messages`, state)
}

// TestDueReadsNoTableOfShareRecords: the query for due messages does not read all rows of dlq.share_records, which are
// kept as long as their messages are live or archived.
func TestDueReadsNoTableOfShareRecords(t *testing.T) {
	db := postgrestest.Fresh(t)
	seedShares(t, db, 20_000, entity.Pending, entity.Completed)
	postgrestest.Exec(t, db, `INSERT INTO dlq.share_records (message_id, share_group, topic, partition, position, digest, state)
		SELECT gen_random_uuid(), 'g', 'orders', 0, n, sha256('x'), 'completed' FROM generate_series(20001, 100000) n`)
	plan := duePlan(t, db)
	check.True(t, !strings.Contains(plan, "Seq Scan on share_records"), "all rows are read:\n%s", plan)
}

// TestDueLeavesOutWithoutReadingAll: a share group has many requeued messages whose record is gone. The query for due
// messages leaves them out without reading all of them, and finds a message whose record is stored later.
func TestDueLeavesOutWithoutReadingAll(t *testing.T) {
	const n = 2 * dueWalk
	db := postgrestest.Fresh(t)
	seedShares(t, db, n, entity.Dead, entity.SourceGone)
	ids := postgrestest.All[uuid.UUID](t, db, `SELECT id FROM dlq.dlq_messages ORDER BY created_at, id`)
	pool := conn.New(db, nil)
	requeued, _, err := New(pool).operate(t.Context(), entity.ActionRequeue, ids, repository.Lease{}, entity.By("a"))
	check.True(t, err == nil && len(requeued) == n, "requeued %d messages, %v", len(requeued), err)
	plan := duePlan(t, db)
	for _, removed := range regexp.MustCompile(`Rows Removed by Filter: (\d+)`).FindAllStringSubmatch(plan, -1) {
		check.True(t, check.Must(strconv.Atoi(removed[1]))(t) <= dueWalk, "more messages are read and left out than dueWalk:\n%s", plan)
	}

	query, schedule := repository.DueQuery{Topics: []string{"orders"}, Limit: 10}, NewSchedule(pool)
	due, _, err := schedule.Due(t.Context(), query)
	check.True(t, err == nil && len(due) == 0, "Due = %v, %v, want none", due, err)
	postgrestest.Exec(t, db, `UPDATE dlq.share_records SET state = 'completed' WHERE message_id = $1`, ids[0])
	due, _, err = schedule.Due(t.Context(), query)
	check.True(t, err == nil && slices.Equal(due, ids[:1]), "Due = %v, %v, want the message whose record is stored", due, err)
}
