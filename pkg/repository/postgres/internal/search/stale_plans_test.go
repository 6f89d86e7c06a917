package search

import (
	"database/sql"
	"encoding/json"
	"fmt"
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

// fewBuffers is the maximum number of buffers that PostgreSQL may read for a page of 20 messages. They include the
// buffers for checking that some hundred newer messages have no documents.
const fewBuffers = 1500

// TestStalePlans: a page reads few buffers although PostgreSQL analyzed the table before a topic was flooded.
func TestStalePlans(t *testing.T) {
	db := postgrestest.Fresh(t)
	db.SetMaxOpenConns(1)
	seedStale(t, db)
	pool := conn.New(db, nil)
	patterns := func(list ...string) entity.TopicPatterns {
		p := check.Must(entity.ParseTopicPatterns("topics", list...))(t)
		return p
	}
	var many []string
	for n := range 30 {
		many = append(many, fmt.Sprintf("calm%d", n))
	}
	one, more := patterns("flood", "calm1"), patterns(append(many, "flood")...)
	pending, dead, open := []entity.Status{entity.Pending}, []entity.Status{entity.Dead}, []entity.Status{entity.Pending, entity.Retrying}
	hour := time.Now().Add(-time.Hour)
	group := uuid.MustParse("00000000-0000-8000-8000-000000000001")
	var place repository.Cursor
	check.NoError(t, db.QueryRow(`SELECT created_at, id FROM dlq.dlq_messages WHERE original_topic = 'flood' ORDER BY 1 OFFSET 50000 LIMIT 1`).Scan(&place.CreatedAt, &place.ID))

	cases := map[string]repository.SearchQuery{
		"TopicAndStatus":         {Filter: entity.Filter{Topic: "flood", Statuses: pending}},
		"TopicAndStatusDeep":     {Filter: entity.Filter{Topic: "flood", Statuses: pending}, After: place},
		"Topic":                  {Filter: entity.Filter{Topic: "flood"}},
		"TopicAndTimes":          {Filter: entity.Filter{Topic: "flood", CreatedAfter: hour}},
		"TopicAndStatusAndTimes": {Filter: entity.Filter{Topic: "flood", Statuses: pending, CreatedAfter: hour}},
		"CalmTopicAndTimes":      {Filter: entity.Filter{Topic: "calm1", Statuses: dead, CreatedAfter: hour.Add(-24 * time.Hour)}},
		"TopicAndGroup":          {Filter: entity.Filter{Topic: "flood", Group: group}},
		"TopicAndClass":          {Filter: entity.Filter{Topic: "flood", ErrorClass: "class1"}},
		"Group":                  {Filter: entity.Filter{Group: group}},
		"GroupAndStatus":         {Filter: entity.Filter{Group: group, Statuses: pending}},
		"Status":                 {Filter: entity.Filter{Statuses: pending}},
		"Statuses":               {Filter: entity.Filter{Statuses: open}},
		"StatusAndTimes":         {Filter: entity.Filter{Statuses: pending, CreatedAfter: hour}},
		"Times":                  {Filter: entity.Filter{CreatedAfter: hour}},
		"DeadLetterTopic":        {Filter: entity.Filter{Topic: "flood.dlq", Statuses: pending}},
		"DeadLetterTopicOnly":    {Filter: entity.Filter{Topic: "flood.dlq"}},
		"Visible":                {Filter: entity.Filter{Visible: &one}},
		"VisibleAndStatus":       {Filter: entity.Filter{Visible: &one, Statuses: pending}},
		"Patterns":               {Filter: entity.Filter{Topics: patterns("flo*")}},
		"PatternsAndStatus":      {Filter: entity.Filter{Topics: patterns("flo*"), Statuses: pending}},
		"ManyVisible":            {Filter: entity.Filter{Visible: &more}},
		"ManyVisibleAndStatus":   {Filter: entity.Filter{Visible: &more, Statuses: pending}},
		"ManyPatterns":           {Filter: entity.Filter{Topics: more, Statuses: pending}},
		"RareStatus":             {Filter: entity.Filter{Statuses: []entity.Status{entity.Retrying}}},
		"RareStatusOfTopic":      {Filter: entity.Filter{Topic: "flood", Statuses: []entity.Status{entity.Retrying}}},
		"RareStatusOfCalmTopic":  {Filter: entity.Filter{Topic: "calm1", Statuses: []entity.Status{entity.Retrying}}},
	}
	bothWays := func(t *testing.T) {
		for name, q := range cases {
			t.Run(name, func(t *testing.T) {
				q.Limit = 20
				from := codec.SourceOf(false)
				n := check.Must(NewScopes(pool).Resolve(t.Context(), q.Filter, from))(t)
				query, args := PageQuery(from, Listed(from, q, n, LeaveOut))
				wantFewBuffers(t, db, way(q.Filter, n), query, args)
			})
		}
	}
	t.Run("Stale", bothWays)
	for name, f := range map[string]entity.Filter{
		"Words": {Words: []string{"boom"}}, "WordsOfTopic": {Words: []string{"boom"}, Topic: "calm1"},
		"WordsOfStatus": {Words: []string{"boom"}, Statuses: dead}, // the flooded topic has no DEAD messages
	} {
		t.Run(name, func(t *testing.T) {
			q := repository.SearchQuery{Filter: f, Limit: 20}
			until := postgrestest.Get[time.Time](t, db, `SELECT found_until FROM dlq.search_index`)
			query, args := candidatesQuery(codec.SourceOf(false), q, Scope{}, until)
			wantFewBuffers(t, db, walkedInOrder, query, args)
		})
	}
	postgrestest.Exec(t, db, `ANALYZE dlq.dlq_messages`)
	t.Run("Fresh", bothWays)
}

// wantFewBuffers checks how many buffers a query reads, whether they are cached or not.
func wantFewBuffers(t *testing.T, db *sqlx.DB, setting, query string, args []any) {
	t.Helper()
	tx := postgrestest.Begin(t, db)
	check.NoError(t, check.Err(tx.Exec(setting)))
	var plan []byte
	check.NoError(t, tx.Get(&plan, `EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) `+query, args...))
	var plans []struct {
		Plan struct {
			Hit  int `json:"Shared Hit Blocks"`
			Read int `json:"Shared Read Blocks"`
		}
	}
	check.NoError(t, json.Unmarshal(plan, &plans))
	got := plans[0].Plan.Hit + plans[0].Plan.Read
	check.True(t, got <= fewBuffers, "it reads %d buffers, want at most %d:\n%s", got, fewBuffers, plan)
}

// seedStale inserts 100,000 messages of a topic that had 50 messages when PostgreSQL analyzed the table.
func seedStale(t *testing.T, db *sqlx.DB) {
	t.Helper()
	postgrestest.Exec(t, db, `ALTER TABLE dlq.dlq_messages SET (autovacuum_enabled = off)`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.topics (name) SELECT 'calm' || n || '.dlq' FROM generate_series(0, 39) n`)
	postgrestest.Exec(t, db, `INSERT INTO dlq.topics (name) VALUES ('flood.dlq')`)
	const columns = `INSERT INTO dlq.dlq_messages (original_topic, error_message, error_class, status, created_at, dlq_topic_id, group_id, value, headers) `
	const flood = `SELECT 'flood', 'boom', 'class' || n % 10, CASE WHEN n % 10000 = 7 THEN 'RETRYING' ELSE 'PENDING' END, clock_timestamp(), 41,
		format('00000000-0000-8000-8000-%s', lpad((n % 5)::text, 12, '0'))::uuid, '{"order": 1}', '\x00' FROM generate_series(1, `
	postgrestest.Exec(t, db, columns+`SELECT 'calm' || n % 40, 'boom ' || n, 'class' || n % 10, CASE WHEN n % 3 = 0 THEN 'DEAD' ELSE 'RESOLVED' END,
		now() - n * interval '30 seconds', 1 + n % 40, format('00000000-0000-8000-8000-%s', lpad((100 + n % 50)::text, 12, '0'))::uuid, '{"order": 1}', '\x00'
		FROM generate_series(1, 40000) n`)
	postgrestest.StoreDocuments(t, db, `error_message`, `'{}'`, `dlq.dlq_messages m`)
	postgrestest.Exec(t, db, `UPDATE dlq.search_index SET version = 1, mark = now(), walked_at = now(), found_until = now()`)
	postgrestest.Exec(t, db, columns+flood+`50) n`)
	postgrestest.Exec(t, db, `VACUUM ANALYZE dlq.dlq_messages, dlq.message_documents`)
	postgrestest.Exec(t, db, columns+flood+`100000) n`)
}

// way returns foundTogether for those filters whose matching messages are in no index in the order of the page.
func TestWay(t *testing.T) {
	t.Parallel()
	few, many := &topicSet{Originals: []string{"a"}}, &topicSet{}
	for n := range maxWalks + 1 {
		many.Originals = append(many.Originals, fmt.Sprint(n))
	}
	pairs, number := map[int32][]string{}, sql.NullInt32{Int32: 1, Valid: true}
	patterns := check.Must(entity.ParseTopicPatterns("topics", "a*"))(t)
	for name, c := range map[string]struct {
		f    entity.Filter
		n    Scope
		want string
	}{
		"all":                             {entity.Filter{}, Scope{}, walkedInOrder},
		"a status":                        {entity.Filter{Statuses: []entity.Status{entity.Dead}}, Scope{}, walkedInOrder},
		"a topic that not all may see":    {entity.Filter{Topic: "a"}, Scope{Visible: many, Pairs: pairs}, walkedInOrder},
		"a pattern of one topic":          {entity.Filter{Topics: patterns}, Scope{Topics: few, Pairs: pairs}, walkedInOrder},
		"a pattern of many":               {entity.Filter{Topics: patterns}, Scope{Topics: many, Pairs: pairs}, foundTogether},
		"some of an archived topic":       {entity.Filter{Topic: "a"}, Scope{Number: number, Visible: few}, foundTogether},
		"some of a dead-letter topic":     {entity.Filter{Topic: "a"}, Scope{Number: number, Visible: few, Pairs: pairs}, walkedInOrder},
		"a pattern of archived topics":    {entity.Filter{Topics: patterns}, Scope{Topics: few}, foundTogether},
		"who may see one topic":           {entity.Filter{}, Scope{Visible: few, Pairs: pairs}, walkedInOrder},
		"who may see many":                {entity.Filter{}, Scope{Visible: many, Pairs: pairs}, foundTogether},
		"who may see many, none is known": {entity.Filter{UnknownOrigin: true}, Scope{Visible: many, Pairs: pairs}, walkedInOrder},
	} {
		check.Same(t, way(c.f, c.n), c.want, "%s", name)
	}
}
