package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "github.com/lib/pq" // the product's driver
	"golang.org/x/sync/errgroup"
)

// database is a database of one part of the benchmark, on the benchmark's PostgreSQL server.
type database struct {
	*sql.DB
	url    *url.URL
	name   string
	config string // path of the configuration file of the programs that use this database
}

// openDatabase opens a pool for a database, with one round trip per statement, as the product does.
func openDatabase(server, name string) *database {
	u := must(url.Parse(server))
	u.Path = "/" + name
	query := u.Query()
	query.Set("binary_parameters", "yes")
	u.RawQuery = query.Encode()
	return &database{DB: must(sql.Open("postgres", u.String())), url: u, name: name}
}

// next returns a number that is unique in this run, for the names of databases, consumer groups and
// topics.
func (b *bench) next() int {
	b.named++
	return b.named
}

// database creates a database, in which the API of this commit creates the schema. The configuration makes the ingester
// read the dead-letter topics whose names begin with the parameter topics and a hyphen.
func (s *side) database(ctx context.Context, name, topics string) *database {
	name = strings.ReplaceAll(fmt.Sprintf("%s_%s_%d", s.prefix, name, s.next()), "-", "_")
	s.administer(ctx, "CREATE DATABASE "+name)
	d := openDatabase(s.server, name)
	d.config = filepath.Join(s.folder, name+".yaml")
	check(os.WriteFile(d.config, []byte(d.settings(s.brokers, topics)), 0o600))
	output(ctx, "", filepath.Join(s.programs, "api"), "--config", d.config, "migrate", "up")
	return d
}

// settings returns a program's configuration with the addresses of the servers and the names of topics; every other
// setting keeps its default.
func (d *database) settings(brokers []string, topics string) string {
	password, _ := d.url.User.Password()
	list := must(json.Marshal(brokers)) // JSON is valid YAML
	return fmt.Sprintf(`
server: {host: 127.0.0.1}
database: {host: %q, port: %s, name: %q, user: %q, password: %q}
kafka: {brokers: %s, consumer_group: %q, dlq_topic_pattern: %q}
`, d.url.Hostname(), d.url.Port(), d.name, d.url.User.Username(), password, list, d.name, topics+"-*.dlq.v1")
}

// administer executes statements as the superuser of the server.
func (b *bench) administer(ctx context.Context, statements ...string) {
	admin := openDatabase(b.server, "postgres")
	defer admin.Close()
	check(admin.run(ctx, statements...))
}

// drop removes a database. It also works when ctx has ended, and ignores nil.
func (b *bench) drop(ctx context.Context, d *database) {
	if d != nil {
		_ = d.Close()
		b.administer(context.WithoutCancel(ctx), "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
	}
}

func (d *database) run(ctx context.Context, statements ...string) error {
	for _, statement := range statements {
		if _, err := d.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%.80s: %w", statement, err)
		}
	}
	return nil
}

// parallel executes statements over the given number of connections.
func (d *database) parallel(ctx context.Context, connections int, statements []string) {
	d.SetMaxIdleConns(connections)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(connections)
	for _, statement := range statements {
		group.Go(func() error { return d.run(ctx, statement) })
	}
	check(group.Wait())
}

// settle brings the database into the same state before every measurement: no dead rows, planner statistics up to date,
// no unwritten pages, no autovacuum at work.
func (d *database) settle(ctx context.Context) {
	if d == nil {
		return
	}
	check(d.run(ctx, "VACUUM (ANALYZE)", "CHECKPOINT"))
	await(ctx, 10*time.Minute, 100*time.Millisecond, "the end of autovacuum", func() bool {
		return d.number(ctx, `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'autovacuum worker'`) == 0
	})
}

// number runs a query that returns one number.
func (d *database) number(ctx context.Context, query string, args ...any) int64 {
	return must(strconv.ParseInt(d.text(ctx, query, args...), 10, 64))
}

// text runs a query that returns one text.
func (d *database) text(ctx context.Context, query string, args ...any) (text string) {
	if err := d.QueryRowContext(ctx, query, args...).Scan(&text); err != nil {
		check(fmt.Errorf("%s: %w", query, err))
	}
	return text
}

// list runs a query that returns one column of values without spaces, and returns the values as texts.
func (d *database) list(ctx context.Context, query string, args ...any) []string {
	text := d.text(ctx, `SELECT coalesce(string_agg(one::text, ' '), '') FROM (`+query+`) AS answer (one)`, args...)
	return strings.Fields(text)
}

// has reports whether the database has a table or view. The benchmark asks because the schemas of two commits may
// differ.
func (d *database) has(ctx context.Context, name string) bool {
	return d.number(ctx, `SELECT count(to_regclass($1))`, name) == 1
}

const countRows = `SELECT count(*) FROM dlq.dlq_messages`

// expect ends the benchmark when a count is not the wanted one, because figures that depend on it would be wrong.
func expect(what string, got, want int64) {
	if got != want {
		check(fmt.Errorf("invalid run: %s: %d, want %d", what, got, want))
	}
}

// await repeats ok until it is true, and fails after timeout.
func await(ctx context.Context, timeout, every time.Duration, what string, ok func() bool) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("waited %s for %s", timeout, what))
	defer cancel()
	tick := time.Tick(every)
	for !ok() {
		select {
		case <-ctx.Done():
			check(context.Cause(ctx))
		case <-tick:
		}
	}
}

const (
	fillStep   = 20_000 // rows per statement
	fillTopics = 12
)

// fillRows inserts messages using the ten documented columns: rows %d to %d of %d, with times
// spread over %d days that end %d days ago. The other parameters are the prefix of the topic names,
// the status as SQL, and how often the payload repeats 32 characters.
const fillRows = `
	INSERT INTO dlq.dlq_messages (id, original_topic, error_message, retry_count, max_retries, payload, status,
		created_at, updated_at, last_retry_at)
	SELECT ('018f' || lpad(to_hex(n), 8, '0') || '70008000' || substr(md5(n::text), 1, 12))::uuid,
		format('%[6]s%%s.events.v1', lpad((n %% 12)::text, 2, '0')),
		format('order %%s cannot be charged: charge-%%s, code %%s', n %% 9973, lpad(n::text, 7, '0'), n::bigint * 7919 %% 1000),
		CASE status WHEN 'PENDING' THEN 0 WHEN 'RESOLVED' THEN 1 ELSE 3 END, 3,
		jsonb_build_object('id', n, 'customer', jsonb_build_object('id', n %% 100000, 'name', 'Customer ' || n %% 1000),
			'note', repeat(md5(n::text), %[8]d)),
		status, moment, moment, CASE WHEN status <> 'PENDING' THEN moment END
	FROM (
		SELECT n, now() - make_interval(days => %[4]d + %[5]d) + n / %[3]d.0::float8 * make_interval(days => %[4]d) AS moment, %[7]s AS status
		FROM generate_series(%[1]d, %[2]d) AS n OFFSET 0
	) made`

// fill inserts messages with SQL statements; all triggers and indexes of the table stay active.
func (d *database) fill(ctx context.Context, rows, days, daysAgo int, topics, status string, repeats int) {
	var steps []string
	for from := 1; from <= rows; from += fillStep {
		steps = append(steps, fmt.Sprintf(fillRows, from, min(from+fillStep-1, rows), rows, days, daysAgo, topics, status, repeats))
	}
	d.parallel(ctx, 2, steps)
	expect("rows by SQL", d.number(ctx, countRows), int64(rows))
	d.settle(ctx)
}
