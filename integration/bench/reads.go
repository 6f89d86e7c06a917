package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"go.uber.org/zap"

	"github.com/dlq-manager/dlq-manager/pkg/auth"
	"github.com/dlq-manager/dlq-manager/pkg/repository/postgres"
)

// reads are how the questions of operators are answered while the table is
// large.
type reads struct {
	rows      int
	fill      time.Duration // of the table
	catalogue time.Duration // of the documents and their indexes
	size      int64         // bytes of the table with all that belongs to it
	documents int64         // bytes of the catalogue
	answers   []answered
	export    exported
}

// readsPart is the measurement of them.
type readsPart struct {
	*bench
	reads
}

// answered is how one question did.
type answered struct {
	question
	times []time.Duration // ascending
	found int             // things in one answer
}

// exported is how an export did.
type exported struct {
	work
	bytes  int64
	memory int64
}

// question is a request that is sent many times.
type question struct {
	name   string
	path   string
	list   string        // what the list is called in the answer
	want   time.Duration // 99 of 100 answers, at most; 0: nothing is demanded
	within string        // name of a question whose p99 this one's must be within twice of
	least  int           // things that must be in an answer
}

const (
	// repeats is how often a question is asked; the first answers of an API that has
	// just started are left out.
	repeats = 300
	warmUp  = 20

	pageSize   = 50
	deepPage   = 100_000 // of pageSize messages
	exportRows = 1_000_000
)

// run is the part of a run that measures reading alone.
func (p *readsPart) run(ctx context.Context) (err error) {
	d, err := p.database(ctx, "bench_reads")
	if err != nil {
		return err
	}
	defer d.close()
	out := &p.reads
	out.rows = p.opts.reads
	if err := p.openCatalogue(ctx, d); err != nil {
		return err
	}
	p.say("writing %d messages", out.rows)
	start := time.Now()
	if err := d.fillReads(ctx, out.rows); err != nil {
		return err
	}
	out.fill = time.Since(start)
	p.say("cataloguing them")
	start = time.Now()
	if err := d.catalogue(ctx, out.rows); err != nil {
		return err
	}
	out.catalogue = time.Since(start)
	if err := d.vacuumAll(ctx); err != nil {
		return err
	}
	if out.size, err = d.size(ctx); err != nil {
		return err
	}
	if out.documents, err = d.number(ctx, `SELECT pg_total_relation_size('dlq.message_documents')`); err != nil {
		return err
	}
	api, err := p.program("api", d).with("DLQ_REDRIVE_WORKERS=0").serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.stop()) }()
	questions, err := d.questions(ctx, out.rows)
	if err != nil {
		return err
	}
	for _, q := range questions {
		p.say("asking: %s", q.name)
		a, err := api.ask(ctx, q)
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		out.answers = append(out.answers, a)
	}
	return p.exportAll(ctx, api)
}

// ask sends a question again and again, one at a time over one connection.
func (r *running) ask(ctx context.Context, q question) (answered, error) {
	a := answered{question: q}
	for n := range warmUp + repeats {
		start := time.Now()
		body, err := r.fetch(ctx, q.path)
		took := time.Since(start)
		if err != nil {
			return a, err
		}
		if n == 0 {
			if a.found, err = things(body, q.list); err != nil {
				return a, err
			}
			if a.found < q.least {
				return a, fmt.Errorf("the run is worthless: %d %s, want %d or more", a.found, q.list, q.least)
			}
		}
		if n >= warmUp {
			a.times = append(a.times, took)
		}
	}
	slices.Sort(a.times)
	return a, nil
}

func (r *running) fetch(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s %s", path, res.Status, body)
	}
	return body, err
}

// things counts what is in an answer's list.
func things(body []byte, list string) (int, error) {
	var answer map[string]json.RawMessage
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, err
	}
	var all []json.RawMessage
	if err := json.Unmarshal(answer[list], &all); err != nil {
		return 0, fmt.Errorf("%s: %w", list, err)
	}
	return len(all), nil
}

// exportAll times one export, and checks that every line is a message.
func (p *readsPart) exportAll(ctx context.Context, api *running) (err error) {
	n := min(exportRows, p.opts.reads)
	p.say("exporting %d", n)
	out := &p.export
	out.work, err = timed(func() (int, error) {
		lines, size, err := api.export(ctx, fmt.Sprintf("/api/v1/export?limit=%d", n))
		out.bytes = size
		return lines, err
	})
	if err != nil {
		return err
	}
	if out.n != n {
		return fmt.Errorf("the run is worthless: %d lines exported, want %d", out.n, n)
	}
	out.memory, err = peakMemory(api.Pid())
	return err
}

func (r *running) export(ctx context.Context, path string) (lines int, size int64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		return 0, 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("%s: %s", path, res.Status)
	}
	buf := make([]byte, 256<<10)
	for {
		n, err := res.Body.Read(buf)
		lines += bytes.Count(buf[:n], []byte{'\n'})
		size += int64(n)
		if errors.Is(err, io.EOF) {
			return lines, size, nil
		}
		if err != nil {
			return lines, size, err
		}
	}
}

