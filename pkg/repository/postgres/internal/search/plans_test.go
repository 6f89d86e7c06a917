package search

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
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/internal/conn"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres/postgrestest"
)

// TestSearchPlans: the queries of pages and exports read messages through the expected indexes, and do not scan the
// table. The test plans them for their arguments. TestPlainPlans tests the queries that have one plan for all
// arguments.
func TestSearchPlans(t *testing.T) {
	db := searchable.Fresh(t)
	db.SetMaxOpenConns(1)
	pool := conn.New(db, nil)
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
			n := check.Must(NewScopes(pool).Resolve(t.Context(), c.q.Filter, from))(t)
			query, args := PageQuery(from, Listed(from, c.q, n, LeaveOut))
			plan := postgrestest.Planned(t, db, query, args)
			postgrestest.WantWalks(t, plan, "dlq_messages", c.indexes)
			check.True(t, !strings.Contains(plan, "Bitmap Heap Scan on dlq_messages") || !strings.HasSuffix(name, "Deep"),
				"it collects what it should walk:\n%s", plan)
		})
	}

	t.Run("Words", func(t *testing.T) {
		q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"boom 777"}, Headers: []entity.HeaderMatch{{Name: "h"}}}, Limit: 50}
		from := codec.SourceOf(false)
		query, args := candidatesQuery(from, q, Scope{}, time.Now().Add(-time.Hour))
		postgrestest.WantWalks(t, postgrestest.Planned(t, db, query, args), "dlq_messages", []string{"idx_dlq_messages_created_at"})
		query, args = PageQuery(from, Listed(from, q, Scope{}, findFirst))
		plan := postgrestest.Planned(t, db, query, args)
		postgrestest.WantWalks(t, plan, "message_documents", []string{"_text_terms_idx", "dlq_messages_pkey"})
		postgrestest.WantWalks(t, plan, "dlq_messages", nil)
		day := micros2000(time.Now().Add(-6*time.Hour)) / dayLength * dayLength
		query, args = rangeQuery(from, q, Scope{}, timeRange{From: day, To: day + dayLength}, nil)
		plan = postgrestest.Planned(t, db, query, args)
		postgrestest.WantWalks(t, plan, "message_documents", []string{"_text_terms_idx"})
		postgrestest.WantWalks(t, plan, "dlq_messages", nil)
		n := strings.Count(plan, "_text_terms_idx")
		check.True(t, n == 1, "it looks into %d partitions, want 1:\n%s", n, plan)
		export, args := exportQuery(from, repository.ExportQuery{Filter: q.Filter, Limit: 100_000}, Scope{}, findFirst)
		postgrestest.WantWalks(t, postgrestest.Planned(t, db, export, args), "dlq_messages", []string{"_text_terms_idx", "dlq_messages_pkey"})
	})
	t.Run("ExportOfATopicStreams", func(t *testing.T) {
		q := repository.ExportQuery{Filter: entity.Filter{Topic: "orders.dlq"}, Limit: 1_000_000}
		n := check.Must(NewScopes(pool).Resolve(t.Context(), q.Filter, codec.SourceOf(false)))(t)
		query, args := exportQuery(codec.SourceOf(false), q, n, LeaveOut)
		plan := postgrestest.Planned(t, db, "DECLARE c CURSOR FOR "+query, args)
		postgrestest.WantWalks(t, plan, "dlq_messages", []string{"idx_dlq_messages"})
		check.True(t, strings.Contains(plan, "Merge Append"), "it sorts what it should merge:\n%s", plan)
	})
	ids := fmt.Sprintf("'{%s,%s}'", uuid.New(), uuid.New())
	postgrestest.WantPlans(t, db, []string{"dlq_messages", "dlq_messages_archive"}, []postgrestest.Plan{
		{"StoreDocuments", storeDocumentsQuery, []string{ids, "'{a,b}'", "'{\"{}\",\"{}\"}'", "1", "NULL", "86400000000", "7200000000", "691200000000", "'{NULL,NULL}'", ids}, nil},
		{"GroupDocuments", groupDocumentsQuery, []string{ids, ids}, []string{"dlq_messages_pkey"}},
	})
	postgrestest.WantPlans(t, db, []string{"dlq_messages", "dlq_messages_archive", "message_documents"}, []postgrestest.Plan{
		{"Unindexed", pendingQuery, []string{"1", "500", "1000000", "65536", "NULL"}, []string{
			"idx_dlq_messages_created_at", "idx_dlq_messages_archive_archived_at", "idx_dlq_messages_ungrouped", "message_documents_",
		}},
	})
}

