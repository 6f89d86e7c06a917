package insight

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/integration/stack/stacktest"
	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestMain(m *testing.M) { stacktest.Main(m) }

// TestPlans: no query scans the whole table of the audit trail or of idempotency keys, neither with the custom plan for
// its arguments nor with the generic plan.
func TestPlans(t *testing.T) {
	db := postgrestest.Fresh(t)
	db.SetMaxOpenConns(1) // one session for all statements, because plans and settings belong to a session
	postgrestest.SeedAudit(t, db)
	id := "'" + uuid.NewString() + "'"
	key := []string{"'alice'", "'key7'", "'\\x01'", id, id, "30000000", "86400000000", "NULL"}
	trail := func(q repository.TrailQuery) string {
		query, _ := trailQuery(q, seenTopics{All: true})
		return query
	}
	someID, now := uuid.New(), time.Now()

	postgrestest.WantPlans(t, db, []string{"audit", "idempotency_keys"}, []postgrestest.Plan{
		{"PurgeOfKeys", purgeKeysQuery, []string{"NULL", "86400000000", "1000"}, []string{"idx_idempotency_keys_created_at"}},
		{"OpenKey", openKeyQuery, key, []string{"idempotency_keys_pkey"}},
		{"Trail", trail(repository.TrailQuery{}), []string{"100"}, []string{"audit_pkey"}},
		{"TrailBelowAnEntry", trail(repository.TrailQuery{Before: 1}), []string{"50000", "100"}, []string{"audit_pkey"}},
		{"TrailOfAnObject", trail(repository.TrailQuery{ObjectID: someID}), []string{id, "100"}, []string{"idx_audit_object"}},
		{"TrailOfAnObjectBelowAnEntry", trail(repository.TrailQuery{ObjectID: someID, Before: 1}), []string{id, "50000", "100"}, []string{"idx_audit_object"}},
		{"TrailOfAnActor", trail(repository.TrailQuery{Actor: "a"}), []string{"'alice'", "100"}, []string{"audit_pkey"}},
		{"TrailAfter", trail(repository.TrailQuery{After: now}), []string{"now() - interval '1 hour'", "100"}, []string{"idx_audit_at"}},
		{"TrailOfARequest", trail(repository.TrailQuery{RequestID: "r"}), []string{"'req_7'", "100"}, []string{"idx_audit_request_id"}},
		{"TrailOfPeople", trail(repository.TrailQuery{ByRequest: true, ActorKind: entity.ActorPerson}), []string{"50"}, []string{"idx_audit_people", "idx_audit_call", "redrives_pkey"}},
		{"TrailOfAPerson", trail(repository.TrailQuery{ByRequest: true, ActorKind: entity.ActorPerson, Actor: "a"}), []string{"'alice'", "50"}, []string{"idx_audit_people", "idx_audit_call"}},
		{"TrailOfPeopleYesterday", trail(repository.TrailQuery{ByRequest: true, ActorKind: entity.ActorPerson, After: now, Until: now}), []string{"now() - interval '2 days'", "now() - interval '1 day'", "50"}, []string{"idx_audit_people", "idx_audit_call"}},
		{"TrailByRequest", trail(repository.TrailQuery{ByRequest: true}), []string{"50"}, []string{"audit_pkey", "idx_audit_call"}},
		{"Replaced", replacedQuery, []string{id}, []string{"idx_audit_operation"}},
	})
}

// TestActivityPlans: a query for arrivals finds the rows of dlq.activity through an index, and reads no messages.
func TestActivityPlans(t *testing.T) {
	db := postgrestest.Fresh(t)
	db.SetMaxOpenConns(1) // one session for all statements, because plans and settings belong to a session
	postgrestest.Exec(t, db, `INSERT INTO dlq.activity
		SELECT 'topic' || topic, minutes, date_bin(minutes * interval '1 minute', now(), 'epoch') - n * minutes * interval '1 minute', 3, 1
		FROM (VALUES (5, 24), (60, 8 * 24)) s (minutes, steps), generate_series(0, steps) n, generate_series(1, 200) topic`)
	postgrestest.Exec(t, db, `VACUUM ANALYZE dlq.activity`)
	span := func(of, minutes string) []string {
		return []string{minutes, "now() - interval '" + of + "'", "now()", "3600000000"}
	}
	for _, c := range []struct {
		name, query string
		args        []string
		index       string
	}{
		{"Hour", arrivalsQuery, span("1 hour", "5"), "idx_activity_at"},
		{"Day", arrivalsQuery, span("1 day", "60"), "idx_activity_at"},
		{"HourOfATopic", arrivalsOfTopicsQuery, append(span("1 hour", "5"), "'{topic7}'"), "activity"},
		{"WeekOfATopic", arrivalsOfTopicsQuery, append(span("7 days", "60"), "'{topic7}'"), "activity_pkey"},
		{"Topics", activityTopicsQuery + " AND $1", []string{"true"}, "activity_pkey"},
	} {
		for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
			plan := postgrestest.Explain(t, db, mode, c.query, c.args)
			check.True(t, !strings.Contains(plan, "Seq Scan on activity") && strings.Contains(plan, c.index),
				"%s, %s: it does not use %s:\n%s", c.name, mode, c.index, plan)
			check.True(t, !strings.Contains(plan, "dlq_messages"),
				"%s, %s: it looks at messages:\n%s", c.name, mode, plan)
		}
	}
}

