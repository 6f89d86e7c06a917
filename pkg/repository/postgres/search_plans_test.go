package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestSearchPlans: a page walks indexes and ends with its last message, however
// many are behind it. Searches are always planned for their arguments.
func TestSearchPlans(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	seedSearch(t, db)
	store := New(db)
	patterns := func(list ...string) entity.TopicPatterns {
		p, err := entity.ParseTopicPatterns("topics", list...)
		wantNil(t, err)
		return p
	}
	mine := patterns("topic1", "rare")
	deep := repository.Place{CreatedAt: time.Now().Add(-40_000 * time.Second), ID: uuid.New()}
	group := uuid.MustParse("00000000-0000-8000-8000-000000000007")
	byRetry := repository.Sort{By: repository.ByLastRetry}
	for name, c := range map[string]struct {
		q       repository.SearchQuery
		indexes []string
	}{
		"All":              {repository.SearchQuery{}, []string{"idx_dlq_messages_created_at"}},
		"AllDeep":          {repository.SearchQuery{After: deep}, []string{"idx_dlq_messages_created_at"}},
		"AllOldestFirst":   {repository.SearchQuery{Sort: repository.Sort{Ascending: true}}, []string{"idx_dlq_messages_created_at"}},
		"ByLastRetry":      {repository.SearchQuery{Sort: byRetry}, []string{"idx_dlq_messages_last_retry"}},
		"ByLastRetryDeep":  {repository.SearchQuery{Sort: byRetry, After: deep}, []string{"idx_dlq_messages_last_retry"}},
		"Topic":            {repository.SearchQuery{Filter: entity.Filter{Topic: "topic1"}}, []string{"idx_dlq_messages_original_topic"}},
		"TopicDeep":        {repository.SearchQuery{Filter: entity.Filter{Topic: "topic1"}, After: deep}, []string{"idx_dlq_messages_original_topic"}},
		"DeadLetterTopic":  {repository.SearchQuery{Filter: entity.Filter{Topic: "orders.dlq"}}, []string{"idx_dlq_messages_original_topic"}},
		"Patterns":         {repository.SearchQuery{Filter: entity.Filter{Topics: patterns("topic1*")}}, []string{"idx_dlq_messages_original_topic"}},
		"Visible":          {repository.SearchQuery{Filter: entity.Filter{Visible: &mine}}, []string{"idx_dlq_messages_original_topic"}},
		"Status":           {repository.SearchQuery{Filter: entity.Filter{Statuses: []entity.Status{entity.Dead}}}, []string{"idx_dlq_messages"}},
		"RareStatus":       {repository.SearchQuery{Filter: entity.Filter{Statuses: []entity.Status{entity.Retrying}}}, []string{"idx_dlq_messages_status"}},
		"TwoStatuses":      {repository.SearchQuery{Filter: entity.Filter{Statuses: []entity.Status{entity.Retrying, entity.Dead}}}, []string{"idx_dlq_messages_status"}},
		"TopicStatusDay":   {repository.SearchQuery{Filter: entity.Filter{Topic: "topic1", Statuses: []entity.Status{entity.Dead}, CreatedAfter: time.Now().Add(-2 * time.Hour), CreatedBefore: time.Now()}}, []string{"idx_dlq_messages"}},
		"Group":            {repository.SearchQuery{Filter: entity.Filter{Group: group}}, []string{"idx_dlq_messages_group"}},
		"UnknownOrigin":    {repository.SearchQuery{Filter: entity.Filter{UnknownOrigin: true}}, []string{"idx_dlq_messages"}},
		"Class":            {repository.SearchQuery{Filter: entity.Filter{ErrorClass: "class7"}}, []string{"idx_dlq_messages_created_at"}},
		"Archive":          {repository.SearchQuery{Archived: true}, []string{"dlq_messages_archive_created_at_idx"}},
		"ArchiveTopic":     {repository.SearchQuery{Archived: true, Filter: entity.Filter{Topic: "rare"}}, []string{"dlq_messages_archive_original_topic_idx"}},
		"ArchiveLastRetry": {repository.SearchQuery{Archived: true, Sort: byRetry}, []string{"idx_dlq_messages_archive_last_retry"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.q.Limit = 50
			from := sourceOf(c.q.Archived)
			n, err := store.namesOf(t.Context(), c.q.Filter, from)
			wantNil(t, err)
			query, args := pageQuery(from, listed(from, c.q, n, leaveOut))
			plan := planned(t, db, query, args)
			wantWalks(t, plan, "dlq_messages", c.indexes)
			if strings.Contains(plan, "Bitmap Heap Scan on dlq_messages") && strings.HasSuffix(name, "Deep") {
				t.Errorf("it collects what it should walk:\n%s", plan)
			}
		})
	}

	t.Run("Words", func(t *testing.T) {
		q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"boom 777"}, Headers: []entity.HeaderMatch{{Name: "h"}}}, Limit: 50}
		from := sourceOf(false)
		query, args := candidatesQuery(from, q, names{}, time.Now().Add(-time.Hour))
		wantWalks(t, planned(t, db, query, args), "dlq_messages", []string{"idx_dlq_messages_created_at"})
		query, args = pageQuery(from, listed(from, q, names{}, findFirst))
		plan := planned(t, db, query, args)
		wantWalks(t, plan, "message_documents", []string{"_text_terms_idx", "dlq_messages_pkey"})
		wantWalks(t, plan, "dlq_messages", nil)
		day := micros(time.Now().Add(-6*time.Hour)) / dayLength * dayLength
		query, args = rangeQuery(from, q, names{}, timeRange{day, day + dayLength})
		plan = planned(t, db, query, args)
		wantWalks(t, plan, "message_documents", []string{"_text_terms_idx"})
		wantWalks(t, plan, "dlq_messages", nil)
		if n := strings.Count(plan, "_text_terms_idx"); n != 1 {
			t.Errorf("it looks into %d partitions, want 1:\n%s", n, plan)
		}
		export, args := exportQuery(from, repository.ExportQuery{Filter: q.Filter, Limit: 100_000}, names{}, findFirst)
		wantWalks(t, planned(t, db, export, args), "dlq_messages", []string{"_text_terms_idx", "dlq_messages_pkey"})
	})
	t.Run("ExportOfATopicStreams", func(t *testing.T) {
		q := repository.ExportQuery{Filter: entity.Filter{Topic: "orders.dlq"}, Limit: 1_000_000}
		n, err := store.namesOf(t.Context(), q.Filter, sourceOf(false))
		wantNil(t, err)
		query, args := exportQuery(sourceOf(false), q, n, leaveOut)
		plan := planned(t, db, "DECLARE c CURSOR FOR "+query, args)
		wantWalks(t, plan, "dlq_messages", []string{"idx_dlq_messages"})
		if !strings.Contains(plan, "Merge Append") {
			t.Errorf("it sorts what it should merge:\n%s", plan)
		}
	})
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		t.Run("Uncatalogued/"+mode, func(t *testing.T) {
			plan := explain(t, db, mode, uncataloguedQuery, []string{"1", "500", "1000000", "65536", "NULL"})
			for _, table := range []string{"dlq_messages", "dlq_messages_archive", "message_documents"} {
				wantWalks(t, plan, table, nil)
			}
			wantWalks(t, plan, "dlq_messages", []string{
				"idx_dlq_messages_created_at", "idx_dlq_messages_archive_archived_at", "idx_dlq_messages_ungrouped", "message_documents_",
			})
		})
		t.Run("StoreDocuments/"+mode, func(t *testing.T) {
			ids := fmt.Sprintf("'{%s,%s}'", uuid.New(), uuid.New())
			plan := explain(t, db, mode, storeDocumentsQuery, []string{
				ids, "'{a,b}'", "'{\"{}\",\"{}\"}'", "1", "NULL", "7200000000", "691200000000",
			})
			plan += explain(t, db, mode, groupDocumentsQuery, []string{ids, ids})
			wantWalks(t, plan, "dlq_messages", []string{"dlq_messages_pkey"})
			wantWalks(t, plan, "dlq_messages_archive", nil)
		})
		t.Run("Restore/"+mode, func(t *testing.T) {
			plan := explain(t, db, mode, restoreQuery, []string{"'" + uuid.NewString() + "'", "NULL", "'alice'", "NULL", "NULL", "NULL", "NULL"})
			wantWalks(t, plan, "dlq_messages_archive", []string{"dlq_messages_archive_pkey"})
		})
	}
}

