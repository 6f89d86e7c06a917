package redrives

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/internal/test/check"
	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

func TestMain(m *testing.M) { postgrestest.Main(m) }

// TestSelectionPlans: the query of a selection uses indexes and does not read the messages of other topics. The test
// needs only the custom plan, because PostgreSQL always plans this query for its arguments.
func TestSelectionPlans(t *testing.T) {
	db := postgrestest.Many.Fresh(t)
	db.SetMaxOpenConns(1)
	postgrestest.Exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('rare.dlq')`)
	postgrestest.Exec(t, db, `UPDATE dlq.dlq_messages SET dlq_topic_id = (SELECT id FROM dlq.topics WHERE name = 'rare.dlq') WHERE original_topic = 'rare'`)
	postgrestest.Exec(t, db, `ANALYZE dlq.dlq_messages`)
	pool := conn.New(db, nil)
	scopes := search.NewScopes(pool)
	ids := postgrestest.All[uuid.UUID](t, db, `SELECT id FROM dlq.dlq_messages ORDER BY md5(id::text) LIMIT 200`)
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
			query, args, err := creation(t.Context(), pool, scopes, c.redrive)
			check.NoError(t, err)
			plan := postgrestest.Planned(t, db, query, args)
			postgrestest.WantWalks(t, plan, "dlq_messages", c.indexes)
			survey := check.Must(newSelection(t.Context(), scopes, c.redrive, 1))(t)
			postgrestest.WantWalks(t, postgrestest.Planned(t, db, survey.Within(previewQuery), survey.Values), "dlq_messages", c.indexes)
		})
	}
}

// TestRedrivePlans: the queries that run often for a redrive scan neither the messages nor the batches of other
// redrives.
func TestRedrivePlans(t *testing.T) {
	db := postgrestest.Many.Fresh(t)
	db.SetMaxOpenConns(1)
	seedRedrives(t, db)
	var id, message string
	check.NoError(t, db.Get(&id, `SELECT id FROM dlq.redrives WHERE state = 'running' LIMIT 1`))
	check.NoError(t, db.Get(&message, `SELECT message_ids[1] FROM dlq.redrive_batches LIMIT 1`))
	quote := func(text string) string { return "'" + text + "'" }
	id = quote(id)
	ids := quote("{" + message + "," + message + "}")
	postgrestest.WantPlans(t, db, []string{"redrives", "redrive_batches", "dlq_messages", "attempts", "returns", "share_records"}, []postgrestest.Plan{
		{"Lease", leaseQuery, []string{id, "NULL", id, "30000000", "'{}'"}, []string{"redrives_pkey", "redrive_batches_pkey"}},
		{"Renew", renewQuery, []string{id, "NULL", "30000000"}, []string{"idx_redrive_batches_held"}},
		{"Save", saveBatchQuery, []string{id, "3", id, "'{1}'", "'{1}'", "'{x}'", "'{0}'", "'{5}'", "'[]'"}, []string{"idx_redrive_batches_held"}},
		{"Look", redriveQuery, []string{id}, []string{"redrives_pkey", "idx_returns_redrive"}},
		{"FirstPageOfAnActor", redrivesOfActor, []string{"NULL", id, "'{}'", "20", "'alice'"}, []string{"idx_redrives_"}},
		{"FirstPage", redrivesOfAll, []string{"NULL", id, "'{}'", "20"}, []string{"idx_redrives_created_at"}},
		{"Items", redriveItemsQuery, []string{id, "50", "20", "'{}'", "''"}, []string{"redrive_batches_pkey", "idx_returns_redrive", "idx_share_records_position"}},
		{"FailedItems", redriveItemsQuery, []string{id, "0", "100", "'{2,3}'", "''"}, []string{"redrive_batches_pkey"}},
		{"ReturnedItems", redriveItemsQuery, []string{id, "0", "100", "'{}'", "'returned'"}, []string{"redrive_batches_pkey", "idx_returns_redrive"}},
		{"Outcomes", redriveOutcomesQuery, []string{id, "false"}, []string{"redrive_batches_pkey", "idx_share_records_position"}},
		{"Finish", moveRedriveQuery, []string{id, "NULL", "'a'", "NULL", "NULL", "NULL", "NULL", "'finished'", "''", "false", "'{running}'", "'finish'"}, []string{"redrives_pkey"}},
		{"Attempts", attemptsOfQuery, []string{id, ids}, []string{"attempts_pkey", "dlq_messages_pkey"}},
	})
}

// seedRedrives inserts 3,000 redrives with 6 batches each, most of them finished, and messages, attempts, returns and
// share records that belong to none of these redrives.
func seedRedrives(t *testing.T, db *sqlx.DB) {
	t.Helper()
	postgrestest.Exec(t, db, `INSERT INTO dlq.redrives (id, action, state, actor, selection, options, created_at, updated_at, selected,
			left_out, canary_passed, ordered)
		SELECT gen_random_uuid(), 'retry', CASE WHEN n % 50 = 0 THEN 'running' ELSE 'finished' END, 'alice', '{}', '{}',
			now() - n * interval '1 hour', now(), 120, '{}', true, false
		FROM generate_series(1, 3000) n`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.redrive_batches (redrive_id, batch_no, first_item, canary, message_ids, done, succeeded)
		SELECT r.id, b, b * 20, false, ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 20)), r.state = 'finished' OR b < 2,
			CASE WHEN r.state = 'finished' OR b < 2 THEN 20 ELSE 0 END
		FROM dlq.redrives r, generate_series(0, 5) b`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.attempts (message_id, attempt_no, attempt_id, retry_count, actor, started_at, ended_at,
			from_status, to_status, target_topic, redrive_id)
		SELECT id, 99, gen_random_uuid(), 1, 'alice', now(), now(), 'RETRYING', 'RESOLVED', 'topic1', gen_random_uuid()
		FROM dlq.dlq_messages WHERE status = 'RESOLVED'`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.returns (attempt_id, parent_id, child_id, redrive_id, by_content, returned_at)
		SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), false, now()
		FROM generate_series(1, 20000)`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.share_records (message_id, dlq_topic_id, share_group, topic, partition, position, digest)
		SELECT gen_random_uuid(), 1, 'g', 'topic1', 0, 7, sha256('x') FROM generate_series(1, 20000)`) // forged, at one position
	for _, table := range []string{"redrives", "redrive_batches", "attempts", "returns", "share_records"} {
		postgrestest.Exec(t, db, fmt.Sprintf(`ANALYZE dlq.%s`, table))
	}
}

func retryAll(topic string) repository.NewRedrive {
	return repository.NewRedrive{
		ID: uuid.New(), Action: entity.RedriveRetry, Selection: entity.Selection{Filter: entity.Filter{Topic: topic}},
		Cause: entity.By("alice"), BatchSize: 500,
	}
}
