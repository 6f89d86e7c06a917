package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"

	"github.com/dlq-manager/dlq-manager/integration/stack"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
)

// servers are as in production, but for their size. Nothing but what is measured
// may work beside it: no vacuum, no checkpoint by the clock.
var servers = map[string]string{
	"fsync":              "on",
	"synchronous_commit": "on",
	"full_page_writes":   "on",
	"shared_buffers":     "1GB",
	"max_wal_size":       "8GB",
	"checkpoint_timeout": "1h",
	"autovacuum":         "off",
}

func settings() string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		out = append(out, fmt.Sprintf("`%s=%s`", name, servers[name]))
	}
	return strings.Join(out, ", ")
}

// bench is one run.
type bench struct {
	opts  options
	log   io.Writer
	admin *sql.DB
	url   *url.URL
}

// templateName is the database that those of all choices are copied from.
const templateName = "choices_template"

// measure does the whole run. Nothing that it starts is left behind.
func measure(ctx context.Context, opts options, log io.Writer) (res result, err error) {
	s, err := stack.Start(ctx, stack.Options{Postgres: true, Own: true, Dir: opts.dir, Log: log, PostgresSettings: servers})
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	b := &bench{opts: opts, log: log}
	if b.url, err = url.Parse(s.DatabaseURL()); err != nil {
		return res, err
	}
	query := b.url.Query()
	query.Set("binary_parameters", "yes") // as the product
	b.url.RawQuery = query.Encode()
	if b.admin, err = sql.Open("postgres", b.url.String()); err != nil {
		return res, err
	}
	defer func() { _ = b.admin.Close() }()
	indexes, err := b.template(ctx)
	if err != nil {
		return res, err
	}
	if res.machine, err = describe(ctx, b.admin); err != nil {
		return res, err
	}
	res.opts = opts
	for _, g := range groups(indexes) {
		if !strings.Contains(g.name, opts.only) {
			continue
		}
		lines, err := b.group(ctx, g)
		if err != nil {
			return res, fmt.Errorf("%s: %w", g.name, err)
		}
		res.groups = append(res.groups, measured{g.name, lines})
	}
	if len(res.groups) == 0 {
		return res, fmt.Errorf("no group has %q in its name", opts.only)
	}
	return res, nil
}

// at is the URL of another database of the server.
func (b *bench) at(name string) string {
	u := *b.url
	u.Path = "/" + name
	return u.String()
}

// template makes the schema and says which indexes messages have beside the key.
func (b *bench) template(ctx context.Context) (indexes []string, err error) {
	if _, err := b.admin.ExecContext(ctx, "CREATE DATABASE "+templateName); err != nil {
		return nil, err
	}
	db, err := sql.Open("postgres", b.at(templateName))
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	if err := migrate.Up(ctx, db); err != nil {
		return nil, err
	}
	var list string
	err = db.QueryRowContext(ctx, `SELECT string_agg(indexrelid::regclass::text, ' ' ORDER BY 1) FROM pg_index
		WHERE indrelid = 'dlq.dlq_messages'::regclass AND NOT indisprimary`).Scan(&list)
	list = strings.ReplaceAll(list, "dlq.", "")
	return slices.Sorted(slices.Values(strings.Fields(list))), err
}

// group measures choices in turns: all of them one round, then the next. Their order
// is another in every round, so that none always comes first or behind the same.
func (b *bench) group(ctx context.Context, g group) (lines []line, err error) {
	fmt.Fprintf(b.log, "choices: %s: %d in turns\n", g.name, len(g.choices))
	if err := b.vacuum(ctx, g.vacuum); err != nil {
		return nil, err
	}
	// The product's way is measured twice: how far the two are apart is what a
	// difference must exceed to say something.
	choices := append(slices.Clone(g.choices), g.choices[0])
	trials := make([]*trial, 0, len(choices))
	defer func() {
		for _, t := range trials {
			err = errors.Join(err, t.close(b))
		}
	}()
	for i, c := range choices {
		t, err := b.open(ctx, c, fmt.Sprintf("choice_%d", i))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		trials = append(trials, t)
	}
	if _, err := b.admin.ExecContext(ctx, "CHECKPOINT"); err != nil {
		return nil, err
	}
	order := rand.New(rand.NewPCG(5, 6))
	for round := range b.opts.rounds {
		for _, i := range order.Perm(len(trials)) {
			t := trials[i]
			if err := t.round(ctx, round, b.opts); err != nil {
				return nil, fmt.Errorf("%s: %w", t.choice.name, err)
			}
		}
	}
	for _, t := range trials {
		if err := t.verify(ctx, b.opts); err != nil {
			return nil, fmt.Errorf("%s: the run is worthless: %w", t.choice.name, err)
		}
		lines = append(lines, t.line())
	}
	return lines, nil
}

// vacuum turns autovacuum on or off, with looks as often as it takes when work of
// minutes is done in seconds.
func (b *bench) vacuum(ctx context.Context, on bool) error {
	for _, statement := range []string{
		fmt.Sprintf("ALTER SYSTEM SET autovacuum = %t", on),
		"ALTER SYSTEM SET autovacuum_naptime = '1s'",
		"SELECT pg_reload_conf()",
	} {
		if _, err := b.admin.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