// searchable makes databases with the rows of seedSearch.
var searchable = &postgrestest.Filled{Name: "search", Fill: seedSearch}

// seedSearch inserts the messages of SeedMany, gives them error groups, retries and error classes, spreads the archived
// ones over topics and times, and adds documents for all but the newest live messages.
func seedSearch(t testing.TB, db *sqlx.DB) {
	t.Helper()
	postgrestest.SeedMany(t, db)
	postgrestest.Exec(t, db, `UPDATE dlq.dlq_messages SET error_class = 'class' || abs(hashtext(id::text)) % 10,
		group_id = CASE WHEN abs(hashtext(id::text)) % 100 <> 99 THEN format('00000000-0000-8000-8000-%s', lpad((abs(hashtext(id::text)) % 100)::text, 12, '0'))::uuid END,
		last_retry_at = CASE WHEN status <> 'PENDING' THEN created_at + interval '1 hour' END`)
	postgrestest.Exec(t, db, `UPDATE dlq.dlq_messages_archive SET original_topic = CASE WHEN abs(hashtext(id::text)) % 2000 = 0 THEN 'rare' ELSE 'orders' END,
		created_at = archived_at, last_retry_at = archived_at`)
	postgrestest.StoreDocuments(t, db, `error_message`, `ARRAY[hashtextextended(id::text, 0), $1]`,
		`dlq.dlq_messages m WHERE created_at < now() - interval '1 hour'`, entity.HeaderTerm("h", nil))
	postgrestest.Exec(t, db, `UPDATE dlq.search_index SET version = 1, mark = now() - interval '1 hour', archive_mark = now(), walked_at = now() - interval '1 hour', archive_walked = now()`)
	postgrestest.Exec(t, db, `VACUUM ANALYZE dlq.dlq_messages`)
	postgrestest.Exec(t, db, `VACUUM ANALYZE dlq.dlq_messages_archive`)
	postgrestest.Exec(t, db, `VACUUM ANALYZE dlq.message_documents`)
	postgrestest.Exec(t, db, `ANALYZE dlq.search_index`)
}

// TestSearchInPairs: a search may read one pair of original and dead-letter topic after the other. It then finds the
// same messages as one query with all conditions of the filter.
func TestSearchInPairs(t *testing.T) {
	db := postgrestest.Fresh(t)
	db.SetMaxOpenConns(1)
	postgrestest.Exec(t, db, `INSERT INTO dlq.topics (name) SELECT 'd' || n FROM generate_series(0, 3) n`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('a')`) // a is both an original topic and a dead-letter topic
	postgrestest.Exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, dlq_topic_id)
		SELECT o, 'x', (SELECT id FROM dlq.topics WHERE name = d)
		FROM unnest('{a,b,c,d1,""}'::text[]) o, unnest('{d0,d1,d2,a,none}'::text[]) d, generate_series(1, 2)
		WHERE (o, d) NOT IN (('b', 'd0'), ('', 'd2'))`)
	pool := conn.New(db, nil)
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
					n := check.Must(NewScopes(pool).Resolve(t.Context(), f, codec.SourceOf(false)))(t)
					if _, apart := (&Arguments{First: 1}).WalksOfPairs(f, n); apart {
						asked++
					}
					wantSame(t, db, f, n)
				}
			}
		}
	}
	check.True(t, asked >= 100, "%d of the filters are walked pair by pair, want most", asked)
}