// TestGroupPlans: queries for error groups and topics do not scan the messages. Only the order by open messages scans
// all counters.
func TestGroupPlans(t *testing.T) {
	db := postgrestest.Fresh(t)
	db.SetMaxOpenConns(1)
	seedGroups(t, db)
	day := repository.Trend{Since: time.Now().Add(-24 * time.Hour), Until: time.Now()}
	all, some := seenTopics{All: true}, seenTopics{Names: []string{"topic1", "topic2", "rare"}}
	place := &repository.GroupCursor{Key: time.Now().Add(-time.Minute).UnixMicro(), ID: uuid.New()}
	for _, c := range []struct {
		name    string
		made    *groupsQuery
		sums    bool // true for a query that adds up all counters, so that it has to scan the table of counters
		indexes []string
	}{
		{"FirstPage", pageOfGroups(repository.GroupQuery{Limit: 20, Trend: day}, all), false, []string{"idx_error_groups_last_seen", "group_counters_pkey", "group_arrivals_pkey"}},
		{"OpenOnes", pageOfGroups(repository.GroupQuery{Limit: 20, Statuses: repository.OpenStatuses}, all), false, []string{"idx_error_groups_last_seen", "group_counters_pkey"}},
		{"OpenOnesBehindAPlace", pageOfGroups(repository.GroupQuery{Limit: 20, Statuses: repository.OpenStatuses, After: place}, all), false, []string{"idx_error_groups_last_seen", "group_counters_pkey"}},
		{"OpenOnesOfSomeTopics", pageOfGroups(repository.GroupQuery{Limit: 20, Statuses: repository.OpenStatuses, After: place}, some), false, []string{"idx_group_arrivals_hour", "group_counters_pkey"}},
		{"ByFirstSeen", pageOfGroups(repository.GroupQuery{Limit: 20, Sort: repository.GroupsByFirstSeen, After: place}, all), false, []string{"idx_error_groups_first_seen"}},
		{"OfARareTopic", pageOfGroups(repository.GroupQuery{Limit: 20, Topic: "rare", Statuses: repository.OpenStatuses}, some), false, []string{"idx_group_counters_topic"}},
		{"ByOpen", pageOfGroups(repository.GroupQuery{Limit: 20, Sort: repository.GroupsByOpen, Statuses: repository.OpenStatuses}, all), true, []string{"group_arrivals_pkey"}},
		{"ByRecent", pageOfGroups(repository.GroupQuery{Limit: 20, Sort: repository.GroupsByRecent, Recent: time.Now(), Statuses: repository.OpenStatuses}, all), false, []string{"idx_error_groups_last_seen", "group_counters_pkey", "group_arrivals_pkey"}},
		{"ByRecentBehindAPlace", pageOfGroups(repository.GroupQuery{Limit: 20, Sort: repository.GroupsByRecent, Recent: time.Now(), After: &repository.GroupCursor{Key: time.Now().Unix(), ID: uuid.New()}}, all), false, []string{"idx_error_groups_last_seen", "group_arrivals_pkey"}},
		{"One", oneGroup(uuid.New(), some, day), false, []string{"error_groups_pkey", "group_counters_pkey", "group_arrivals_pkey"}},
	} {
		tables := []string{"dlq_messages", "group_arrivals", "audit"}
		if !c.sums {
			tables = append(tables, "group_counters")
		}
		postgrestest.WantPlans(t, db, tables, []postgrestest.Plan{{c.name, c.made.Text, literals(c.made.Args), c.indexes}})
	}
	postgrestest.WantPlans(t, db, []string{"dlq_messages", "audit"}, []postgrestest.Plan{
		{"Topics", topicsQuery, []string{"NULL", "NULL", "NULL", "1001", "100", "NULL"}, []string{"idx_dlq_messages_pending", "idx_dlq_messages_original_topic"}},
		{"SomeTopics", topicsQuery, []string{"'{topic1,rare}'", "'{1}'", "NULL", "1001", "100", "NULL"}, []string{"idx_dlq_messages_pending", "idx_dlq_messages_original_topic"}},
		{"Annotate", annotateQuery, slices.Concat([]string{"'" + uuid.NewString() + "'", "NULL", "'a'", "NULL", "NULL", "NULL"}, []string{"'" + uuid.NewString() + "'", "'note'", "NULL", "true", "'x'", "NULL"}), []string{"error_groups_pkey", "idx_audit_operation"}},
	})
}