// seedSearch is seedMany with groups, retries, classes, an archive of topics, and
// documents for all but the newest.
func seedSearch(t *testing.T, db *sqlx.DB) {
	t.Helper()
	seedMany(t, db)
	exec(t, db, `UPDATE dlq.dlq_messages SET error_class = 'class' || abs(hashtext(id::text)) % 10,
		group_id = CASE WHEN abs(hashtext(id::text)) % 100 <> 99 THEN format('00000000-0000-8000-8000-%s', lpad((abs(hashtext(id::text)) % 100)::text, 12, '0'))::uuid END,
		last_retry_at = CASE WHEN status <> 'PENDING' THEN created_at + interval '1 hour' END`)
	exec(t, db, `UPDATE dlq.dlq_messages_archive SET original_topic = CASE WHEN abs(hashtext(id::text)) % 2000 = 0 THEN 'rare' ELSE 'orders' END,
		created_at = archived_at, last_retry_at = archived_at`)
	storeDocuments(t, db, `error_message`, `ARRAY[hashtextextended(id::text, 0), $1]`,
		`dlq.dlq_messages m WHERE created_at < now() - interval '1 hour'`, entity.HeaderTerm("h", nil))
	exec(t, db, `UPDATE dlq.search_index SET version = 1, mark = now() - interval '1 hour', archive_mark = now(), walked_at = now() - interval '1 hour', archive_walked = now()`)
	exec(t, db, `VACUUM ANALYZE dlq.dlq_messages`)
	exec(t, db, `VACUUM ANALYZE dlq.dlq_messages_archive`)
	exec(t, db, `VACUUM ANALYZE dlq.message_documents`)
	exec(t, db, `ANALYZE dlq.search_index`)
}
