package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	_ "github.com/lib/pq" // the driver with which createDatabase connects to PostgreSQL

	"github.com/dlq-manager/dlq-manager/integration/shop"
)

const databaseName = "dlq_manager"

// databaseAddress is a database with its user.
type databaseAddress struct {
	host, port, name, user, password string
}

// createDatabase creates the demo's database on the server of a superuser's URL. The programs of the demo connect to it
// as this superuser.
func createDatabase(ctx context.Context, server string) (databaseAddress, error) {
	db, err := sql.Open("postgres", server)
	if err != nil {
		return databaseAddress{}, fmt.Errorf("create database: %w", err)
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+databaseName); err != nil {
		return databaseAddress{}, fmt.Errorf("create database: %w", err)
	}
	u, err := url.Parse(server)
	if err != nil {
		return databaseAddress{}, fmt.Errorf("create database: %w", err)
	}
	password, _ := u.User.Password()
	return databaseAddress{host: u.Hostname(), port: u.Port(), name: databaseName, user: u.User.Username(), password: password}, nil
}

// writeConfig writes the programs' configuration file. Only its owner can read it, because it
// contains the database's password.
func (s site) writeConfig() error {
	if err := os.WriteFile(s.config, []byte(s.configText()), 0o600); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

func (s site) configText() string {
	db := s.database
	return fmt.Sprintf(`# Written by the demo, which deletes it at its end. The ingester listens on %s.
app:
  environment: dev
log:
  format: console
server:
  host: %s
  port: %s
database:
  host: %s
  port: %s
  name: %s
  user: %s
  password: %s
  ssl_mode: disable
kafka:
  brokers: %s
  dlq_topic_pattern: "*.dlq.v1"
redrive:
  outcome_interval: 1s
  consumer_groups:
    - {topic: "payments.*", group: %s}
    - {topic: web-orders, group: web-orders-billing}
schemas:
  registries: [{name: shop, url: %s}]
`, portOf(s.ingester), loopback, portOf(s.api), quote(db.host), db.port, quote(db.name), quote(db.user), quote(db.password), quote(s.brokers), quote(shop.PaymentsGroup), quote(s.registry))
}

// quote encodes a value as JSON, which is valid YAML.
func quote(value any) string {
	out, err := json.Marshal(value)
	if err != nil {
		panic(err) // cannot happen: texts and lists of texts can always be encoded
	}
	return string(out)
}
