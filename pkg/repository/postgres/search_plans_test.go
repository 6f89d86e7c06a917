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
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/codec"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/messages"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/search"
)

// TestSearchPlans: a page uses indexes and ends with its last message, however many come after it. Searches are
// always planned for their arguments.
func TestSearchPlans(t *testing.T) {
	db := freshDB(t)
	db.SetMaxOpenConns(1)
	seedSearch(t, db)
	store := New(db)
	patterns := func(list ...string) entity.TopicPatterns {
		p := check.Must(entity.ParseTopicPatterns("topics", list...))(t)
		return p
	}
	mine := patterns("topic1", "rare")
	deep := repository.Cursor{CreatedAt: time.Now().Add(-40_000 * time.Second), ID: uuid.New()}
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
			from := codec.SourceOf(c.q.Archived)
			n := check.Must(search.NewScopes(store.db).Resolve(t.Context(), c.q.Filter, from))(t)
			query, args := search.PageQuery(from, search.Listed(from, c.q, n, search.LeaveOut))
			plan := planned(t, db, query, args)
			wantWalks(t, plan, "dlq_messages", c.indexes)
			check.True(t, !strings.Contains(plan, "Bitmap Heap Scan on dlq_messages") || !strings.HasSuffix(name, "Deep"),
				"it collects what it should walk:\n%s", plan)
		})
	}

	t.Run("Words", func(t *testing.T) {
		q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"boom 777"}, Headers: []entity.HeaderMatch{{Name: "h"}}}, Limit: 50}
		from := codec.SourceOf(false)
		query, args := search.CandidatesQuery(from, q, search.Scope{}, time.Now().Add(-time.Hour))
		wantWalks(t, planned(t, db, query, args), "dlq_messages", []string{"idx_dlq_messages_created_at"})
		query, args = search.PageQuery(from, search.Listed(from, q, search.Scope{}, search.FindFirst))
		plan := planned(t, db, query, args)
		wantWalks(t, plan, "message_documents", []string{"_text_terms_idx", "dlq_messages_pkey"})
		wantWalks(t, plan, "dlq_messages", nil)
		day := search.Micros(time.Now().Add(-6*time.Hour)) / search.DayLength * search.DayLength
		query, args = search.RangeQuery(from, q, search.Scope{}, search.TimeRange{From: day, To: day + search.DayLength}, nil)
		plan = planned(t, db, query, args)
		wantWalks(t, plan, "message_documents", []string{"_text_terms_idx"})
		wantWalks(t, plan, "dlq_messages", nil)
		n := strings.Count(plan, "_text_terms_idx")
		check.True(t, n == 1, "it looks into %d partitions, want 1:\n%s", n, plan)
		export, args := search.ExportQuery(from, repository.ExportQuery{Filter: q.Filter, Limit: 100_000}, search.Scope{}, search.FindFirst)
		wantWalks(t, planned(t, db, export, args), "dlq_messages", []string{"_text_terms_idx", "dlq_messages_pkey"})
	})
	t.Run("ExportOfATopicStreams", func(t *testing.T) {
		q := repository.ExportQuery{Filter: entity.Filter{Topic: "orders.dlq"}, Limit: 1_000_000}
		n := check.Must(search.NewScopes(store.db).Resolve(t.Context(), q.Filter, codec.SourceOf(false)))(t)
		query, args := search.ExportQuery(codec.SourceOf(false), q, n, search.LeaveOut)
		plan := planned(t, db, "DECLARE c CURSOR FOR "+query, args)
		wantWalks(t, plan, "dlq_messages", []string{"idx_dlq_messages"})
		check.True(t, strings.Contains(plan, "Merge Append"), "it sorts what it should merge:\n%s", plan)
	})
	ids := fmt.Sprintf("'{%s,%s}'", uuid.New(), uuid.New())
	wantPlans(t, db, []string{"dlq_messages", "dlq_messages_archive"}, []plan{
		{"StoreDocuments", search.StoreDocumentsQuery, []string{ids, "'{a,b}'", "'{\"{}\",\"{}\"}'", "1", "NULL", "7200000000", "691200000000"}, nil},
		{"GroupDocuments", search.GroupDocumentsQuery, []string{ids, ids}, []string{"dlq_messages_pkey"}},
	})
	wantPlans(t, db, []string{"dlq_messages", "dlq_messages_archive", "message_documents"}, []plan{
		{"Uncatalogued", search.PendingQuery, []string{"1", "500", "1000000", "65536", "NULL"}, []string{
			"idx_dlq_messages_created_at", "idx_dlq_messages_archive_archived_at", "idx_dlq_messages_ungrouped", "message_documents_",
		}},
		{"Restore", messages.RestoreQuery, []string{"'" + uuid.NewString() + "'", "NULL", "'alice'", "NULL", "NULL", "NULL", "NULL"}, []string{"dlq_messages_archive_pkey"}},
	})
}

// seedSearch is seedMany with groups, retries, classes, an archive, and documents for all but the newest messages.
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

