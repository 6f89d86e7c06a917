package postgres

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestListPlans: a page is walked along an index that has its messages and no
// others, also where ten topics fail at once, so that every stretch of time has some
// of each and a walk of all messages looks short.
func TestListPlans(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1) // plans and settings belong to one session
	exec(t, db, `INSERT INTO dlq.topics (name) SELECT 'topic' || n || '.dlq' FROM generate_series(0, 9) n`)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, dlq_topic_id, value, headers)
		SELECT 'topic' || n % 10, 'boom ' || n, now() - (20000 - n) * interval '1 second', 1 + n % 10, '{"order": 1}', '\x00'
		FROM generate_series(1, 20000) n`)
	exec(t, db, `VACUUM ANALYZE dlq.dlq_messages`)
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		for _, topic := range []string{"topic1", "topic1.dlq", "nobody"} {
			for name, plan := range map[string]string{
				"FirstPage": explain(t, db, mode, firstPageQuery(20), []string{"'" + topic + "'"}),
				"LaterPage": explain(t, db, mode, listQuery, []string{"'" + topic + "'", "40", "20", "65536", "16777216"}),
			} {
				wantWalks(t, plan, "dlq_messages", []string{"idx_dlq_messages_original_topic", "idx_dlq_messages_dlq_topic", "dlq_messages_pkey"})
				if strings.Contains(plan, "idx_dlq_messages_created_at") {
					t.Errorf("%s of %s, %s: it walks all messages:\n%s", name, topic, mode, plan)
				}
			}
		}
	}
	for _, c := range []struct {
		q    repository.SearchQuery
		args []string
	}{
		{repository.SearchQuery{Limit: 51}, nil},
		{repository.SearchQuery{Limit: 51, After: repository.Place{CreatedAt: time.Now(), ID: uuid.New()}}, []string{"now()", "'" + uuid.NewString() + "'"}},
		{repository.SearchQuery{Limit: 51, Filter: entity.Filter{Topic: "topic1"}}, []string{"'topic1'"}},
	} {
		if !plain(c.q, names{}) {
			t.Errorf("%+v is not plain, want it", c.q)
		}
		query, _ := pageQuery(sourceOf(false), listed(sourceOf(false), c.q, names{}, leaveOut))
		if c.args == nil {
			query += " OFFSET $1" // to have something to plan without
			c.args = []string{"0"}
		}
		plan := explain(t, db, "force_generic_plan", query, c.args)
		wantWalks(t, plan, "dlq_messages", []string{"Scan Backward using idx_dlq_messages", "dlq_messages_pkey"})
		if strings.Contains(plan, "Sort Key: m_1.created_at") || strings.Contains(plan, "Bitmap Heap Scan on dlq_messages") {
			t.Errorf("it sorts what it should walk:\n%s", plan)
		}
	}
}

// What a plan has to know the values of is not plain.
func TestPlain(t *testing.T) {
	t.Parallel()
	var known names
	known.number.Valid = true
	for name, is := range map[string]bool{
		"a status":            plain(repository.SearchQuery{Filter: entity.Filter{Statuses: []entity.Status{entity.Dead}}}, names{}),
		"words":               plain(repository.SearchQuery{Filter: entity.Filter{Words: []string{"x"}}}, names{}),
		"who may see it":      plain(repository.SearchQuery{Filter: entity.Filter{Visible: &entity.TopicPatterns{}}}, names{}),
		"another order":       plain(repository.SearchQuery{Sort: repository.Sort{By: repository.ByLastRetry}}, names{}),
		"a dead-letter topic": plain(repository.SearchQuery{Filter: entity.Filter{Topic: "a"}}, known),
	} {
		if is {
			t.Errorf("%s: got plain, want it planned", name)
		}
	}
}
