package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jmoiron/sqlx"

	"github.com/dlq-manager/dlq-manager/cmd/internal/program"
	"github.com/dlq-manager/dlq-manager/pkg/migrate"
)

// migration implements the command "migrate".
type migration struct {
	base     program.Base
	all, yes bool
	stdout   io.Writer
}

func (m migration) run(ctx context.Context, args []string) error {
	if args[0] != "migrate" || len(args) != 2 {
		return fmt.Errorf("unknown command %q; there is: migrate up | down | version", args)
	}
	if m.base.Config.Database == nil {
		return errors.New("migrate: the configuration has no database section")
	}
	m.base.Config.Database.AutoMigrate = false
	db, err := m.base.PatientDatabase(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	if err := m.act(ctx, db, args[1]); err != nil {
		return fmt.Errorf("migrate %s: %w", args[1], err)
	}
	version, _, err := migrate.Version(ctx, db.DB)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(m.stdout, "schema version %d, newest %d\n", version, migrate.Latest())
	return err
}

func (m migration) act(ctx context.Context, db *sqlx.DB, action string) error {
	switch {
	case action == "up":
		return migrate.Up(ctx, db.DB)
	case action == "down" && !m.all:
		return migrate.Down(ctx, db.DB, 1)
	case action == "down" && (m.yes || m.base.Config.App.Environment == "dev"):
		return migrate.Down(ctx, db.DB, migrate.All)
	case action == "down":
		return fmt.Errorf("--all deletes every message and app.environment is %q; add --yes if you mean it",
			m.base.Config.App.Environment)
	case action == "version":
		return nil
	default:
		return errors.New("there is no such action; there is: up, down, version")
	}
}
