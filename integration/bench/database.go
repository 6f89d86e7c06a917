package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"

	_ "github.com/lib/pq" // the driver of the product, too
)

// database is one database of the server.
type database struct {
	*sql.DB
	url    *url.URL
	config string // path of the programs' configuration
}

// createDatabase makes a database on the server of a superuser's URL.
func createDatabase(ctx context.Context, server, name string) (*database, error) {
	admin, err := openDatabase(server)
	if err != nil {
		return nil, fmt.Errorf("create database %s: %w", name, err)
	}
	defer admin.close()
	if _, err := admin.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, fmt.Errorf("create database %s: %w", name, err)
	}
	admin.url.Path = "/" + name
	return openDatabase(admin.url.String())
}

func openDatabase(address string) (*database, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, fmt.Errorf("open a database: %w", err)
	}
	// One round trip a statement, as the product has it.
	query := u.Query()
	query.Set("binary_parameters", "yes")
	u.RawQuery = query.Encode()
	db, err := sql.Open("postgres", u.String())
	return &database{DB: db, url: u}, err
}

func (d *database) close() {
	if d != nil {
		_ = d.Close()
	}
}

// configText is a configuration that says where things are; all else is the
// programs' default.
func (d *database) configText(brokers []string) string {
	password, _ := d.url.User.Password()
	return fmt.Sprintf(`
server: {host: 127.0.0.1}
database: {host: %q, port: %s, name: %q, user: %q, password: %q}
kafka: {brokers: %s}
`, d.url.Hostname(), d.url.Port(), d.url.Path[1:], d.url.User.Username(), password, quote(brokers))
}

// quote writes a value as JSON, which is YAML too.
func quote(value any) string {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err) // lists of text can always be written
	}
	return string(out)
}

// settle gives every timed part the same start: nothing is left to be written
// from before, and the planner knows the tables.
func (d *database) settle(ctx context.Context) error {
	for _, statement := range []string{"VACUUM (ANALYZE) dlq.dlq_messages", "VACUUM (ANALYZE) dlq.records", "CHECKPOINT"} {
		if _, err := d.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// number runs a query that has one number as its answer.
func (d *database) number(ctx context.Context, query string, args ...any) (n int64, err error) {
	if err := d.QueryRowContext(ctx, query, args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("%s: %w", query, err)
	}
	return n, nil
}

// expectation is a number that must be there for a figure to count.
type expectation struct {
	what  string
	query string
	want  int64
}

// expect fails on the first number that is wrong.
func (d *database) expect(ctx context.Context, all ...expectation) error {
	for _, e := range all {
		got, err := d.number(ctx, e.query)
		if err != nil {
			return err
		}
		if got != e.want {
			return fmt.Errorf("the run is worthless: %s: %d, want %d", e.what, got, e.want)
		}
	}
	return nil
}

const (
	countRows     = `SELECT count(*) FROM dlq.dlq_messages`
	countCounters = `SELECT coalesce(sum(messages), 0) FROM dlq.message_counters`
)

// texts runs a query whose answer is one column of text.
func (d *database) texts(ctx context.Context, out *[]string, query string, args ...any) error {
	rows, err := d.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		*out = append(*out, text)
	}
	return rows.Err()
}