// wantSame compares the messages of the query that Listed returns with the messages of one plain query with all
// conditions on topics.
func wantSame(t *testing.T, db *sqlx.DB, f entity.Filter, n Scope) {
	t.Helper()
	p := Listed(codec.SourceOf(false), repository.SearchQuery{Filter: f, Limit: 1000}, n, LeaveOut)
	a := &Arguments{First: 1}
	query := "SELECT m.id FROM dlq.dlq_messages m WHERE " + And(a.Named(f, n)...) + " ORDER BY m.created_at DESC, m.id DESC"
	var got, want []uuid.UUID
	check.NoError(t, db.Select(&got, "SELECT id FROM ("+p.Query+") listed", p.Values...))
	check.NoError(t, db.Select(&want, query, a.Values...))
	if !slices.Equal(got, want) {
		t.Errorf("topic %q, patterns %q, visible %v, unknown %v: got %d messages, want %d:\n%s",
			f.Topic, f.Topics.Texts(), f.Visible, f.UnknownOrigin, len(got), len(want), p.Query)
	}
}

// TestPairPlans: a page reads few buffers, even when only a few of the many messages of a dead-letter topic, or of
// unknown origin, match its filter.
func TestPairPlans(t *testing.T) {
	db := postgrestest.Fresh(t)
	db.SetMaxOpenConns(1)
	postgrestest.Exec(t, db, `ALTER TABLE dlq.dlq_messages SET (autovacuum_enabled = off)`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('shared.dlq'), ('rare.dlq')`)
	const columns = `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, dlq_topic_id) `
	postgrestest.Exec(t, db, columns+`SELECT CASE WHEN n % 2 = 0 THEN 'flood' ELSE '' END, 'boom', now() - n * interval '1 second', 1 FROM generate_series(1, 60000) n`)
	postgrestest.Exec(t, db, columns+`SELECT 'calm', 'boom', now() - n * interval '1 day', 1 FROM generate_series(2, 100) n`)
	postgrestest.Exec(t, db, columns+`SELECT '', 'boom', now() - n * interval '1 day', 2 FROM generate_series(2, 10) n`)
	postgrestest.Exec(t, db, `VACUUM ANALYZE dlq.dlq_messages`)
	pool := conn.New(db, nil)
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
			n := check.Must(NewScopes(pool).Resolve(t.Context(), f, codec.SourceOf(false)))(t)
			query, args := PageQuery(codec.SourceOf(false), Listed(codec.SourceOf(false), q, n, LeaveOut))
			wantFewBuffers(t, db, way(f, n), query, args)
		})
	}
}

func TestPairsAreTooMany(t *testing.T) {
	t.Parallel()
	n := Scope{Visible: &topicSet{}, Pairs: map[int32][]string{}}
	for i := range int32(maxWalks + 1) {
		n.Pairs[i+1] = []string{"", fmt.Sprint(i)}
		n.Visible.Numbers = append(n.Visible.Numbers, i+1)
	}
	a := &Arguments{First: 1}
	walks, apart := a.WalksOfPairs(entity.Filter{UnknownOrigin: true}, n)
	check.True(t, !apart && len(walks) <= 0 && len(a.Values) <= 0,
		"got %d walks with %d arguments, want none", len(walks), len(a.Values))
}

// plain returns false for queries whose best plan depends on their arguments.
func TestPlain(t *testing.T) {
	t.Parallel()
	var known Scope
	known.Number.Valid = true
	for name, is := range map[string]bool{
		"a status":            plain(repository.SearchQuery{Filter: entity.Filter{Statuses: []entity.Status{entity.Dead}}}, Scope{}),
		"words":               plain(repository.SearchQuery{Filter: entity.Filter{Words: []string{"x"}}}, Scope{}),
		"who may see it":      plain(repository.SearchQuery{Filter: entity.Filter{Visible: &entity.TopicPatterns{}}}, Scope{}),
		"another order":       plain(repository.SearchQuery{Sort: repository.Sort{By: repository.ByLastRetry}}, Scope{}),
		"a dead-letter topic": plain(repository.SearchQuery{Filter: entity.Filter{Topic: "a"}}, known),
	} {
		check.True(t, !is, "%s: got plain, want it planned", name)
	}
}

// TestPlainPlans: a plain page (see plain) is read along an index with one plan for all arguments. This is also true
// when ten topics receive messages at the same time: then every time range contains messages of each topic, and
// PostgreSQL could expect a scan of all messages to be cheap.
func TestPlainPlans(t *testing.T) {
	db := postgrestest.Fresh(t)
	db.SetMaxOpenConns(1) // one session for all statements, because plans and settings belong to a session
	postgrestest.Exec(t, db, `INSERT INTO dlq.topics (name) SELECT 'topic' || n || '.dlq' FROM generate_series(0, 9) n`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at, dlq_topic_id, value, headers)
		SELECT 'topic' || n % 10, 'boom ' || n, now() - (20000 - n) * interval '1 second', 1 + n % 10, '{"order": 1}', '\x00'
		FROM generate_series(1, 20000) n`)
	postgrestest.Exec(t, db, `VACUUM ANALYZE dlq.dlq_messages`)
	for _, c := range []struct {
		q    repository.SearchQuery
		args []string
	}{
		{repository.SearchQuery{Limit: 51}, nil},
		{repository.SearchQuery{Limit: 51, After: repository.Cursor{CreatedAt: time.Now(), ID: uuid.New()}}, []string{"now()", "'" + uuid.NewString() + "'"}},
		{repository.SearchQuery{Limit: 51, Filter: entity.Filter{Topic: "topic1"}}, []string{"'topic1'"}},
	} {
		check.True(t, plain(c.q, Scope{}), "%+v is not plain, want it", c.q)
		query, _ := PageQuery(codec.SourceOf(false), Listed(codec.SourceOf(false), c.q, Scope{}, LeaveOut))
		if c.args == nil {
			query += " OFFSET $1" // the helper Explain needs a query with a parameter
			c.args = []string{"0"}
		}
		plan := postgrestest.Explain(t, db, "force_generic_plan", query, c.args)
		postgrestest.WantWalks(t, plan, "dlq_messages", []string{"Scan Backward using idx_dlq_messages", "dlq_messages_pkey"})
		if strings.Contains(plan, "Sort Key: m_1.created_at") || strings.Contains(plan, "Bitmap Heap Scan on dlq_messages") {
			t.Errorf("it sorts what it should walk:\n%s", plan)
		}
	}
}