// TestSearchInPairs: walking pair by pair finds the messages of the filter's conditions.
func TestSearchInPairs(t *testing.T) {
	db := freshDB(t)
	db.SetMaxOpenConns(1)
	exec(t, db, `INSERT INTO dlq.topics (name) SELECT 'd' || n FROM generate_series(0, 3) n`)
	exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('a')`) // an original topic too
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, dlq_topic_id)
		SELECT o, 'x', (SELECT id FROM dlq.topics WHERE name = d)
		FROM unnest('{a,b,c,d1,""}'::text[]) o, unnest('{d0,d1,d2,a,none}'::text[]) d, generate_series(1, 2)
		WHERE (o, d) NOT IN (('b', 'd0'), ('', 'd2'))`)
	store := New(db)
	sets := []*entity.TopicPatterns{nil}
	for _, list := range [][]string{{"a"}, {"b", "d1"}, {"d*"}, {"*"}, {"nothing"}, {"c", "a"}} {
		p := check.Must(entity.ParseTopicPatterns("topics", list...))(t)
		sets = append(sets, &p)
	}
	asked := 0
	for _, topic := range []string{"", "a", "b", "d0", "d1", "gone"} {
		for _, topics := range sets {
			for _, visible := range sets {
				for _, unknown := range []bool{false, true} {
					f := entity.Filter{Topic: topic, Visible: visible, UnknownOrigin: unknown}
					if topics != nil {
						f.Topics = *topics
					}
					n := check.Must(search.NewScopes(store.db).Resolve(t.Context(), f, codec.SourceOf(false)))(t)
					if _, apart := (&search.Arguments{First: 1}).WalksOfPairs(f, n); apart {
						asked++
					}
					wantSame(t, db, f, n)
				}
			}
		}
	}
	check.True(t, asked >= 100, "%d of the filters are walked pair by pair, want most", asked)
}

// wantSame compares a list with the result of all conditions together.
func wantSame(t *testing.T, db *sqlx.DB, f entity.Filter, n search.Scope) {
	t.Helper()
	p := search.Listed(codec.SourceOf(false), repository.SearchQuery{Filter: f, Limit: 1000}, n, search.LeaveOut)
	a := &search.Arguments{First: 1}
	query := "SELECT m.id FROM dlq.dlq_messages m WHERE " + search.And(a.Named(f, n)...) + " ORDER BY m.created_at DESC, m.id DESC"
	var got, want []uuid.UUID
	check.NoError(t, db.Select(&got, "SELECT id FROM ("+p.Query+") listed", p.Values...))
	check.NoError(t, db.Select(&want, query, a.Values...))
	if !slices.Equal(got, want) {
		t.Errorf("topic %q, patterns %q, visible %v, unknown %v: got %d messages, want %d:\n%s",
			f.Topic, f.Topics.Texts(), f.Visible, f.UnknownOrigin, len(got), len(want), p.Query)
	}
}

