package main

import (
	"cmp"
	"fmt"
	"regexp"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/entity"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// choice is one way to keep messages. The zero value, but for its sizes, is the
// product's.
type choice struct {
	name    string
	without string // what one would be without, or what it costs beyond the figures

	setup   []string // SQL on its database before the first row
	fill    string   // SQL that puts in rows which are there already; see filled
	rewrite []rewrite
	text    bool // arrays travel as text
	store   []postgres.Option
	id      func() uuid.UUID

	batch      int  // rows a statement that stores
	claim      int  // rows a statement that claims or finishes
	writers    int  // connections
	checkpoint bool // before every part
	again      bool // the same rows are claimed in every round, and fail
}

// product is what the programs do by default.
func product(name string) choice {
	return choice{name: name, id: entity.NewID, batch: 1000, claim: 500, writers: 1}
}

func (c choice) with(name, without string, change func(*choice)) choice {
	c.name, c.without = name, without
	change(&c)
	return c
}

func (c choice) sql(name, without string, statements ...string) choice {
	return c.with(name, without, func(c *choice) { c.setup = statements })
}

// rewrite takes a part out of a statement.
type rewrite struct {
	part *regexp.Regexp
	by   string
}

// The parts of the statements that append. What is left of one without INSERT is a
// subquery that nobody asks for, which the server does not carry out.
var (
	auditInsert    = rewrite{regexp.MustCompile(`INSERT INTO dlq\.audit \([^)]*\)`), ""}
	attemptsInsert = rewrite{regexp.MustCompile(`INSERT INTO dlq\.attempts \([^)]*\)`), ""}
	attemptsOnce   = rewrite{regexp.MustCompile(`ON CONFLICT \(message_id, attempt_no\) DO NOTHING`), ""}
)

// group is choices that are measured in turns. The first is the product's.
type group struct {
	name    string
	vacuum  bool // autovacuum is at work
	choices []choice
}

// filled is how many rows are there before the first of a choice with fill.
const filled = 500_000

// fillWith puts in narrow rows: what is asked is how large an index is that new ids
// go into.
func fillWith(id string) string {
	return fmt.Sprintf(`
		INSERT INTO dlq.dlq_messages (id, original_topic, error_message, created_at, updated_at)
		SELECT %s, 'orders.events.v1', 'an error', moment, moment
		FROM (SELECT n, now() - interval '1 day' + n * interval '1 millisecond' AS moment
			FROM generate_series(1, %d) AS n OFFSET 0) made`, id, filled)
}

const inOrder = `('018f' || lpad(to_hex(n), 8, '0') || '70008000' || substr(md5(n::text), 1, 12))::uuid`

const bytesColumns = `ALTER COLUMN payload SET STORAGE %[1]s, ALTER COLUMN value SET STORAGE %[1]s, ALTER COLUMN headers SET STORAGE %[1]s`

const table = "ALTER TABLE dlq.dlq_messages "

// groups are all choices. Indexes are those that the newest schema has.
func groups(indexes []string) []group {
	p := product("as it is")
	after := p.with("as it is, after a checkpoint", "", func(c *choice) { c.checkpoint = true })
	ordered := after.with("ids in the order of time (UUIDv7), 500,000 rows", "", func(c *choice) { c.fill = fillWith(inOrder) })
	vacuumed := p.with("autovacuum as the schema sets it", "", func(c *choice) { c.again = true })
	all := []group{
		{name: "bytes", choices: []choice{
			p,
			p.sql("payload, value, headers compressed (pglz)", "processor time when storing, and bytes that are read without unpacking", table+fmt.Sprintf(bytesColumns, "EXTENDED")),
			p.with("payload filled inline", "nothing: it is filled later", func(c *choice) {
				c.store = []postgres.Option{postgres.WithPayload(postgres.PayloadInline, postgres.DefaultPayloadLimit)}
			}),
			p.sql("toast_tuple_target 128", "short columns in the row: more of them are read out of line", table+"SET (toast_tuple_target = 128)"),
			p.sql("toast_tuple_target 2040", "narrow rows: more log and disk at every claim, fewer rows of a list on a page", table+"SET (toast_tuple_target = 2040)"),
			p.sql("toast_tuple_target 8160", "narrow rows: whole values are copied at every claim, a row or two on a page", table+"SET (toast_tuple_target = 8160)"),
		}},
		{name: "free space", choices: []choice{
			p,
			p.sql("fillfactor 85", "full pages: room is kept for claims of every row, wanted or not; what claims take on other pages, vacuum gives back", table+"SET (fillfactor = 85)"),
			p.sql("fillfactor 70", "full pages: as above, twice the room", table+"SET (fillfactor = 70)"),
		}},
		{name: "triggers and history", choices: []choice{
			p,
			p.sql("no counting triggers", "totals that need no scan; error groups", disableTriggers("%\\_count\\_%")...),
			p.sql("no trigger on updated_at", "updated_at that is right after an UPDATE by hand", disableTriggers("%updated\\_at")...),
			p.with("no line in the audit trail", "the audit trail of attempts", func(c *choice) { c.rewrite = []rewrite{auditInsert} }),
			p.with("no row in attempts", "the history of attempts", func(c *choice) {
				c.rewrite = []rewrite{attemptsInsert, attemptsOnce}
			}),
		}},
		{name: "arrays", choices: []choice{
			p,
			p.with("arrays as text, as lib/pq makes them", "arrays that the server takes without reading text", func(c *choice) { c.text = true }),
		}},
		{name: "batches", choices: []choice{
			p,
			p.with("100 rows a statement", "few statements: ten times as many round trips and commits", batches(100)),
			p.with("250 rows a statement", "few statements: four times as many round trips and commits", batches(250)),
			p.with("500 rows a statement", "few statements: twice as many round trips and commits of storing", batches(500)),
			p.with("1,000 rows a statement", "short claims: locks of twice as many messages are held at once", batches(1000)),
			p.with("2,000 rows a statement", "short statements: locks are held and memory is taken for twice as many rows and more", batches(2000)),
		}},
		{name: "connections", choices: []choice{
			p,
			p.with("2 connections", "nothing: writers are a setting", func(c *choice) { c.writers = 2 }),
			p.with("4 connections", "nothing: writers are a setting", func(c *choice) { c.writers = 4 }),
		}},
		{name: "log", choices: []choice{
			after,
			after.sql("wal_compression = pglz, after a checkpoint", "nothing of the product: a setting of the server",
				`DO $$BEGIN EXECUTE format('ALTER DATABASE %I SET wal_compression = pglz', current_database()); END$$`),
		}},
		{name: "ids", choices: []choice{
			ordered,
			ordered.with("random ids (UUIDv4), 500,000 rows", "new keys side by side in the index, and the time in the id", func(c *choice) {
				c.id, c.fill = uuid.New, fillWith("gen_random_uuid()")
			}),
		}},
		{name: "vacuum", vacuum: true, choices: []choice{
			vacuumed,
			vacuumed.sql("autovacuum by default", "early passes: a large table has ten times as many dead rows before one begins", table+`RESET (autovacuum_vacuum_scale_factor,
				autovacuum_vacuum_cost_delay, autovacuum_vacuum_insert_scale_factor, autovacuum_analyze_scale_factor)`),
			vacuumed.sql("no autovacuum", "room that is used again, and counts of rows for the planner", table+"SET (autovacuum_enabled = off)"),
		}},
	}
	for part := range (len(indexes) + indexesAtOnce - 1) / indexesAtOnce {
		g := group{name: fmt.Sprintf("indexes %d", part+1), choices: []choice{p}}
		for _, name := range indexes[part*indexesAtOnce : min((part+1)*indexesAtOnce, len(indexes))] {
			g.choices = append(g.choices, p.sql("without "+name, cmp.Or(uses[name], "what it is for, which nobody has noted"), "DROP INDEX dlq."+name))
		}
		all = append(all, g)
	}
	return all
}

// indexesAtOnce bounds the disk that a group takes.
const indexesAtOnce = 6

func batches(n int) func(*choice) { return func(c *choice) { c.batch, c.claim = n, n } }

func disableTriggers(like string) []string {
	return []string{fmt.Sprintf(`DO $$
		DECLARE
			v_name TEXT;
			v_found BOOLEAN := false;
		BEGIN
			FOR v_name IN SELECT tgname FROM pg_trigger
				WHERE tgrelid = 'dlq.dlq_messages'::regclass AND NOT tgisinternal AND tgname LIKE '%s'
			LOOP
				EXECUTE format('ALTER TABLE dlq.dlq_messages DISABLE TRIGGER %%I', v_name);
				v_found := true;
			END LOOP;
			IF NOT v_found THEN
				RAISE EXCEPTION 'no such trigger';
			END IF;
		END$$`, like)}
}

// uses are what the indexes are for.
var uses = map[string]string{
	"idx_dlq_messages_original_topic": "lists of a topic; the documents name it",
	"idx_dlq_messages_status":         "lists of a status, expired claims, the archiver's walk; the documents name it",
	"idx_dlq_messages_created_at":     "lists of all messages; the documents name it",
	"idx_dlq_messages_dlq_topic":      "lists of a dead-letter topic",
	"idx_dlq_messages_due":            "automatic retry after a failure",
	"idx_dlq_messages_root":           "lineages",
	"idx_dlq_messages_group":          "lists of an error group",
	"idx_dlq_messages_pending":        "the oldest waiting message of a topic",
	"idx_dlq_messages_last_retry":     "lists in the order of the last attempt",
	"idx_dlq_messages_ungrouped":      "rows by SQL that wait for a group",
}