// TestNewDayIsSearchedByItsWords: a search in a new day reads the index of words, or for one hour of it the primary key,
// although PostgreSQL has not analyzed the partition yet.
func TestNewDayIsSearchedByItsWords(t *testing.T) {
	t.Parallel()
	db := postgrestest.Open(t)
	db.SetMaxOpenConns(1)
	postgrestest.Exec(t, db, `SELECT dlq.create_document_partitions(ARRAY['2026-01-02 12:00Z'::timestamptz])`)
	postgrestest.Exec(t, db, `ALTER TABLE dlq.message_documents_20260102 SET (autovacuum_enabled = off)`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message, created_at)
		SELECT 'orders', repeat(md5(n::text), 20), '2026-01-02 12:00Z'::timestamptz + n * interval '1 second' FROM generate_series(1, 5000) n`)
	postgrestest.StoreDocuments(t, db, `error_message`, `'{}'`, `dlq.dlq_messages m`)
	postgrestest.Exec(t, db, `SET enable_seqscan = off`)
	q := repository.SearchQuery{Filter: entity.Filter{Words: []string{"nowhere"}}, Limit: 20}
	noon := micros2000(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
	today := noon / dayLength * dayLength
	for index, plan := range map[string]func() (string, []any){
		"20260102_text_terms_idx": func() (string, []any) {
			return rangeQuery(codec.SourceOf(false), q, Scope{}, timeRange{From: today, To: noon + dayLength/3}, []day{{Table: "dlq.message_documents_20260102"}})
		},
		"20260102_pkey": func() (string, []any) {
			return rangeQuery(codec.SourceOf(false), q, Scope{}, timeRange{From: noon, To: noon + dayLength/24}, nil)
		},
	} {
		query, args := plan()
		if got := postgrestest.Planned(t, db, query, args); !strings.Contains(got, "on message_documents_"+index) && !strings.Contains(got, "using message_documents_"+index) ||
			strings.Count(got, " message_documents_20260102_") != 1 {
			t.Errorf("got this plan, want %s alone:\n%s", index, got)
		}
	}
}

// A count reads the visible messages through the index of topics. How many rows it reads depends neither on the matches
// in other topics nor on PostgreSQL's statistics.
func TestCountReadsVisibleTopicsOnly(t *testing.T) {
	db := searchable.Fresh(t)
	db.SetMaxOpenConns(1)
	pool := conn.New(db, nil)
	day := time.Now().Add(-24 * time.Hour)
	for name, f := range map[string]entity.Filter{
		"Class":  {ErrorClass: "class7"},
		"Group":  {Group: uuid.MustParse("00000000-0000-8000-8000-000000000007")},
		"Status": {Statuses: []entity.Status{entity.Retrying}, CreatedAfter: day},
		"Times":  {CreatedAfter: day, CreatedBefore: time.Now()},
		"Retry":  {RetriedAfter: day},
		"Topic":  {Topic: "orders.dlq", ErrorClass: "class7"},
		"Words":  {Words: []string{"boom 777"}},
		"Terms":  {Headers: []entity.HeaderMatch{{Name: "h"}}},
	} {
		visible := check.Must(entity.ParseTopicPatterns("topics", "rare"))(t)
		f.Visible = &visible
		for _, archived := range []bool{false, true} {
			from := codec.SourceOf(archived)
			n := check.Must(NewScopes(pool).Resolve(t.Context(), f, from))(t)
			query, args := visibleQuery(f, n, from)
			tx := check.Must(db.Beginx())(t)
			check.NoError(t, check.Err(tx.Exec(walkedByIndex)))
			lines := postgrestest.All[string](t, tx, "EXPLAIN (COSTS OFF) "+query, args...)
			check.NoError(t, tx.Rollback())
			plan := strings.Join(lines, "\n")
			for _, line := range lines {
				scan, of, _ := strings.Cut(strings.TrimLeft(line, " ->"), " on ")
				messages := strings.Contains(of, "dlq_messages") || strings.Contains(of, "archive")
				if messages && !strings.Contains(scan, "original_topic") || strings.Contains(of, "documents") && !strings.HasSuffix(scan, "_pkey") {
					t.Errorf("%s, archived %t: %s in\n%s", name, archived, line, plan)
				}
			}
			check.True(t, strings.Contains(plan, "original_topic"),
				"%s, archived %t: nothing is read by topic:\n%s", name, archived, plan)
		}
	}
}

// TestExportWithAnIncompleteIndex: some messages have no document yet. An export must not test the documents of all
// messages one by one because of them.
func TestExportWithAnIncompleteIndex(t *testing.T) {
	db := postgrestest.Fresh(t)
	postgrestest.SeedBehind(t, db)
	postgrestest.Exec(t, db, `INSERT INTO dlq.dlq_messages (original_topic, error_message) SELECT 'orders', 'new' FROM generate_series(1, $1)`, exportSample)
	tx := postgrestest.Begin(t, db)
	q := repository.ExportQuery{Filter: entity.Filter{Words: []string{"boom"}}, Limit: 1000}
	how := check.Must(howToExport(t.Context(), tx, codec.SourceOf(false), q, Scope{}))(t)
	check.Same(t, how, findFirst, "want that documents are found first")
}
