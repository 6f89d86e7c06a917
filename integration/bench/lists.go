package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/dlq-manager/dlq-manager/pkg/repository"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// What lists and single messages cost beside the statements that read them.
const (
	listCallers = 4
	listSlice   = 600 * time.Millisecond // of one way before it is the other's turn
	listRounds  = 6                      // slices of each way
	listPage    = 20
	listDepth   = 1_000_000
	listIDs     = 5_000 // that are asked for by turns

	wantListShare = 0.7 // of the requests that bare SQL answers
	wantListDepth = 1.5 // times of page 1, at most
)

// listsPart asks the API for lists and messages, and the database for the same
// rows, by turns.
type listsPart struct {
	*bench
	rows, depth int
	answers     []compared
	profile     profile
}

// asked is a question in both its forms.
type asked struct {
	name      string
	path      func(n int) string // of the API
	check     func(n int, body []byte) error
	statement statement
	args      func(n int) []any
	rows      int // that the statement returns
}

// compared is how both ways answered a question.
type compared struct {
	name     string
	api, sql work
}

// share is how much of the database's own rate the API has.
func (c compared) share() float64 { return quotient(c.api.perSecond(), c.sql.perSecond()) }

func (p *listsPart) run(ctx context.Context) (err error) {
	d := p.live
	if err := p.finishCatalogue(ctx, d); err != nil {
		return err
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	n, err := d.number(ctx, countRows)
	if err != nil {
		return err
	}
	p.rows, p.depth = int(n), min(p.opts.share(listDepth), int(n)-2*listPage)
	if p.depth < p.opts.share(listDepth) {
		return fmt.Errorf("the run is worthless: %d rows, want more than %d", p.rows, p.opts.share(listDepth)+2*listPage)
	}
	questions, err := d.listQuestions(ctx, p.depth)
	if err != nil {
		return err
	}
	prog := p.program("api", d).with("DLQ_REDRIVE_WORKERS=0")
	noting, err := p.note(ctx, d, &prog)
	if err != nil {
		return err
	}
	api, err := prog.serve(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(p.askAll(ctx, d, api, questions), api.stop()); err != nil {
		return err
	}
	p.profile, err = noting.done(ctx)
	return err
}

// askAll lets every question be answered in both ways by turns, so that all of
// them meet the same machine.
func (p *listsPart) askAll(ctx context.Context, d *database, api *running, questions []asked) error {
	callers, err := dialAll(ctx, api.url, listCallers)
	defer closeAll(callers)
	if err != nil {
		return err
	}
	d.SetMaxIdleConns(listCallers)
	p.answers = make([]compared, len(questions))
	ways := make([]twoWays, len(questions))
	for i, q := range questions {
		stmt, err := d.PrepareContext(ctx, q.statement.query)
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		defer func() { _ = stmt.Close() }()
		p.answers[i].name = q.name
		ways[i] = twoWays{
			api: func(worker, n int) error { return q.askAPI(callers[worker], worker+n*listCallers) },
			sql: func(worker, n int) error { return q.askSQL(ctx, stmt, worker+n*listCallers) },
		}
	}
	for round := range listRounds + 1 {
		p.say("asking the API and the database by turns: round %d of %d", round, listRounds)
		for i := range questions {
			c, err := ways[i].compare(ctx, round%2 == 1)
			if err != nil {
				return fmt.Errorf("%s: %w", questions[i].name, err)
			}
			if round > 0 { // the first connects, plans, and fills the buffers
				p.answers[i].api, p.answers[i].sql = p.answers[i].api.plus(c.api), p.answers[i].sql.plus(c.sql)
			}
		}
	}
	return nil
}

// twoWays are both ways to have an answer.
type twoWays struct{ api, sql func(worker, n int) error }

// compare asks in one way and then in the other.
func (w twoWays) compare(ctx context.Context, sqlFirst bool) (c compared, err error) {
	one := func(ask func(worker, n int) error) func() (int, error) {
		return func() (int, error) {
			done, _, err := hammer(ctx, listCallers, listSlice, ask)
			return done.n, err
		}
	}
	if sqlFirst {
		if c.sql, err = timed(one(w.sql)); err != nil {
			return c, err
		}
	}
	if c.api, err = timed(one(w.api)); err != nil || sqlFirst {
		return c, err
	}
	c.sql, err = timed(one(w.sql))
	return c, err
}

func (p *listsPart) profiles() []profile { return []profile{p.profile} }

// finishCatalogue lets the catalogue of searches be through, as it is in the end,
// so that nobody makes documents while reading is measured. Nothing is searched
// for by words afterwards.
func (b *bench) finishCatalogue(ctx context.Context, d *database) error {
	if err := b.openCatalogue(ctx, d); err != nil {
		return err
	}
	_, err := d.ExecContext(ctx, catalogueDone)
	if err != nil {
		return fmt.Errorf("finish the catalogue: %w", err)
	}
	return nil
}

const catalogueDone = `UPDATE dlq.catalogue
	SET mark = now(), archive_mark = now(), walked_at = now(), archive_walked = now(), found_until = now()`

func (q asked) askAPI(c *caller, n int) error {
	body, err := c.get(q.path(n))
	if err != nil {
		return err
	}
	return q.check(n, body)
}

func (q asked) askSQL(ctx context.Context, stmt *sql.Stmt, n int) error {
	got, err := readAll(ctx, stmt, q.args(n)...)
	if err == nil && got != q.rows {
		err = fmt.Errorf("the run is worthless: %d rows, want %d", got, q.rows)
	}
	return err
}

const (
	firstOfTopic = "page 1 of a topic"
	firstOfAll   = "page 1 of all messages"
	byCursor     = "a page by its cursor"
	oneByID      = "a message by its id"
)

// listQuestions are what is asked: what the API answers, and the statement with
// which its store does.
func (d *database) listQuestions(ctx context.Context, depth int) ([]asked, error) {
	topic := originalTopic(names[len(names)-1])
	before, err := d.placeAt(ctx, depth)
	if err != nil {
		return nil, err
	}
	ids, err := d.someIDs(ctx, listIDs)
	if err != nil {
		return nil, err
	}
	list, err := d.recorded(func(s *postgres.Store) error {
		_, err := s.List(ctx, topic, repository.Page{Number: 1, Size: listPage})
		return err
	})
	if err != nil {
		return nil, err
	}
	// The API asks for one message more than it shows, to know whether there is
	// another page.
	search := func(after repository.Place) (statement, error) {
		return d.recorded(func(s *postgres.Store) error {
			_, err := s.Search(ctx, repository.SearchQuery{After: after, Limit: listPage + 1})
			return err
		})
	}
	first, err := search(repository.Place{})
	if err != nil {
		return nil, err
	}
	deep, err := search(before)
	if err != nil {
		return nil, err
	}
	one, err := d.recorded(func(s *postgres.Store) error {
		_, err := s.Get(ctx, ids[0], 1<<20)
		return err
	})
	if err != nil {
		return nil, err
	}
	const all = "/api/v1/messages?"
	page := fmt.Sprintf("%slimit=%d", all, listPage)
	cursor, err := d.cursorAt(ctx, all, before.CreatedAt, before.ID)
	if err != nil {
		return nil, err
	}
	return []asked{
		listAsked(firstOfTopic, fmt.Sprintf("/api/v1/dlq/%s?page_size=%d", topic, listPage), list, listPage),
		listAsked(firstOfAll, page, first, listPage+1),
		listAsked(byCursor, page+"&cursor="+cursor, deep, listPage+1),
		{
			name: oneByID, statement: one, rows: 1,
			path: func(n int) string { return "/api/v1/dlq/messages/" + ids[n%len(ids)].String() },
			args: func(n int) []any { return append([]any{ids[n%len(ids)].String()}, one.args[1:]...) },
			check: func(n int, body []byte) error {
				if id := ids[n%len(ids)].String(); !bytes.Contains(body, []byte(id)) {
					return fmt.Errorf("the run is worthless: no message %s in %.100s", id, body)
				}
				return nil
			},
		},
	}, nil
}

// listAsked is a question whose answer is always the same list.
func listAsked(name, path string, s statement, rows int) asked {
	return asked{
		name: name, statement: s, rows: rows,
		path:  func(int) string { return path },
		args:  func(int) []any { return s.args },
		check: func(n int, body []byte) error { return checkList(n, body, "messages", listPage) },
	}
}

// checkEach is which answers of a list are counted: to read all of them would
// take the machine's time from what is measured. Of the others only the length is
// looked at.
const checkEach = 64

// checkList wants an answer's list to have so many things.
func checkList(n int, body []byte, list string, want int) error {
	if least := want * leastBytes(list); len(body) < least {
		return fmt.Errorf("the run is worthless: %d bytes for %d %s, want %d or more: %.100s", len(body), want, list, least, body)
	}
	if n%checkEach != 0 {
		return nil
	}
	got, err := things(body, list)
	if err == nil && got < want {
		err = fmt.Errorf("the run is worthless: %d %s, want %d", got, list, want)
	}
	return err
}

// leastBytes is what no thing of a list is shorter than.
func leastBytes(list string) int {
	if list == "messages" {
		return 200
	}
	return 40
}

// placeAt is the place of the message behind which those begin that have so many
// before them: the newest is the first.
func (d *database) placeAt(ctx context.Context, depth int) (p repository.Place, err error) {
	err = d.QueryRowContext(ctx, `SELECT created_at, id FROM dlq.dlq_messages
		ORDER BY created_at DESC, id DESC OFFSET $1 LIMIT 1`, max(depth-1, 0)).Scan(&p.CreatedAt, &p.ID)
	if err != nil {
		return p, fmt.Errorf("find the message before depth %d: %w", depth, err)
	}
	return p, nil
}

// someIDs are ids from all over the table, in an order that is none.
func (d *database) someIDs(ctx context.Context, n int) ([]uuid.UUID, error) {
	rows, err := d.QueryContext(ctx, `SELECT id FROM dlq.dlq_messages
		WHERE random() < 1.5 * $1::int / (SELECT count(*) FROM dlq.dlq_messages)::float8 ORDER BY random() LIMIT $1::int`, n)
	if err != nil {
		return nil, fmt.Errorf("choose messages: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var ids []uuid.UUID
	for rows.Next() {
		var id uuid.UUID
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("choose messages: %w", err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil || len(ids) == 0 {
		return nil, errors.Join(err, errors.New("choose messages: there are none"))
	}
	return ids, nil
}

func (p *listsPart) lines() []line {
	var lines []line
	for _, c := range p.answers {
		share := c.share()
		lines = append(lines, line{
			work: p.title(c.name), figure: each(c.api.perSecond()),
			beside: fmt.Sprintf("its statement by the same driver: %s; answers: %s and %s", each(c.sql.perSecond()),
				thousands(c.api.n), thousands(c.sql.n)), ratio: fmt.Sprintf("%.2f", share),
			wanted: fmt.Sprintf("ratio ≥ %.1f", wantListShare), reached: share >= wantListShare,
			limits: c.api.cpu.limits(c.api.n, "request", listCallers),
		})
	}
	first, deep := p.answer(firstOfAll), p.answer(byCursor)
	times := quotient(first.api.perSecond(), deep.api.perSecond())
	return append(lines, line{
		work: p.title(byCursor), figure: perRequest(deep.api.rate), beside: firstOfAll + ": " + perRequest(first.api.rate),
		ratio: fmt.Sprintf("%.2f", times), wanted: fmt.Sprintf("ratio ≤ %.1f", wantListDepth),
		reached: times > 0 && times <= wantListDepth, limits: "as above",
	})
}

// title names what is read.
func (p *listsPart) title(name string) string {
	if name == byCursor {
		name += ", at depth " + thousands(p.depth)
	}
	return name
}

func (p *listsPart) answer(name string) compared {
	i := slices.IndexFunc(p.answers, func(c compared) bool { return c.name == name })
	if i < 0 {
		return compared{}
	}
	return p.answers[i]
}

// perRequest is how long a caller waits for an answer on average.
func perRequest(r rate) string {
	return fmt.Sprintf("%.2f ms", quotient(float64(listCallers)*1000, r.perSecond()))
}

func (p *listsPart) method() string {
	return fmt.Sprintf("- **Lists and single messages.** The table that was ingested, %s messages; one API, %d connections,\n"+
		"  each asking as soon as it has its answer. *Its statement* is the one that the store sends for\n"+
		"  that page or message, with the same arguments, prepared, by lib/pq in as many connections, and every\n"+
		"  column of every row taken: no transaction around it, no session settings, no look at who asks, no JSON\n"+
		"  and no HTTP. Every answer must have a least length, and one in %d is decoded and counted, before the next\n"+
		"  is asked for. The API runs with `DLQ_REDRIVE_WORKERS=0`: no retries are asked for, and none are looked for.\n"+
		"  All take turns of %s, %d each, in the order that lets either way be first as often.\n"+
		"  Pages have %d messages; ids are random ones of %s. The deep page is asked with the cursor that the\n"+
		"  page before it would have given. The catalogue of searches is marked as complete, so that nobody makes\n"+
		"  documents meanwhile. The client in the bench knows only this much HTTP: what a whole one takes\n"+
		"  would be counted as the API's.\n",
		thousands(p.rows), listCallers, checkEach, seconds(listSlice), listRounds, listPage, thousands(listIDs))
}