// TestPairPlans: a few messages among many of the same dead-letter topic, or of unknown origin, are found by their
// rarest property.
func TestPairPlans(t *testing.T) {
	db := freshDB(t)
	db.SetMaxOpenConns(1)
	exec(t, db, `ALTER TABLE dlq.dlq_messages SET (autovacuum_enabled = off)`)
	exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('shared.dlq'), ('rare.dlq')`)
	const columns = `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, dlq_topic_id) `
	exec(t, db, columns+`SELECT CASE WHEN n % 2 = 0 THEN 'flood' ELSE '' END, 'boom', now() - n * interval '1 second', 1 FROM generate_series(1, 60000) n`)
	exec(t, db, columns+`SELECT 'calm', 'boom', now() - n * interval '1 day', 1 FROM generate_series(2, 100) n`)
	exec(t, db, columns+`SELECT '', 'boom', now() - n * interval '1 day', 2 FROM generate_series(2, 10) n`)
	exec(t, db, `VACUUM ANALYZE dlq.dlq_messages`)
	store := New(db)
	patterns := func(list ...string) entity.TopicPatterns {
		p := check.Must(entity.ParseTopicPatterns("topics", list...))(t)
		return p
	}
	calm, flood, rare := patterns("calm"), patterns("flood"), patterns("rare.dlq")
	for name, f := range map[string]entity.Filter{
		"VisibleOfADeadLetterTopic":       {Topic: "shared.dlq", Visible: &calm},
		"CommonVisibleOfADeadLetterTopic": {Topic: "shared.dlq", Visible: &flood},
		"PatternsOfADeadLetterTopic":      {Topic: "shared.dlq", Topics: calm},
		"VisibleOfUnknownOrigin":          {UnknownOrigin: true, Visible: &rare},
		"PatternsOfUnknownOrigin":         {UnknownOrigin: true, Topics: rare},
		"VisibleDeadLetterTopic":          {Visible: &rare},
	} {
		t.Run(name, func(t *testing.T) {
			q := repository.SearchQuery{Filter: f, Limit: 20}
			n := check.Must(search.NewScopes(store.db).Resolve(t.Context(), f, codec.SourceOf(false)))(t)
			query, args := search.PageQuery(codec.SourceOf(false), search.Listed(codec.SourceOf(false), q, n, search.LeaveOut))
			wantFewBuffers(t, db, search.Way(f, n), query, args)
		})
	}
}

func TestPairsAreTooMany(t *testing.T) {
	t.Parallel()
	n := search.Scope{Visible: &search.TopicSet{}, Pairs: map[int32][]string{}}
	for i := range int32(search.MaxWalks + 1) {
		n.Pairs[i+1] = []string{"", fmt.Sprint(i)}
		n.Visible.Numbers = append(n.Visible.Numbers, i+1)
	}
	a := &search.Arguments{First: 1}
	walks, apart := a.WalksOfPairs(entity.Filter{UnknownOrigin: true}, n)
	check.True(t, !apart && len(walks) <= 0 && len(a.Values) <= 0,
		"got %d walks with %d arguments, want none", len(walks), len(a.Values))
}

// TestListPlans: a page is read along an index that has only its messages, also where ten topics fail at once, so
// that every range of time has some of each and a scan of all messages looks cheap.
func TestListPlans(t *testing.T) {
	db := freshDB(t)
	db.SetMaxOpenConns(1) // plans and settings belong to one session
	exec(t, db, `INSERT INTO dlq.topics (name) SELECT 'topic' || n || '.dlq' FROM generate_series(0, 9) n`)
	exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, dlq_topic_id, value, headers)
		SELECT 'topic' || n % 10, 'boom ' || n, now() - (20000 - n) * interval '1 second', 1 + n % 10, '{"order": 1}', '\x00'
		FROM generate_series(1, 20000) n`)
	exec(t, db, `VACUUM ANALYZE dlq.dlq_messages`)
	for _, mode := range []string{"force_custom_plan", "force_generic_plan"} {
		for _, topic := range []string{"topic1", "topic1.dlq", "nobody"} {
			for name, plan := range map[string]string{
				"FirstPage": explain(t, db, mode, messages.FirstPageQuery(20), []string{"'" + topic + "'"}),
				"LaterPage": explain(t, db, mode, messages.ListQuery, []string{"'" + topic + "'", "40", "20", "65536", "16777216"}),
			} {
				wantWalks(t, plan, "dlq_messages", []string{"idx_dlq_messages_original_topic", "idx_dlq_messages_dlq_topic", "dlq_messages_pkey"})
				check.True(t, !strings.Contains(plan, "idx_dlq_messages_created_at"),
					"%s of %s, %s: it walks all messages:\n%s", name, topic, mode, plan)
			}
		}
	}
	for _, c := range []struct {
		q    repository.SearchQuery
		args []string
	}{
		{repository.SearchQuery{Limit: 51}, nil},
		{repository.SearchQuery{Limit: 51, After: repository.Cursor{CreatedAt: time.Now(), ID: uuid.New()}}, []string{"now()", "'" + uuid.NewString() + "'"}},
		{repository.SearchQuery{Limit: 51, Filter: entity.Filter{Topic: "topic1"}}, []string{"'topic1'"}},
	} {
		check.True(t, search.Plain(c.q, search.Scope{}), "%+v is not plain, want it", c.q)
		query, _ := search.PageQuery(codec.SourceOf(false), search.Listed(codec.SourceOf(false), c.q, search.Scope{}, search.LeaveOut))
		if c.args == nil {
			query += " OFFSET $1" // so that the query has a parameter
			c.args = []string{"0"}
		}
		plan := explain(t, db, "force_generic_plan", query, c.args)
		wantWalks(t, plan, "dlq_messages", []string{"Scan Backward using idx_dlq_messages", "dlq_messages_pkey"})
		if strings.Contains(plan, "Sort Key: m_1.created_at") || strings.Contains(plan, "Bitmap Heap Scan on dlq_messages") {
			t.Errorf("it sorts what it should walk:\n%s", plan)
		}
	}
}

// A query whose plan depends on its values is not plain.
func TestPlain(t *testing.T) {
	t.Parallel()
	var known search.Scope
	known.Number.Valid = true
	for name, is := range map[string]bool{
		"a status":            search.Plain(repository.SearchQuery{Filter: entity.Filter{Statuses: []entity.Status{entity.Dead}}}, search.Scope{}),
		"words":               search.Plain(repository.SearchQuery{Filter: entity.Filter{Words: []string{"x"}}}, search.Scope{}),
		"who may see it":      search.Plain(repository.SearchQuery{Filter: entity.Filter{Visible: &entity.TopicPatterns{}}}, search.Scope{}),
		"another order":       search.Plain(repository.SearchQuery{Sort: repository.Sort{By: repository.ByLastRetry}}, search.Scope{}),
		"a dead-letter topic": search.Plain(repository.SearchQuery{Filter: entity.Filter{Topic: "a"}}, known),
	} {
		check.True(t, !is, "%s: got plain, want it planned", name)
	}
}