// seedGroups inserts the messages of postgrestest.SeedMany, divided among 1,000 error groups, and recent arrivals of
// these groups.
func seedGroups(t *testing.T, db *sqlx.DB) {
	t.Helper()
	postgrestest.Exec(t, db, `INSERT INTO dlq.error_groups (id, title) SELECT md5((n)::text)::uuid, 'group ' || n FROM generate_series(0, 999) n`)
	postgrestest.SeedMany(t, db)
	postgrestest.Exec(t, db, `UPDATE dlq.dlq_messages SET group_id = md5((abs(hashtext(id::text)) % 1000)::text)::uuid`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.group_minutes SELECT g.id, date_trunc('minute', now()) - n * interval '1 minute', 'topic1', 3 FROM dlq.error_groups g, generate_series(1, 60) n`)
	for _, table := range []string{"dlq_messages", "group_minutes", "error_groups", "group_counters", "group_arrivals", "message_counters", "audit"} {
		postgrestest.Exec(t, db, `VACUUM ANALYZE dlq.`+table)
	}
}

// literals returns the arguments of a statement as SQL literals.
func literals(args []any) []string {
	all := make([]string, len(args))
	for i, arg := range args {
		switch arg := arg.(type) {
		case []byte: // the only such argument is a list of topics
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

// TestArchiveRunsAreReadByTheirIndexes: the latest runs of the archiver are found without reading all runs.
func TestArchiveRunsAreReadByTheirIndexes(t *testing.T) {
	db := postgrestest.Fresh(t)
	postgrestest.Exec(t, db, `INSERT INTO dlq.archive_runs (id, started_at, finished_at, result)
		SELECT gen_random_uuid(), now() - n * interval '1 minute', now() - n * interval '1 minute', CASE WHEN n % 3 = 0 THEN 'complete' ELSE 'incomplete' END
		FROM generate_series(1, 20000) n`)
	postgrestest.Exec(t, db, `ANALYZE dlq.archive_runs`)
	postgrestest.WantWalks(t, postgrestest.Planned(t, db, latestArchiveRunsQuery, nil), "archive_runs", []string{"idx_archive_runs_started_at", "idx_archive_runs_complete"})
}

// TestRecentGroupsAreReadByTheirIndexes: the query for the metrics of recent error groups does not read more rows when
// there are more old error groups.
func TestRecentGroupsAreReadByTheirIndexes(t *testing.T) {
	db := postgrestest.Fresh(t)
	db.SetMaxOpenConns(1)
	// regressed_at has no relation to the order of arrival, so the rows have random times.
	postgrestest.Exec(t, db, `INSERT INTO dlq.error_groups (id, first_seen, last_seen, regressed_at)
		SELECT gen_random_uuid(), now() - n * interval '1 minute', now(), CASE WHEN n % 2 = 0 THEN now() - n * interval '1 minute' END
		FROM generate_series(1, 20000) n ORDER BY random()`)
	postgrestest.Exec(t, db, `ANALYZE dlq.error_groups`)
	postgrestest.Exec(t, db, `PREPARE recent AS `+recentGroupsQuery)
	for range 10 { // after five executions PostgreSQL decides whether it uses the generic plan
		postgrestest.Exec(t, db, `EXECUTE recent (NULL, 3600000000, '{}')`)
	}
	lines := postgrestest.All[string](t, db, `EXPLAIN EXECUTE recent (NULL, 3600000000, '{}')`)
	plan := strings.Join(lines, "\n")
	for _, index := range []string{"idx_error_groups_first_seen", "idx_error_groups_regressed_at"} {
		check.True(t, strings.Contains(plan, index) && !strings.Contains(plan, "Seq Scan"),
			"the plan does not use %s alone:\n%s", index, plan)
	}
}

// TestEventsAreFoundByIndexes: the queries for events scan neither the audit trail nor the error groups.
func TestEventsAreFoundByIndexes(t *testing.T) {
	db := postgrestest.Fresh(t)
	postgrestest.Exec(t, db, `INSERT INTO dlq.audit (at, action, kind, object_id, to_state, actor)
		SELECT clock_timestamp(), 'attempt', 'message', gen_random_uuid(), CASE WHEN n % 1000 = 0 THEN 'DEAD' ELSE 'RESOLVED' END, 'a'
		FROM generate_series(1, 20000) n`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.error_groups (id, first_seen, new_notified) SELECT md5(n::text)::uuid, now(), n % 1000 > 0 FROM generate_series(1, 20000) n`)
	postgrestest.Exec(t, db, `ANALYZE dlq.audit, dlq.error_groups`)
	wantPlan(t, db, trailEventsQuery, "idx_audit_notified", "'3', 0, 100")
	wantPlan(t, db, groupEventsQuery, "idx_error_groups_unnotified", "100")
}

func wantPlan(t *testing.T, db *sqlx.DB, query, index, args string) {
	t.Helper()
	tx := db.MustBegin()
	defer func() { _ = tx.Rollback() }()
	tx.MustExec(`SET LOCAL plan_cache_mode = force_generic_plan`)
	tx.MustExec("PREPARE asked AS " + query)
	defer func() { _, _ = tx.Exec(`DEALLOCATE asked`) }()
	lines := postgrestest.All[string](t, tx, "EXPLAIN EXECUTE asked ("+args+")")
	plan := strings.Join(lines, "\n")
	check.True(t, strings.Contains(plan, index), "the plan does not use %s:\n%s", index, plan)
}