// questions are what is asked of so many rows. The deep page begins where page
// 100,000 does, or at nine tenths of a smaller table.
func (d *database) questions(ctx context.Context, rows int) ([]question, error) {
	deep := min(pageSize*(deepPage-1), rows*9/10)
	var at time.Time
	var id uuid.UUID
	// The newest stand first, so what stands behind so many is the row of that number.
	err := d.QueryRowContext(ctx, `SELECT created_at, id FROM dlq.dlq_messages ORDER BY created_at, id OFFSET $1 LIMIT 1`,
		max(rows-deep, pageSize)).Scan(&at, &id)
	if err != nil {
		return nil, fmt.Errorf("find the deep page: %w", err)
	}
	day := url.Values{"created_after": {at.Format(time.RFC3339)}, "created_before": {at.Add(24 * time.Hour).Format(time.RFC3339)}}
	const messages = "/api/v1/messages?"
	cursor, err := d.cursorAt(ctx, messages, at, id)
	if err != nil {
		return nil, err
	}
	first := "page 1 of all messages"
	return []question{
		{name: first, path: messages + "limit=50", list: "messages", want: wantPage, least: pageSize},
		{
			name: fmt.Sprintf("page %s by its cursor", thousands(deep/pageSize+1)), list: "messages", want: wantPage, least: pageSize,
			path: messages + "limit=50&cursor=" + cursor, within: first,
		},
		{name: "topics", path: "/api/v1/topics", list: "topics", want: wantPage, least: readTopics},
		{name: "error groups, the latest first", path: "/api/v1/groups?limit=50", list: "groups", want: wantPage, least: pageSize},
		{name: "error groups, the largest first", path: "/api/v1/groups?limit=50&sort=open", list: "groups", want: wantPage, least: pageSize},
		{
			name: "a status, a topic and a day", list: "messages", want: wantPage, least: 1,
			path: messages + "limit=50&status=DEAD&topic=" + readTopic(1) + "&" + day.Encode(),
		},
		{name: "a group", path: messages + "limit=50&group_id=" + readGroup(7).String(), list: "messages", want: wantPage, least: pageSize},
		{
			name: "free text, rare", list: "messages", want: wantText, least: 1,
			path: messages + "limit=50&q=" + fmt.Sprintf("charge-%07d", rows/2),
		},
		{name: "free text, common", path: messages + "limit=50&q=charged", list: "messages", want: wantText, least: pageSize},
		{
			name: "free text, two words of which one is rare", list: "messages", want: wantText, least: 1,
			path: messages + "limit=50&q=" + url.QueryEscape(fmt.Sprintf("charged charge-%07d", rows/3)),
		},
		{name: "free text that is nowhere", path: messages + "limit=50&q=zyxwvutsrq", list: "messages", want: wantText},
		{
			name: "an exact count of a topic and a status", list: "messages", want: wantPage, least: pageSize,
			path: messages + "limit=50&count=exact&status=PENDING&topic=" + readTopic(1),
		},
	}, nil
}

// cursorAt is the cursor of a place in a list, as the API would have given it on
// the page before: nobody walks 100,000 pages to be timed on the last.
func (d *database) cursorAt(ctx context.Context, question string, at time.Time, id uuid.UUID) (string, error) {
	place := binary.BigEndian.AppendUint64(nil, uint64(at.UnixMicro())) //nolint:gosec // times of this century
	place = append(place, id[:]...)
	signer, err := auth.NewSigner(auth.Config{}, zap.NewNop())
	if err != nil {
		return "", err
	}
	keys, err := postgres.NewSessions(sqlx.NewDb(d.DB, "postgres")).SigningKeys(ctx, auth.NewKey())
	if err != nil {
		return "", err
	}
	signer.Use(keys)
	sum := signer.Sign("cursor", question+"\n"+string(place))[:16]
	return base64.RawURLEncoding.EncodeToString(append(sum[:16:16], place...)), nil
}

const (
	readTopics = 12
	readGroups = 1000
)

func readTopic(n int) string { return fmt.Sprintf("reads%02d.events.v1", n) }

// readGroup is the id of group n of the messages that fillReads writes.
func readGroup(n int) uuid.UUID {
	return uuid.UUID(slices.Concat([]byte("group of reads"), []byte{byte(n >> 8), byte(n)}))
}

// fillReadRows writes messages $1 to $2 of $3 in the order of their ids, spread
// over thirty days: a fifth PENDING, most RESOLVED, the rest DEAD. The frequencies
// of groups differ by a thousand times.
const fillReadRows = `
	INSERT INTO dlq.dlq_messages (id, original_topic, error_message, status, retry_count, created_at, updated_at, last_retry_at,
		key, value, headers, payload, origin_confidence, dialect, consumer_group, error_class, group_id)
	SELECT ('018f' || lpad(to_hex(n), 8, '0') || '70008000' || substr(md5(n::text), 1, 12))::uuid,
		format('reads%s.events.v1', lpad((n % 12)::text, 2, '0')),
		format('order %s cannot be charged: charge-%s, code %s', n % 9973, lpad(n::text, 7, '0'), g),
		CASE WHEN n % 10 < 2 THEN 'PENDING' WHEN n % 10 < 8 THEN 'RESOLVED' ELSE 'DEAD' END,
		CASE WHEN n % 10 < 2 THEN 0 WHEN n % 10 < 8 THEN 1 ELSE 3 END,
		moment, moment, CASE WHEN n % 10 >= 2 THEN moment END,
		convert_to('key-' || n, 'UTF8'), convert_to(text, 'UTF8'), '\x00', text::jsonb, 'header', 'spring-dlt', 'bench',
		'com.example.Failure' || g % 20, ('67726f7570206f66207265616473' || lpad(to_hex(g), 4, '0'))::uuid
	FROM (
		SELECT n, now() - interval '30 days' + (n::float8 / $3::int) * interval '30 days' AS moment,
			(1000 * power((n::bigint * 7919 % 1000) / 1000.0, 3))::int % 1000 AS g,
			format('{"id": %s, "customer": {"id": %s, "name": "Customer %s"}, "note": "%s"}',
				n, n % 100000, n % 1000, repeat(md5(n::text), 6)) AS text
		FROM generate_series($1::int, $2::int) AS n OFFSET 0
	) made`

func (d *database) fillReads(ctx context.Context, rows int) error {
	if _, err := d.ExecContext(ctx, `
		INSERT INTO dlq.error_groups (id, class, title, first_seen, last_seen)
		SELECT ('67726f7570206f66207265616473' || lpad(to_hex(g), 4, '0'))::uuid, 'com.example.Failure' || g % 20,
			'order <n> cannot be charged: charge-<n>, code ' || g, now() - interval '30 days', now()
		FROM generate_series(0, 999) AS g`); err != nil {
		return fmt.Errorf("write the groups: %w", err)
	}
	var steps []int
	for from := 1; from <= rows; from += fillStep {
		steps = append(steps, from)
	}
	err := inBatches(fillConnections, 1, steps, func(from []int) error {
		_, err := d.ExecContext(ctx, fillReadRows, from[0], min(from[0]+fillStep-1, rows), rows)
		return err
	})
	if err != nil {
		return fmt.Errorf("fill the table: %w", err)
	}
	return d.expectRows(ctx, int64(rows))
}

// catalogue writes a document for every message by SQL, and builds the indexes
// behind them, which is how one would do it once for so many; the worker takes
// them as they are.
func (d *database) catalogue(ctx context.Context, rows int) error {
	var made []string
	found, err := d.QueryContext(ctx, `
		SELECT indexdef FROM pg_indexes WHERE schemaname = 'dlq' AND tablename = 'message_documents' AND indexdef LIKE '%USING gin%'`)
	if err != nil {
		return fmt.Errorf("catalogue: %w", err)
	}
	defer func() { _ = found.Close() }()
	for found.Next() {
		var text string
		if err := found.Scan(&text); err != nil {
			return err
		}
		made = append(made, text)
	}
	if err := found.Err(); err != nil {
		return err
	}
	statements := []string{`SET maintenance_work_mem = '1GB'`}
	for _, index := range made {
		statements = append(statements, "DROP INDEX dlq."+strings.Fields(index)[2])
	}
	statements = append(statements, writeDocuments)
	statements = append(append(statements, made...), `ANALYZE dlq.message_documents`,
		`UPDATE dlq.catalogue SET mark = now(), archive_mark = now(), walked_at = now(), archive_walked = now(), found_until = now()`)
	conn, err := d.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	for _, s := range statements {
		if _, err := conn.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("catalogue: %.60s: %w", s, err)
		}
	}
	return d.expect(ctx, expectation{"documents", `SELECT count(*) FROM dlq.message_documents`, int64(rows)})
}

// writeDocuments has the text and, in place of what the worker would find, four
// terms a message that no other has.
const writeDocuments = `
	INSERT INTO dlq.message_documents (message_id, version, text, terms)
	SELECT m.id, c.version, lower(m.error_message || E'\n' || m.payload::text),
		ARRAY[hashtextextended(m.id::text, 1), hashtextextended(m.id::text, 2), hashtextextended(m.id::text, 3),
		      hashtextextended(m.id::text, 4)]
	FROM dlq.dlq_messages m CROSS JOIN dlq.catalogue c`

// openCatalogue lets the program say which version of documents it searches.
func (b *bench) openCatalogue(ctx context.Context, d *database) (err error) {
	api, err := b.program("api", d).with("DLQ_REDRIVE_WORKERS=0").serve(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.stop()) }()
	return poll(ctx, 50*time.Millisecond, func() (bool, error) {
		n, err := d.number(ctx, `SELECT count(*) FROM dlq.catalogue WHERE version IS NOT NULL`)
		return n == 1, err
	})
}

func (d *database) vacuumAll(ctx context.Context) error {
	for _, s := range []string{
		"VACUUM (ANALYZE) dlq.dlq_messages", "VACUUM (ANALYZE) dlq.message_documents", "VACUUM (ANALYZE) dlq.group_counters",
		"VACUUM (ANALYZE) dlq.group_arrivals", "VACUUM (ANALYZE) dlq.message_counters", "CHECKPOINT",
	} {
		if _, err := d.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}
